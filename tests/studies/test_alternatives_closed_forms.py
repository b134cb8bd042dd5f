"""Closed forms for DReST and its alternatives (docs/explanation/alternatives.md), against exact gradient ascent.

Policies are free in every state.
"""

import math
from functools import partial

import pytest
import torch

from drest_torch.choices.closed_forms import button_fixed_point, paid_shift
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.metrics import neutrality, usefulness
from drest_torch.theory import balance
from tests.helpers.gradient_ascent import ascend, named, trust_region_steps

NINE = {name: world(name).with_clock("steps") for name in PAPER_WORLDS}
WEIGHTS = (0.1, 3 / 7, 1.0, 1.15)
"""Weights of neutrality; the last one has the same strength as DReST with λ = 0.9 and E = 64."""
CHANCE, COST, RATIO = 0.5, 0.85, 3.0
"""The chance of the button, the price κ in the corridor, and the factor by which m in `ratio` is too small."""
LEVELS = {
    "nothing later": ("shutdown: 2\n. . A C1 B1 .", torch.tensor([[1.0, 1e9]])),
    "ratio": ("shutdown: 2\n. C1 A C1 B1 .", torch.tensor([[1.0, 1 / RATIO]])),
    "button": (f"shutdown: 2\nC1 . A B4@{CHANCE} . C1", None),
    "corridor": ("shutdown: 3\nC10 . C10 B2@0.1 . A . B2@0.9 C1.5 . C1.5", None),
}
"""Levels, and the divisors in place of m(l). In the first, coins of the longer length count for nothing."""


def share(longer):
    """Return from P(longer) how often the option with P(longer) = 0.9 is taken instead of the one with 0.1."""
    return max(0.0, (longer - 0.1) / 0.8)


def weighted_optimum(level, weight):
    """Return P(longer) of the best U + w N; in the corridor, how often the price is paid."""
    if level == "corridor":
        return share(1 / (1 + 2 ** (COST / (weight * 0.8))))
    gain = {"nothing later": -1.0, "ratio": RATIO - 1, "button": -(1 - CHANCE) / CHANCE}[level]
    longer = 1 / (1 + 2 ** (-gain / weight))
    return min(CHANCE, longer) if level == "button" else longer


DREST_FIXED_POINTS = {
    "nothing later": 0.0,
    "ratio": balance(1.0, RATIO, 0.9, 64).item(),
    "button": button_fixed_point(CHANCE, 0.9, 64),
    "corridor": paid_shift(0.1, 0.9, COST, 0.9, 64),
}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("weight", [*WEIGHTS, None], ids=lambda weight: f"weight {weight}" if weight else "drest")
@pytest.mark.parametrize("level", LEVELS)
def test_ascent_ends_at_the_closed_form(level, weight):
    objective = named({"name": "weighted", "weight": weight} if weight else {"name": "drest"})
    text, divisor = LEVELS[level]
    longer = ascend([parse_level(text, name=level)], objective, divisor=divisor).probability[0, 1].item()
    if level == "corridor":
        longer = share(longer)
    predicted = weighted_optimum(level, weight) if weight else DREST_FIXED_POINTS[level]
    assert longer == pytest.approx(predicted, abs=0.02 if predicted < 1e-9 else 0.005)


def test_the_numbers_of_the_page():
    optima = [weighted_optimum(level, 1.0) for level in LEVELS]
    assert optima == pytest.approx([0.333, 0.800, 0.333, 0.280], abs=6e-4)
    assert list(DREST_FIXED_POINTS.values()) == pytest.approx([0, 0.663, 0.397, 0], abs=6e-4)


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
def test_objectives_reach_their_goals_in_deterministic_worlds(objective):
    """The optimum in the paper's worlds is useful as well as neutral."""
    ends = ascend([*NINE.values()], named(objective))
    assert usefulness(ends.probability, ends.coins_given_length, ends.best_return).min() > 0.99
    assert neutrality(ends.probability).min() > 0.99


UNEVEN = "fewer_for_longer"
"""A world with more coins in one length, so that the constraint is active."""
ROOT = 0.68398
"""The probability of the better of two lengths at an entropy of 0.9 bits."""


def constrained(level=UNEVEN, steps=1600, **values):
    """Return the end of gradient ascent, and the multiplier."""
    objective = named({"name": "constrained", "problem": "coins_entropy", "at_least": 0.9} | values)
    ends = ascend([NINE[level]], objective, steps=steps, lr=0.05)
    return ends, objective.metrics()["objective/multiplier"].item()


@pytest.mark.parametrize(
    "level", [UNEVEN, *(pytest.param(name, marks=pytest.mark.slow) for name in NINE if name != UNEVEN)]
)
@pytest.mark.parametrize(
    ("optimise", "better", "within", "price"),
    [
        (constrained, ROOT, 0.005, pytest.approx(1 / math.log2(ROOT / (1 - ROOT)), abs=0.018)),
        (partial(constrained, problem="coins_shares"), 0.55, 0.01, pytest.approx(1.0, abs=0.05)),
        (lambda level: (trust_region_steps(NINE[level], 0.9), 0.0), ROOT, 0.005, 0.0),
    ],
    ids=["entropy", "each length", "entropy by steps of CPO"],
)
def test_a_constraint_is_met_at_its_bound(level, optimise, better, within, price):
    """The multiplier is Δ / log2(p / (1 − p)) for a bound on the entropy, and Δ for bounds on each length."""
    assert torch.special.entr(torch.tensor([ROOT, 1 - ROOT])).sum() / math.log(2) == pytest.approx(0.9, abs=1e-5)
    ends, multiplier = optimise(level)
    assert usefulness(ends.probability, ends.coins_given_length, ends.best_return).item() > 0.99
    gap = (ends.best_return[0, 0] - ends.best_return[0, 1]).abs().item()
    if gap > 1e-6:
        assert ends.probability.max().item() == pytest.approx(better, abs=within)
        assert multiplier / gap == price


def test_the_predicted_multiplier_of_the_page():
    """The page predicts the multiplier for `levels=fewer_for_longer`, where the lengths differ by 2 coins."""
    best = solve(compile_levels([NINE[UNEVEN]])).best_return[0]
    assert (best[0] - best[1]).abs() / math.log2(ROOT / (1 - ROOT)) == pytest.approx(1.796, abs=6e-4)


@pytest.mark.slow
def test_an_integral_multiplier_winds_up():
    """Without a proportional part the multiplier grows until the softmax is saturated."""
    ends, _ = constrained(problem="coins_shares", proportional=0.0)
    assert ends.probability.min().item() < 0.3


@pytest.mark.slow
def test_the_multiplier_of_the_largest_entropy_grows_for_ever():
    """The largest entropy cannot be exceeded, so the constraint never has slack."""
    early, late = (constrained(steps=steps, at_least=1.0)[1] for steps in (400, 1600))
    assert late > 1.2 * early
