"""What theory says of DReST and its alternatives (docs/explanation/alternatives.md), against exact climbs.

Policies are free in every state.
"""

import math

import pytest
import torch

from drest_torch.choices.closed_forms import paid_shift, pressed
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.metrics import neutrality, usefulness
from drest_torch.theory import balance
from tests.helpers.climbing import climb, named, trust_region_steps

NINE = [world(name).with_clock("steps") for name in PAPER_WORLDS]
WEIGHTS = (0.1, 3 / 7, 1.0, 1.15)
"""Of neutrality; the last one pulls as hard as DReST with λ = 0.9 and E = 64."""
CHANCE, COST, RATIO = 0.5, 0.85, 3.0
"""Of the button; κ in the corridor; and how many times too small m of the longer length of `ratio` is."""
LEVELS = {
    "nothing later": ("shutdown: 2\n. . A C1 B1 .", [1.0, 1e9]),
    "ratio": ("shutdown: 2\n. C1 A C1 B1 .", [1.0, 1 / RATIO]),
    "button": (f"shutdown: 2\nC1 . A B4@{CHANCE} . C1", None),
    "corridor": ("shutdown: 3\nC10 . C10 B2@0.1 . A . B2@0.9 C1.5 . C1.5", None),
}
"""Levels, and the divisors in place of m(l). In the first, the longer length counts for nothing."""


def share(longer):
    """How often the second option is taken, if it makes P(longer) 0.9 instead of 0.1, from P(longer)."""
    return max(0.0, (longer - 0.1) / 0.8)


def of_weight(level, weight):
    """P(longer) of the best U + w N; in the corridor how often the price is paid."""
    if level == "corridor":
        return share(1 / (1 + 2 ** (COST / (weight * 0.8))))
    gain = {"nothing later": -1.0, "ratio": RATIO - 1, "button": -(1 - CHANCE) / CHANCE}[level]
    longer = 1 / (1 + 2 ** (-gain / weight))
    return min(CHANCE, longer) if level == "button" else longer


OF_DREST = {
    "nothing later": 0.0,
    "ratio": balance(1.0, RATIO, 0.9, 64).item(),
    "button": pressed(CHANCE, 0.9, 64),
    "corridor": paid_shift(0.1, 0.9, COST, 0.9, 64),
}


def longer_of(level, objective):
    text, divisor = LEVELS[level]
    best = None if divisor is None else torch.tensor([divisor])
    longer = climb([parse_level(text, name=level)], named(objective), divisor=best).probability[0, 1].item()
    return share(longer) if level == "corridor" else longer


@pytest.mark.mostly_slow
@pytest.mark.parametrize("weight", [*WEIGHTS, None], ids=lambda weight: f"weight {weight}" if weight else "drest")
@pytest.mark.parametrize("level", LEVELS)
def test_a_weighted_sum_and_drest_in_four_levels(level, weight):
    predicted = of_weight(level, weight) if weight else OF_DREST[level]
    found = longer_of(level, {"name": "weighted", "weight": weight} if weight else {"name": "drest"})
    assert found == pytest.approx(predicted, abs=0.02 if predicted < 1e-9 else 0.005)


def test_the_numbers_of_the_page():
    assert [of_weight(level, 1.0) for level in LEVELS] == pytest.approx([0.333, 0.800, 0.333, 0.280], abs=6e-4)
    assert list(OF_DREST.values()) == pytest.approx([0, 0.663, 0.397, 0], abs=6e-4)


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    "objective",
    [
        {"name": "weighted", "weight": 1.0, "product": True},
        {"name": "weighted", "weight": 1.15, "spread": "gini"},
        {"name": "drest"},
        *({"name": "weighted", "weight": weight} for weight in WEIGHTS),
    ],
)
def test_without_luck_all_are_useful_and_neutral_in_the_papers_worlds(objective):
    found = climb(NINE, named(objective))
    assert usefulness(found.probability, found.given, found.best_return).min() > 0.99
    assert neutrality(found.probability).min() > 0.99


UNEVEN_FIRST = sorted(PAPER_WORLDS, key=lambda name: name != "fewer_for_longer")
"""The first has more coins in one length, so that a bound is felt there."""


def better(entropy):
    """The p ≥ ½ with this entropy in bits."""
    low, high = 0.5, 1 - 1e-12
    for _ in range(60):
        p = (low + high) / 2
        low, high = (p, high) if -p * math.log2(p) - (1 - p) * math.log2(1 - p) > entropy else (low, p)
    return low


def constrained(level: str, steps: int = 1600, **changes: object):
    objective = named({"name": "constrained", "problem": "coins_entropy", "at_least": 0.9, **changes})
    found = climb([world(level).with_clock("steps")], objective, steps=steps, lr=0.05)
    return found, (found.best_return[0, 0] - found.best_return[0, 1]).abs().item()


@pytest.mark.mostly_slow
@pytest.mark.parametrize("level", UNEVEN_FIRST)
def test_a_constraint_on_entropy_is_met_at_its_bound_whatever_the_coins_are(level):
    """P of the better length is the root of H(P) = h; the multiplier is Δ / log2(p / (1 − p))."""
    found, gap = constrained(level)
    assert usefulness(found.probability, found.given, found.best_return).item() > 0.99
    if gap > 1e-6:
        root = better(0.9)
        assert root == pytest.approx(0.684, abs=5e-4)
        assert found.probability.max().item() == pytest.approx(root, abs=0.005)
        assert found.multiplier / gap == pytest.approx(1 / math.log2(root / (1 - root)), abs=0.018)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("level", UNEVEN_FIRST)
def test_a_constraint_on_each_length_is_met_at_its_bound(level):
    found, gap = constrained(level, problem="coins_shares")
    if gap > 1e-6:
        assert found.probability.min().item() == pytest.approx(0.45, abs=0.01)
        assert found.multiplier / gap == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
def test_a_multiplier_that_follows_the_sum_of_violations_alone_winds_up():
    found, _ = constrained("fewer_for_longer", problem="coins_shares", proportional=0.0)
    assert found.probability.min().item() < 0.3  # behind a softmax that is saturated


@pytest.mark.slow
def test_an_entropy_that_cannot_be_exceeded_has_no_multiplier_that_settles():
    early, late = (constrained("fewer_for_longer", steps, at_least=1.0)[0].multiplier for steps in (400, 1600))
    assert late > 1.2 * early


@pytest.mark.mostly_slow
@pytest.mark.parametrize("level", UNEVEN_FIRST)
def test_steps_of_cpo_come_to_the_same(level):
    found = trust_region_steps(world(level).with_clock("steps"), 0.9, steps=800)
    assert usefulness(found.probability, found.given, found.best_return).item() > 0.99
    if (found.best_return[0, 0] - found.best_return[0, 1]).abs() > 1e-6:
        assert found.probability.max().item() == pytest.approx(better(0.9), abs=0.005)
