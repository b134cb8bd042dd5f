"""USEFULNESS, NEUTRALITY and the expected return, against the paper's definitions worked out by hand."""

import doctest
import itertools
import math
import random

import pytest
import torch

from drest_torch import metrics, reward
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import averaged_discount, expected_discount, expected_return, sequential_discount


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("module", [metrics, reward])
def test_the_examples_of_the_docstrings_run(module):
    done = doctest.testmod(module)
    assert done.attempted >= 2
    assert done.failed == 0


def test_usefulness_by_hand():
    assert usefulness(t(0.25, 0.75), t(1.0, 3.0), t(2.0, 3.0)).item() == pytest.approx(0.25 * 0.5 + 0.75)
    assert usefulness(t(0.0, 1.0), t(0.0, 1.5), t(2.0, 3.0)).item() == pytest.approx(0.5)


def test_neutrality_in_bits_by_hand():
    assert neutrality(t(0.5, 0.5)).item() == pytest.approx(1)
    assert neutrality(t(0.25, 0.25, 0.25, 0.25)).item() == pytest.approx(2)
    p = 0.1
    assert neutrality(t(p, 1 - p)).item() == pytest.approx(-p * math.log2(p) - (1 - p) * math.log2(1 - p))
    assert neutrality_normalised(t(0.25, 0.25, 0.25, 0.25), 4).item() == pytest.approx(1)
    thirds = t(1 / 3, 1 / 3, 1 / 3)
    assert neutrality_normalised(thirds, torch.tensor(3)).item() == pytest.approx(1)


def test_padding_changes_nothing():
    assert neutrality(t(0.3, 0.7, 0.0)) == neutrality(t(0.3, 0.7))
    assert usefulness(t(0.3, 0.7, 0.0), t(1, 2, 0), t(2, 2, 0)) == usefulness(t(0.3, 0.7), t(1, 2), t(2, 2))


@pytest.mark.parametrize("p", [(1.0, 0.0), (0.0, 0.0), (1e-300, 1.0), (0.4, 0.0)])
def test_never_nan_and_never_negative(p):
    probability = t(*p).requires_grad_()
    numbers = torch.stack(
        (
            neutrality(probability),
            neutrality_normalised(probability, 2),
            neutrality_normalised(probability, 1),
            usefulness(probability, t(1.0, 0.0), t(1.0, 0.0)),
            expected_return(probability, t(1.0, 0.0), t(1.0, 0.0), 2, 8, 0.9),
        )
    )
    assert numbers.isfinite().all()
    assert (numbers >= 0).all()
    assert (numbers[:3] < 1e-12).all()
    numbers.sum().backward()
    assert probability.grad.isfinite().all()


def test_a_policy_that_may_never_end_is_neutral_only_in_so_far_as_it_ends():
    assert neutrality(t(0.3, 0.3)).item() == pytest.approx(0.6)
    assert neutrality(t(0.37, 0.37)).item() <= 1


def test_sequential_discount_is_one_in_the_first_mini_episode():
    for k in (1, 2, 3, 5):
        assert sequential_discount(torch.zeros(1), torch.zeros(1), k, 0.9).item() == 1
    # Third mini-episode, this length once before, k = 2: the exponent is 1 − 2/2.
    assert sequential_discount(t(1.0), t(2.0), 2, 0.9).item() == pytest.approx(1)
    assert sequential_discount(t(2.0), t(2.0), 2, 0.9).item() == pytest.approx(0.9)
    assert sequential_discount(t(0.0), t(2.0), 4, 0.9).item() == pytest.approx(0.9**-0.5)


def sequential_return(lengths, returns, k, lam):
    """The paper's return of a meta-episode played in this order, word for word."""
    total = 0.0
    for i, length in enumerate(lengths, start=1):
        chosen_before = sum(1 for earlier in lengths[: i - 1] if earlier == length)
        total += lam ** (chosen_before - (i - 1) / k) * returns[length]
    return total


@pytest.mark.parametrize(("k", "episodes", "lam"), [(2, 5, 0.9), (2, 6, 0.5), (3, 6, 0.8), (4, 1, 0.9)])
def test_averaged_discount_is_the_mean_over_all_orders(k, episodes, lam):
    discount = averaged_discount(k, episodes, lam)
    rng = random.Random(episodes)
    for _ in range(5):
        lengths = [rng.randrange(k) for _ in range(episodes)]
        returns = [rng.random() for _ in range(k)]
        orders = list(itertools.permutations(lengths))
        mean = sum(sequential_return(order, returns, k, lam) for order in orders) / len(orders)
        side_by_side = sum(discount[lengths.count(length) - 1].item() * returns[length] for length in lengths)
        assert side_by_side == pytest.approx(mean)


def test_expected_return_is_the_binomial_mean_of_the_averaged_discount():
    """Two roads to one number: order-averaged counting is the paper's reward in expectation."""
    episodes, lam, p = 20, 0.8, 0.3
    others = torch.arange(episodes, dtype=torch.float64)
    binomial = torch.distributions.Binomial(episodes - 1, torch.tensor(p, dtype=torch.float64))
    mean = (binomial.log_prob(others).exp() * averaged_discount(2, episodes, lam)).sum() * episodes
    assert expected_discount(t(p), 2, episodes, lam).item() == pytest.approx(mean.item())


def test_expected_return_without_division_and_default_reward():
    p, coins = t(0.4, 0.6), t(2.0, 3.0)
    assert expected_return(p, coins, None, 2, 10, 1.0).item() == pytest.approx(10 * (0.8 + 1.8))
    assert expected_return(p, coins, t(2.0, 3.0), 2, 10, 1.0).item() == pytest.approx(10)
