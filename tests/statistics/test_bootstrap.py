"""Intervals over seeds and levels against full enumeration, numbers by hand, and simulation."""

import math
from itertools import product
from time import process_time

import numpy as np
import pytest

from drest_torch.statistics.bootstrap import holm, over_seeds_and_levels, paired_difference
from drest_torch.statistics.intervals import Interval, t_interval, t_quantile, t_tails
from tests.statistics.coverage import coverage

SMALL = np.array([[1.0, 4.0, 7.5], [2.0, 9.0, 6.0]])
SMALL_MEAN = 29.5 / 6


def every_deviation(values):
    """Return the widened deviation of the mean in all resamples of seeds and levels."""
    seeds, levels = values.shape
    seed_effects, level_effects = values.mean(1) - values.mean(), values.mean(0) - values.mean()
    parts = seed_effects.var(ddof=1) / seeds, level_effects.var(ddof=1) / levels
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (seeds - 1) + parts[1] ** 2 / (levels - 1))
    widening = t_quantile(freedom) / 1.96
    return [
        widening * (math.sqrt(seeds / (seeds - 1)) * np.mean(a) + math.sqrt(levels / (levels - 1)) * np.mean(b))
        for a in product(seed_effects, repeat=seeds)
        for b in product(level_effects, repeat=levels)
    ]


def test_the_interval_agrees_with_all_resamples():
    interval = over_seeds_and_levels(SMALL, resamples=50_000)
    deviations = every_deviation(SMALL)
    assert len(deviations) == 2**2 * 3**3
    ends = np.quantile(deviations, (0.02, 0.03, 0.97, 0.98), method="inverted_cdf") + SMALL_MEAN
    assert interval.estimate == pytest.approx(SMALL_MEAN)
    assert ends[0] - 0.001 <= interval.low <= ends[1] + 0.001
    assert ends[2] - 0.001 <= interval.high <= ends[3] + 0.001


def test_equal_seeds_give_nearly_the_t_interval():
    levels = np.random.default_rng(0).normal(size=200)
    interval = over_seeds_and_levels(np.stack([levels] * 5))
    expected = t_interval(levels)
    assert interval.low == pytest.approx(expected.low, abs=0.02)
    assert interval.high == pytest.approx(expected.high, abs=0.02)


def test_the_order_of_levels_hardly_matters():
    values = np.random.default_rng(0).normal(size=(5, 100))
    interval, turned = over_seeds_and_levels(values), over_seeds_and_levels(values[:, ::-1])
    assert turned.low == pytest.approx(interval.low, abs=0.05)


def test_the_seed_decides_the_interval():
    values = np.random.default_rng(0).normal(size=(5, 20))
    assert over_seeds_and_levels(values) == over_seeds_and_levels(values)
    assert over_seeds_and_levels(values) != over_seeds_and_levels(values, seed=1)


@pytest.mark.parametrize("value", [0.3, 0.1, 1e6 / 3])
def test_equal_values_leave_no_width(value):
    interval = over_seeds_and_levels(np.full((5, 7), value))
    assert interval.low == interval.high == interval.estimate == pytest.approx(value)


@pytest.mark.parametrize("shape", [(1, 7), (7, 1)])
def test_one_seed_or_level_is_refused(shape):
    with pytest.raises(ValueError, match=f"two of each, got {shape[0]} × {shape[1]}"):
        over_seeds_and_levels(np.ones(shape))


@pytest.mark.parametrize(
    ("world", "least", "most"),
    [("mostly of levels", 0.92, 0.98), ("mostly of seeds", 0.91, 0.98), ("each level fails", 0.9, 0.98)],
)
def test_the_interval_covers(world, least, most):
    """500 samples: standard error 0.01."""
    assert least <= coverage(world, "this", samples=500, shape=(5, 50)) <= most


def test_without_bounds_intervals_miss_collapsed_seeds():
    """A third of the samples contains no collapse: 0.8⁵ = 0.33."""
    assert coverage("a fifth collapses", "this", samples=300) < 0.75
    assert coverage("a fifth collapses", "bounds", samples=300) > 0.95


def test_bounds_by_hand():
    """For equal values, the weight of the other bound has the distribution Beta(1, 5), with the 97.5th percentile 1 −
    0.025^(1/5)."""
    interval = over_seeds_and_levels(np.full((5, 9), 0.8), bounds=(0, 1), resamples=100_000)
    weight = 1 - 0.025**0.2
    assert interval.low == pytest.approx(0.8 * (1 - weight), abs=0.01)
    assert interval.high == pytest.approx(0.8 + 0.2 * weight, abs=0.01)


def test_effects_of_levels_widen_a_bounded_interval():
    """Equal seeds and bounds at a distance: the ends move by about two standard errors of the levels."""
    without = over_seeds_and_levels(np.full((50, 100), 0.5), bounds=(0.45, 0.55))
    levels = 0.5 + 0.2 * (-1) ** np.arange(100)
    interval = over_seeds_and_levels(np.stack([levels] * 50), bounds=(0.45, 0.55))
    assert without.high - without.low < 0.02
    assert interval.low < 0.48
    assert interval.high > 0.52


def test_a_value_outside_the_bounds_is_refused():
    with pytest.raises(ValueError, match="outside the bounds 0 to 1"):
        over_seeds_and_levels([[1.1, 1.2], [0.2, 1.3]], bounds=(0, 1))


def test_a_paired_difference_by_hand():
    """Effects of seeds ±1.5 and of levels ±0.5: variances of the mean 2.25 and 0.25, each of one degree of freedom."""
    result = paired_difference([[5.0, 6.0], [2.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]])
    freedom = 2.5**2 / (2.25**2 + 0.25**2)
    assert result.estimate == 3
    assert result.p == pytest.approx(t_tails(3 / math.sqrt(2.5), freedom), rel=1e-3)


def test_a_paired_difference_is_the_interval_of_the_differences():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 5, 30))
    result = paired_difference(a, b)
    assert Interval(result.estimate, result.low, result.high) == over_seeds_and_levels(a - b)


def test_a_paired_difference_is_resampled_with_the_given_seed():
    a, b = np.random.default_rng(2).normal(size=(2, 5, 30))
    result = paired_difference(a, b, seed=1)
    assert Interval(result.estimate, result.low, result.high) == over_seeds_and_levels(a - b, seed=1)


def test_effects_of_levels_cancel_in_a_paired_difference():
    a = np.random.default_rng(3).normal(size=(5, 100))
    levels = 10 * np.arange(100)
    assert paired_difference(a + levels, levels + 0 * a).high < 1


def test_equal_samples_have_p_one():
    assert paired_difference(SMALL, SMALL).p == 1
    assert paired_difference(SMALL + 1, SMALL).p == 0


def test_p_values_below_a_twentieth_are_seldom_wrong():
    rng = np.random.default_rng(4)
    wrong = [paired_difference(*rng.normal(size=(2, 5, 20)), resamples=10).p < 0.05 for _ in range(1000)]
    assert np.mean(wrong) < 0.07


def test_differences_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="the same seeds and levels"):
        paired_difference(SMALL, SMALL[:, :2])


def test_holm_by_hand():
    """0.01 × 4, 0.02 × 3, 0.03 × 2 and 0.5 × 1, none lower than the one before."""
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.9, 0.8]) == [1, 1]


def test_holm_refuses_invalid_probabilities():
    with pytest.raises(ValueError, match="outside 0 to 1"):
        holm([0.2, 1.2])


def test_an_interval_takes_less_than_fifty_milliseconds():
    values = np.random.default_rng(0).normal(size=(5, 200))
    begin = process_time()
    for _ in range(5):
        over_seeds_and_levels(values)
    assert (process_time() - begin) / 5 < 0.05
