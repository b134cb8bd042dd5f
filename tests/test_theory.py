"""Fixed points of training and optimal choices of lengths, against grids, symmetries and sums over sequences."""

import itertools
import math

import pytest
import torch

from drest_torch import theory
from drest_torch.reward import Reward

LAMBDAS = (0.3, 0.5, 0.8, 0.9, 0.99)
X = torch.logspace(-2, 2, 9, dtype=torch.float64)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("clip", [None, 0.5, 1.3, 5.0])
@pytest.mark.parametrize("value", [0.2, 1.0, 30.0])
def test_a_mean_reward_is_the_mean_over_sequences(value, clip, p):
    lam, episodes = 0.6, 6
    total = 0.0
    for before in range(episodes):
        for sequence in itertools.product((0, 1), repeat=before):
            chance = math.prod(p if chosen else 1 - p for chosen in sequence)
            discount = Reward(lam).discount(torch.tensor(float(sum(sequence))), before, 2).item()
            total += chance * min(value * discount, clip or math.inf)
    # Without a clip the closed form is a function of the probability of this length.
    probability = torch.tensor(p, dtype=torch.float64)
    assert theory.mean_reward(probability, value, lam, episodes, clip).item() == pytest.approx(total)


@pytest.mark.parametrize("clip", [None, 5.0])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_the_balance_is_the_change_of_sign_on_a_fine_grid(lam, clip):
    p = torch.linspace(0, 1, 2001, dtype=torch.float64)
    roots = theory.balance(1.0, X, lam, 16, clip)
    for x, root in zip(X.tolist(), roots.tolist(), strict=True):
        pull = theory.mean_reward(p, x, lam, 16, clip) - theory.mean_reward(1 - p, 1.0, lam, 16, clip)
        assert (pull[p < root - 1e-9] > 0).all()
        assert (pull[p > root + 1e-9] < 0).all()


def test_the_default_reward_is_a_step():
    for lam in (0.99999, 1.0):
        roots = theory.balance(1.0, torch.tensor([0.9, 1.0, 1.1]), lam, 64)
        assert roots.tolist() == pytest.approx([0, 0.5, 1], abs=1e-9)


@pytest.mark.parametrize("clip", [None, 5.0])
def test_the_value_for_a_probability_inverts_the_balance(clip):
    for lam in LAMBDAS:
        for p in (0.2, 0.5, 0.6):
            x = theory.value_for(p, lam, 16, clip)
            assert theory.balance(1.0, x, lam, 16, clip).item() == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_the_neutral_policy_is_optimal_inside_the_range(k):
    assert theory.is_neutral_best(k, 8, 0.5)
    assert theory.is_neutral_best(k, 32, 0.9)


@pytest.mark.parametrize("k", [2, 3])
def test_the_neutral_policy_is_not_optimal_outside_the_range(k):
    assert theory.margin(k, 16, 0.5) > 1e-3
    assert theory.margin(k, 128, 0.9) > 1e-3


def test_the_optimum_at_the_parameters_of_the_paper():
    """The figures of the page on the theorem; the balance is 0.5 at these parameters."""
    assert theory.best_choice(2, 64, 0.9) == pytest.approx((0.317, 0.683), abs=5e-4)
    assert theory.margin(2, 64, 0.9) == pytest.approx(0.0111, abs=5e-5)


@pytest.mark.parametrize(("lam", "episodes"), [(0.5, 10), (0.5, 16), (0.5, 20), (0.75, 60), (0.9, 87), (0.99, 300)])
@pytest.mark.parametrize("k", [2, 3])
def test_no_choice_on_a_grid_beats_the_optimum(k, lam, episodes):
    points = 120
    parts = [part for part in itertools.product(range(points + 1), repeat=k - 1) if sum(part) <= points]
    grid = torch.tensor([(*part, points - sum(part)) for part in parts], dtype=torch.float64) / points
    most = theory.choice_value(grid, episodes, lam).max().item()
    best = torch.tensor(theory.best_choice(k, episodes, lam), dtype=torch.float64)
    assert best.sum().item() == pytest.approx(1, abs=1e-12)
    assert most / (1 + 1e-12) <= theory.choice_value(best, episodes, lam).item() <= most * 1.01


def test_the_rule_of_thumb_is_the_limit_for_two_lengths():
    """It is derived for a discount at ½ close to 1, and so for λ close to 1."""
    for lam in (0.9, 0.95):
        assert theory.largest_neutral(2, lam) == int(theory.rule_of_thumb(2, lam))


def test_the_rule_of_thumb_by_hand():
    assert theory.rule_of_thumb(2, 0.5) == pytest.approx(2 + 12 * 0.5**0.5)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("lam", [0.5, 0.9, 0.99])
def test_the_least_likely_length_becomes_rarer_with_e(lam, k):
    """E is outside the range of optimal neutrality, and so large that discounts exceed a float."""
    sizes = (1024, 1400, 2000, 4000, 10_000)
    least = [theory.best_choice(k, episodes, lam)[0] for episodes in sizes]
    assert least == sorted(least, reverse=True)
    assert least[-1] == pytest.approx(1 / (sizes[-1] * (1 - lam)), rel=0.06)


def test_values_larger_than_floats_are_compared_as_logarithms():
    assert theory.best_choice(2, 1024, 0.5)[0] == pytest.approx(0.00196, abs=5e-6)
    assert theory.margin(2, 10_000, 0.1) == math.inf
    assert not theory.is_neutral_best(2, 10_000, 0.1)
    assert theory.balance(1.0, 1.0, 0.1, 10_000).item() == pytest.approx(0.5, abs=1e-9)
