"""Fixed points of training and best choices of lengths, against grids, symmetries and sums over all sequences."""

import itertools
import math

import pytest
import torch

from drest_torch.reward import Reward
from drest_torch.theory import (
    balance,
    best_choice,
    best_of_two,
    choice_value,
    is_neutral_best,
    largest_neutral,
    margin,
    mean_reward,
    rule_of_thumb,
    value_for,
)

LAMBDAS = (0.3, 0.5, 0.8, 0.9, 0.99)
X = torch.logspace(-2, 2, 9, dtype=torch.float64)


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("clip", [None, 0.5, 1.3, 5.0])
@pytest.mark.parametrize("value", [0.2, 1.0, 30.0])
def test_a_mean_reward_is_that_of_all_sequences(value, clip, p):
    lam, episodes = 0.6, 6
    total = 0.0
    for before in range(episodes):
        for sequence in itertools.product((0, 1), repeat=before):
            chance = math.prod(p if chosen else 1 - p for chosen in sequence)
            discount = Reward(lam).discount(torch.tensor(float(sum(sequence))), before, 2).item()
            total += chance * min(value * discount, clip or math.inf)
    # Without a clip it is the chance to choose this length in which the sum is taken.
    assert mean_reward(doubles(p), value, lam, episodes, clip).item() == pytest.approx(total)


@pytest.mark.parametrize("clip", [None, 5.0])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_the_balance_is_where_a_fine_grid_changes_its_sign(lam, clip):
    p = torch.linspace(0, 1, 2001, dtype=torch.float64)
    found = balance(1.0, X, lam, 16, clip)
    for x, root in zip(X.tolist(), found.tolist(), strict=True):
        pull = mean_reward(p, x, lam, 16, clip) - mean_reward(1 - p, 1.0, lam, 16, clip)
        assert (pull[p < root - 1e-9] > 0).all()
        assert (pull[p > root + 1e-9] < 0).all()


def test_the_default_reward_is_a_step():
    for lam in (0.99999, 1.0):
        assert balance(1.0, doubles(0.9, 1.0, 1.1), lam, 64).tolist() == pytest.approx([0, 0.5, 1], abs=1e-9)


@pytest.mark.parametrize("clip", [None, 5.0])
def test_the_value_for_a_probability_is_the_inverse_of_the_balance(clip):
    for lam in LAMBDAS:
        for p in (0.2, 0.5, 0.6):
            x = value_for(p, lam, 16, clip)
            assert balance(1.0, x, lam, 16, clip).item() == pytest.approx(p, abs=1e-9)


def test_the_balance_is_not_the_best_choice():
    """The figures of docs/explanation/theorem.md, at the paper's λ and E; for a small E the two are equal."""
    assert best_choice(2, 64, 0.9) == pytest.approx((0.317, 0.683), abs=5e-4)
    assert margin(2, 64, 0.9) == pytest.approx(0.0111, abs=5e-5)
    assert best_of_two(1.0, doubles(1.0), 0.9, 64).item() == pytest.approx(0.317, abs=2e-3)
    assert best_of_two(1.0, doubles(1.0), 0.9, 32).item() == pytest.approx(0.5, abs=1e-3)
    for x in (0.2, 1.0, 4.0):
        two = torch.stack((best_of_two(1.0, doubles(x), 0.9, 64)[0], balance(1.0, x, 0.9, 64)))
        chances = torch.stack((1 - two, two), -1)
        whole, resting = Reward(0.9).expected_return(chances, chances * doubles(1.0, x), 2).tolist()
        assert whole > resting


def test_the_neutral_policy_is_best_inside_the_range_and_not_outside():
    for k in (2, 3):
        assert all(is_neutral_best(k, episodes, lam) for lam, episodes in ((0.5, 8), (0.9, 32)))
        assert all(margin(k, episodes, lam) > 1e-3 for lam, episodes in ((0.5, 16), (0.9, 128)))


@pytest.mark.parametrize(("lam", "episodes"), [(0.5, 10), (0.5, 16), (0.5, 20), (0.75, 60), (0.9, 87), (0.99, 300)])
@pytest.mark.parametrize("k", [2, 3])
def test_no_choice_on_a_grid_is_better_than_the_best(k, lam, episodes):
    points = 120
    parts = [part for part in itertools.product(range(points + 1), repeat=k - 1) if sum(part) <= points]
    grid = torch.tensor([(*part, points - sum(part)) for part in parts], dtype=torch.float64) / points
    most = choice_value(grid, episodes, lam).max().item()
    best = torch.tensor(best_choice(k, episodes, lam), dtype=torch.float64)
    assert best.sum().item() == pytest.approx(1, abs=1e-12)
    assert most <= choice_value(best, episodes, lam).item() * (1 + 1e-12)
    assert choice_value(best, episodes, lam).item() <= most * 1.01


def test_the_rule_of_thumb_is_the_limit_for_two_lengths_but_for_the_discount_at_one_half():
    """Where the discount at ½ is close to 1, with λ close to 1, the largest E is the integer below the rule."""
    for lam in (0.9, 0.95):
        assert largest_neutral(2, lam) == int(rule_of_thumb(2, lam))
    assert rule_of_thumb(2, 0.5) == pytest.approx(2 + 12 * 0.5**0.5)
