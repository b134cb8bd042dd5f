"""Intervals for means over seeds and levels: against tables, numbers worked out by hand, and simulation."""

import math

import numpy as np
import pytest

from drest_torch.statistics.bootstrap import Interval, bootstrap, median
from drest_torch.statistics.intervals import contrast, levels_interval, runs_interval, t_interval, t_quantile

ENOUGH, TOO_FEW = 0.915, 0.87
"""How often a 95 % interval has to cover the truth, and what is too seldom (2,000 samples: standard error 0.005)."""


def covered(intervals, truth=0.0):
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


def half(interval):
    return (interval.high - interval.low) / 2


@pytest.mark.parametrize(
    ("level", "freedom", "quantile"),
    [
        *[(0.95, 1, 12.7062), (0.95, 2, 4.30265), (0.95, 4, 2.77645), (0.99, 3, 5.84091), (0.5, 7, 0.711142)],
        *[(0.95, 30, 2.04227), (0.95, 99, 1.98422), (0.95, 101, 1.98373), (0.95, 1e9, 1.96)],
    ],
)
def test_quantiles_are_those_of_the_tables(level, freedom, quantile):
    assert t_quantile(level, freedom) == pytest.approx(quantile, rel=2e-4)


def test_three_seeds_by_hand():
    interval = t_interval([1.0, 2.0, 6.0])  # mean 3, standard deviation √7
    assert interval.estimate == 3
    assert half(interval) == pytest.approx(4.30265 * math.sqrt(7 / 3), rel=1e-4)
    assert half(t_interval([1.0, 2.0, 6.0], level=0.5)) < 0.3 * half(interval)


@pytest.mark.parametrize("seeds", [3, 5])
def test_few_seeds_are_covered_as_often_as_said_which_a_percentile_bootstrap_does_not(seeds):
    rng = np.random.default_rng(seeds)
    samples = rng.normal(size=(2000, seeds))
    assert covered([t_interval(sample) for sample in samples]) >= ENOUGH
    percentile = [bootstrap(sample, resamples=300, seed=i) for i, sample in enumerate(samples[:1000])]
    assert covered(percentile) < TOO_FEW


@pytest.mark.parametrize(("seeds", "of_seeds", "of_designs"), [(3, 1, 1), (5, 0.1, 1), (5, 1, 0.3), (5, 0.0, 0.1)])
def test_symmetric_levels_are_covered_only_if_designs_are_the_sample(seeds, of_seeds, of_designs):
    """12 designs × 8 symmetries, as the follow-up's validation levels."""
    rng = np.random.default_rng(1)
    designs = np.repeat(np.arange(12), 8)
    intervals = {"designs": [], "levels": []}
    for _ in range(1000):
        values = of_seeds * rng.normal(size=(seeds, 1)) + of_designs * rng.normal(size=12)[designs]
        values = values + 0.3 * rng.normal(size=(seeds, 12))[:, designs] + 0.2 * rng.normal(size=(seeds, 96))
        intervals["designs"].append(levels_interval(values, designs=designs))
        intervals["levels"].append(levels_interval(values))
    assert covered(intervals["designs"]) >= ENOUGH
    if (of_seeds, of_designs) == (0.1, 1):
        assert covered(intervals["levels"]) < TOO_FEW


def test_a_comparison_cancels_what_both_have_in_common_and_covers_the_rest():
    rng = np.random.default_rng(2)
    paired, other = [], []
    for _ in range(1000):
        levels = 3 * rng.normal(size=20)
        a, b = (rng.normal(size=(4, 1)) + levels + 0.5 * rng.normal(size=(4, 20)) for _ in range(2))
        paired.append(contrast(a, b, same_levels=True))
        other.append(contrast(a, b))
    assert ENOUGH <= covered(paired) < 0.98
    assert np.median([half(x) for x in paired]) < 0.8 * np.median([half(x) for x in other])
    shared = rng.normal(size=(4, 1))
    same = contrast(shared + np.zeros((4, 3)), shared + np.ones((4, 5)), same_seeds=True)
    assert (same.low, same.high) == pytest.approx((-1, -1))
    both = contrast(a, a - 0.5, same_seeds=True, same_levels=True)
    assert (both.low, both.estimate, both.high) == pytest.approx((0.5, 0.5, 0.5))


def test_designs_of_unequal_size_weigh_what_they_have():
    interval = levels_interval([[0.0, 0.0, 0.0, 4.0]], designs=[7, 7, 7, 2])
    # Two designs with shares 3/4 and 1/4 and means 0 and 4: 2/1 · (9/16 · 1 + 1/16 · 9) = 9/4, one degree of freedom.
    assert interval.estimate == 1
    assert half(interval) == pytest.approx(12.7062 * 1.5, rel=1e-4)
    with pytest.raises(ValueError, match="design for each of 4 levels"):
        levels_interval([[0.0, 0.0, 0.0, 4.0]], designs=[1])


def test_worlds_that_stay_the_same_add_no_noise():
    rng = np.random.default_rng(3)
    intervals = [runs_interval(rng.normal(size=(3, 9)) + np.arange(9) - 4) for _ in range(2000)]
    assert ENOUGH <= covered(intervals) < 0.98
    assert np.median([half(interval) for interval in intervals]) < 0.5


def test_one_seed_or_equal_values_leave_no_width_and_what_is_not_finite_is_refused():
    for interval in (
        t_interval([0.3]),
        t_interval([0.3] * 4),
        levels_interval([[0.3] * 3] * 2),
        runs_interval([[0.3]]),
    ):
        assert (interval.low, interval.high) == pytest.approx((0.3, 0.3))
    assert half(levels_interval([[0.0, 1.0]])) > 0  # over levels only
    for refused in ([], [math.inf, 1.0], [[1.0]]):
        with pytest.raises(ValueError, match=r"shape|finite"):
            t_interval(refused)


def test_an_interval_of_a_share_stays_within_its_range():
    assert Interval(0.99, 0.95, 1.03).within(0, 1) == Interval(0.99, 0.95, 1.0)
    assert Interval(0.01, -0.2, 0.1).within(0, 1) == Interval(0.01, 0.0, 0.1)
    assert Interval(1.001, 0.992, 1.01).within(0, 1) == Interval(1.0, 0.992, 1.0)


@pytest.mark.parametrize("most", [1.0, 0.9])
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_no_estimate_lies_outside_its_own_interval(n, most):
    """Also where values, corrected for bias, are a little more than is possible."""
    rng = np.random.default_rng(n)
    for spread in (1e-4, 0.01, 0.5):
        for _ in range(50):
            values = np.abs(1 - spread * rng.standard_normal(n))
            for found in (
                t_interval(values),
                bootstrap(values, median, resamples=200),
                bootstrap(values, resamples=200),
            ):
                assert found.low <= found.estimate <= found.high
                within = found.within(0, most)
                assert 0 <= within.low <= within.estimate <= within.high <= most


def test_the_interval_over_seeds_and_levels_against_the_analysis_of_variance():
    """The parts of a table without repetition: rows, columns, and what is left, which both contain."""
    values = np.random.default_rng(3).normal(size=(4, 6)) + np.arange(4)[:, None] * 0.5 + np.arange(6) * 0.3
    seeds, levels = values.shape
    rest = values - values.mean(1, keepdims=True) - values.mean(0) + values.mean()
    parts = [
        (values.mean(1).var(ddof=1) / seeds, seeds - 1, 1),
        (values.mean(0).var(ddof=1) / levels, levels - 1, 1),
        ((rest**2).sum() / ((seeds - 1) * (levels - 1)) / (seeds * levels), (seeds - 1) * (levels - 1), -1),
    ]
    variance = sum(sign * part for part, _, sign in parts)
    assert variance > max(part for part, *_ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees, _ in parts)
    found = levels_interval(values)
    half = t_quantile(0.95, round(freedom, 3)) * math.sqrt(variance)
    assert (found.estimate - found.low, found.high - found.estimate) == pytest.approx((half, half))
