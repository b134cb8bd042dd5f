"""Intervals for means over seeds: against tables, numbers worked out by hand, and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drest_torch.statistics.intervals import difference, runs_interval, t_interval, t_quantile

ENOUGH = 0.915
"""How often a 95 % interval has to cover the truth (2,000 samples: standard error 0.005)."""


def covered(intervals, truth=0.0):
    return np.mean([interval.low <= truth <= interval.high for interval in intervals])


def half(interval):
    return (interval.high - interval.low) / 2


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227), (99, 1.98422), (101, 1.98373), (1e9, 1.96)],
)
def test_quantiles_are_those_of_the_tables(freedom, quantile):
    assert t_quantile(freedom) == pytest.approx(quantile, rel=2e-4)


def test_three_seeds_by_hand():
    interval = t_interval([1.0, 2.0, 6.0])  # mean 3, standard deviation √7
    assert interval.estimate == 3
    assert half(interval) == pytest.approx(4.30265 * math.sqrt(7 / 3), rel=1e-4)


def test_a_difference_covers_seeds_of_both_sides():
    rng = np.random.default_rng(2)
    assert covered([difference(rng.normal(size=5), 3 * rng.normal(size=4)) for _ in range(2000)]) >= ENOUGH
    a, b = [1.0, 2.0, 6.0], [0.0, 0.0]  # only a varies: as its own interval, moved
    assert half(difference(a, b)) == pytest.approx(half(t_interval(a)))
    assert difference(a, b).estimate == 3


def test_worlds_that_stay_the_same_add_no_noise():
    rng = np.random.default_rng(3)
    intervals = [runs_interval(rng.normal(size=(3, 9)) + np.arange(9) - 4) for _ in range(2000)]
    assert ENOUGH <= covered(intervals) < 0.98
    assert np.median([half(interval) for interval in intervals]) < 0.5


def test_one_seed_or_equal_values_leave_no_width_and_what_is_not_finite_is_refused():
    for interval in (t_interval([0.3]), t_interval([0.3] * 4), runs_interval([[0.3]])):
        assert (interval.low, interval.high) == pytest.approx((0.3, 0.3))
    for refused in ([], [math.inf, 1.0], [[1.0]]):
        with pytest.raises(ValueError, match=r"shape|finite"):
            t_interval(refused)


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1.5), min_size=1, max_size=10), st.sampled_from((1.0, 0.9)))
def test_no_estimate_lies_outside_its_own_interval(values, most):
    """Also where values, corrected for bias, are a little more than is possible."""
    found = t_interval(values)
    assert found.low <= found.estimate <= found.high
    within = found.within(0, most)
    assert 0 <= within.low <= within.estimate <= within.high <= most
