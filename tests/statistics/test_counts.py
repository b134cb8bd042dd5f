"""Intervals from counts, against closed forms, a grid search and the spread of samples."""

import math

import numpy as np
import pytest
import torch

from drest_torch.statistics.counts import bounded_mean, entropy, entropy_interval, entropy_spread, mean_range

Z = 1.959964
CHI_SQUARE = {1: 3.841459, 2: 5.991465, 3: 7.814728}
"""95 % quantiles, by degrees of freedom."""


def d(*values):
    return torch.tensor(values, dtype=torch.float64)


def bits(shares):
    return -sum(p * math.log2(p) for p in shares if p > 0)


@pytest.mark.parametrize(("count", "ones"), [(10, 3), (40, 38), (7, 7)])
def test_binary_data_have_the_agresti_coull_interval(count, ones):
    n, p = count + Z**2, (ones + Z**2 / 2) / (count + Z**2)
    half = Z * math.sqrt(p * (1 - p) / n)
    low, high = bounded_mean(d(count), d(ones), d(ones))
    assert low.item() == pytest.approx(p - half)
    assert high.item() == pytest.approx(min(p + half, 1))


def test_bounded_numbers_have_an_interval_from_their_spread():
    numbers = [0.1, 0.2, 0.2, 0.7]
    added = [*numbers, *[0.0] * 2, *[1.0] * 2]  # about z² / 2 zeros, and as many ones
    low, high = bounded_mean(d(4), d(sum(numbers)), d(sum(x * x for x in numbers)))
    half = Z * np.std(added) / math.sqrt(len(added))
    assert low.item() == pytest.approx(np.mean(added) - half, abs=0.01)
    assert high.item() == pytest.approx(np.mean(added) + half, abs=0.01)


def test_the_entropy_is_corrected_for_observed_choices():
    counts = d([6, 3, 0, 1], [0, 0, 0, 0], [0, 5, 0, 0])
    expected = bits([0.6, 0.3, 0.1]) + 2 / (2 * 10 * math.log(2))
    assert entropy(counts).tolist() == pytest.approx([expected, 0, 0])


@pytest.mark.parametrize("counts", [(12, 5, 3), (30, 9, 0), (40, 20, 12, 8)])
def test_the_entropy_interval_is_accepted_by_a_chi_square_test(counts):
    """The range of powers of the shares is searched on a grid."""
    n, k = sum(counts), len(counts)
    accepted = []
    for power in np.linspace(0, 6, 6001):
        weights = [(count + 0.5) ** power for count in counts]
        shares = [weight / sum(weights) for weight in weights]
        distance = sum((count - n * share) ** 2 / (n * share) for count, share in zip(counts, shares, strict=True))
        if distance <= CHI_SQUARE[k - 1]:
            accepted.append(bits(shares))
    low, high = entropy_interval(d([*counts, *[0] * (4 - k)]), torch.tensor([k]))
    assert low.item() == pytest.approx(min(accepted), abs=2e-3)
    assert high.item() == pytest.approx(max(accepted), abs=2e-3)
    assert 0 < low < high


@pytest.mark.parametrize("k", [2, 4])
def test_the_spread_of_even_choices_agrees_with_samples(k):
    samples = torch.from_numpy(np.random.default_rng(0).multinomial(500, [1 / k] * k, 4000)).double()
    spread = entropy_spread(samples, torch.full((4000,), k))
    assert spread[0].item() == pytest.approx(Z * entropy(samples).std().item(), rel=0.08)
    wide = torch.nn.functional.pad(samples[:1], (0, 3))  # columns for lengths of other levels
    assert entropy_spread(wide, torch.tensor([k])).item() == spread[0].item()


def test_a_mean_range_is_around_the_mean_of_lopsided_estimates():
    estimate, low, high = torch.tensor([0.2, 0.4, 0.9]), torch.tensor([0.1, 0.4, 0.7]), torch.tensor([0.5, 0.4, 0.9])
    assert mean_range(estimate, low, high) == pytest.approx((0.5 - math.sqrt(0.05) / 3, 0.5 + 0.1))
    outside = mean_range(estimate, estimate + 0.1, estimate - 0.1)  # an estimate outside its own interval
    assert outside == pytest.approx((0.5, 0.5))
