"""Intervals of entropies and means in sampled evaluation, compared with simulations."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch

from drest_torch.statistics.counts import bounded_mean, entropy, entropy_interval, entropy_spread, mean_range
from tests.helpers.sampling import bits, sample_counts, share_inside

PROBABILITIES = [
    [0.5, 0.5],
    [0.7, 0.3],
    [0.99, 0.01],
    [1 / 3, 1 / 3, 1 / 3],
    [0.5, 0.3, 0.2],
    [0.9, 0.09, 0.01],
    [0.25] * 4,
]


@pytest.mark.parametrize("shares", PROBABILITIES, ids=str)
@pytest.mark.parametrize("times", [100, 1000])
def test_the_interval_of_an_entropy_covers_it(shares, times):
    counts = sample_counts(shares, times, 1000)
    low, high = entropy_interval(counts, torch.full((1000,), len(shares)))
    assert share_inside(bits(shares), low, high) >= 0.9
    assert (low >= 0).all()
    assert (high <= math.log2(len(shares)) + 1e-9).all()


def test_the_interval_of_two_choices_is_the_score_interval():
    z, n, share = 1.959964, 50, 0.9
    centre, half = share + z**2 / (2 * n), z * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    ends = torch.tensor([[centre + half], [centre - half]]) / (1 + z**2 / n)
    low, high = entropy_interval(torch.tensor([[45.0, 5.0]], dtype=torch.float64), torch.tensor([2]))
    assert [low.item(), high.item()] == pytest.approx(bits(torch.cat((ends, 1 - ends), -1)).tolist(), abs=1e-4)


class EntropyCase(NamedTuple):
    """Counts of two lengths, the number of possible lengths, and bounds of the interval's ends."""

    counts: list[float]
    possible: int
    low_at_most: float
    high: tuple[float, float]
    """Smallest and largest upper end."""


ENTROPY_CASES = {
    "one possible length": EntropyCase([64.0, 0.0], 1, low_at_most=0.0, high=(0.0, 0.0)),
    "a length without samples": EntropyCase([64.0, 0.0], 2, low_at_most=0.0, high=(0.3, 1.0)),
    "equal counts": EntropyCase([32.0, 32.0], 2, low_at_most=0.97, high=(1.0, 1.0)),
    "no samples": EntropyCase([0.0, 0.0], 2, low_at_most=0.001, high=(1.0, 1.0)),
}


@pytest.mark.parametrize("case", ENTROPY_CASES.values(), ids=ENTROPY_CASES)
def test_the_interval_of_an_entropy_in_extreme_cases(case):
    low, high = entropy_interval(torch.tensor([case.counts]).double(), torch.tensor([case.possible]))
    least, most = case.high
    assert low.item() <= case.low_at_most
    assert least <= high.item() <= most


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.7, 0.3], [0.25] * 4], ids=str)
def test_the_estimate_of_an_entropy_corrects_its_bias(shares):
    counts = sample_counts(shares, 50, 20_000)
    truth, observed, estimate = bits(shares), bits(counts / 50), entropy(counts)
    missing = (len(shares) - 1) / (2 * math.log(2) * 50)
    assert (truth - observed.mean()).item() == pytest.approx(missing, rel=0.15)
    assert abs((truth - estimate.mean()).item()) < 0.15 * missing


@pytest.mark.parametrize("shares", PROBABILITIES[:2], ids=str)
def test_the_interval_of_a_mean_over_levels_covers_it(shares):
    counts, k = sample_counts(shares, 200, 20_000), torch.full((20_000,), 2)
    estimate, spread = entropy(counts), entropy_spread(counts, k)
    low, high = entropy_interval(counts, k)
    low, high = torch.minimum(low, estimate - spread), torch.maximum(high, estimate + spread)
    batches = zip(estimate.split(50), low.split(50), high.split(50), strict=True)
    ranges = [mean_range(*batch) for batch in batches]
    assert sum(below <= bits(shares) <= above for below, above in ranges) >= 0.91 * len(ranges)


def test_the_interval_of_a_mean_of_bounded_numbers_covers_it():
    generator = torch.Generator().manual_seed(0)
    certain = bounded_mean(*(torch.tensor([100.0]) for _ in range(3)))
    assert certain[0].item() < 0.97
    assert certain[1].item() == pytest.approx(1, abs=0.01)
    for power in (0.1, 1, 10):
        samples = torch.rand(2000, 100, generator=generator, dtype=torch.float64) ** power
        ends = bounded_mean(torch.full((2000,), 100), samples.sum(-1), samples.square().sum(-1))
        assert share_inside(1 / (power + 1), *ends) >= 0.93
