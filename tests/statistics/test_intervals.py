"""Intervals over seeds, against tables, full enumeration, simulation and numbers computed by hand."""

import math
from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drest_torch.statistics.intervals import (
    Interval,
    difference,
    ratio,
    standard_errors_apart,
    t_interval,
    t_quantile,
    t_tails,
)

INF, NAN = math.inf, math.nan
ENOUGH = 0.915
"""The least coverage of a 95 % interval (2,000 samples: standard error 0.005)."""


def covered(intervals):
    return np.mean([interval.low <= 0 <= interval.high for interval in intervals])


def half(interval):
    return (interval.high - interval.low) / 2


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227), (99, 1.98422), (101, 1.98373), (1e9, 1.96)],
)
def test_quantiles_agree_with_tables(freedom, quantile):
    assert t_quantile(freedom) == pytest.approx(quantile, rel=2e-4)


@pytest.mark.parametrize(("t", "freedom", "p"), [(4.30265, 2, 0.05), (2, 1, 0.295167), (3, 4, 0.039942), (0, 7, 1)])
def test_p_values_agree_with_tables(t, freedom, p):
    assert t_tails(t, freedom) == t_tails(-t, freedom) == pytest.approx(p, rel=2e-4)


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


def test_a_difference_by_hand():
    """The variances of the means are 7 / 3 and 5 / 12, with 2 and 3 degrees of freedom; 2.72 together."""
    interval = difference([1.0, 2.0, 6.0], [10.0, 11.0, 12.0, 13.0])
    freedom = (7 / 3 + 5 / 12) ** 2 / ((7 / 3) ** 2 / 2 + (5 / 12) ** 2 / 3)
    assert interval.estimate == 3 - 11.5
    assert half(interval) == pytest.approx(t_quantile(freedom) * math.sqrt(7 / 3 + 5 / 12), rel=1e-4)
    assert 3.2 < t_quantile(freedom) < 3.5  # between 4.303 and 3.182


def test_an_interval_as_text():
    assert Interval(0.9954, 0.992, 0.9971).text() == str(Interval(0.9954, 0.992, 0.9971)) == "0.995 (0.992-0.997)"
    assert Interval(-0.1, -0.2, 0.05).text(2) == "-0.10 (-0.20 to 0.05)"
    assert Interval(-0.0001, -0.0002, 0.5).text() == "0.000 (0.000-0.500)"
    assert Interval(0.5, -0.2, 1.7).within(0, 1) == Interval(0.5, 0, 1)


@pytest.mark.parametrize("interval", [t_interval([0.3]), t_interval([0.3] * 4)])
def test_one_seed_or_equal_values_leave_no_width(interval):
    assert interval.low == pytest.approx(0.3)
    assert interval.high == pytest.approx(0.3)


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1.5), min_size=1, max_size=10), st.sampled_from((1.0, 0.9)))
def test_no_estimate_lies_outside_its_interval(values, most):
    """Bias-corrected values can slightly exceed the possible range."""
    interval = t_interval(values)
    assert interval.low <= interval.estimate <= interval.high
    within = interval.within(0, most)
    assert 0 <= within.low <= within.estimate <= within.high <= most


def test_the_ratio_agrees_with_all_resamples():
    """The ends are quantiles of the exact distribution; near a jump, both sides are correct."""
    a, b = (1.0, 4.0, 20.0), (2.0, 7.0)
    exact = [np.median(x) / np.median(y) for x, y in product(product(a, repeat=3), product(b, repeat=2))]
    checked = 0
    for level in np.linspace(0.05, 0.95, 19):
        interval, tail = ratio(a, b, level=level, resamples=10_000), (1 - level) / 2
        for end, share in ((interval.low, tail), (interval.high, 1 - tail)):
            lower, upper = np.quantile(exact, (share - 0.02, share + 0.02), method="inverted_cdf")
            if lower == upper:
                assert end == pytest.approx(lower, rel=1e-12)
                checked += 1
    assert checked >= 5
    assert ratio(a, b).estimate == pytest.approx(4 / 4.5)


def test_the_same_number_of_resamples_is_cut_off_on_both_sides():
    a, b = np.random.default_rng(4).normal(size=99) ** 2, [1.0]
    for level, resamples in ((0.95, 2000), (0.5, 7), (0.2, 9)):  # fifty, one and three on each side
        interval, inverse = (ratio(times, b, level=level, resamples=resamples) for times in (a, 1 / a))
        assert inverse.low == pytest.approx(1 / interval.high)
        assert inverse.high == pytest.approx(1 / interval.low)
    single = ratio(a, b, resamples=1)
    assert single.low == single.high


# A resample of SELDOM has the median inf with probability 7/27. So the ratio of two has the values 0, inf and NaN with
# probabilities 0.19, 0.19 and 0.07, and 0.26 of the resamples can lie below 1, and as many above.
SELDOM = [1, 1, INF]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        pytest.param(ratio([1, INF], [1]), Interval(INF, 1, INF), id="sometimes never"),
        pytest.param(ratio([INF, INF], [1]), Interval(INF, INF, INF), id="always never"),
        # A single inf in many moves the median no further than one large number does.
        pytest.param(ratio([*range(1, 30), INF], [1]), ratio([*range(1, 30), 1e9], [1]), id="a single never"),
        pytest.param(ratio([INF] * 3, [2.0] * 3), Interval(INF, INF, INF), id="never over a number"),
        pytest.param(ratio([2.0] * 3, [INF] * 3), Interval(0, 0, 0), id="a number over never"),
        pytest.param(ratio([INF] * 3, [INF] * 3), Interval(NAN, 0, INF), id="never over never"),
        pytest.param(ratio(SELDOM, SELDOM, level=0.4, resamples=10_000), Interval(1, 1, 1), id="seldom, narrow"),
        pytest.param(ratio(SELDOM, SELDOM, level=0.55, resamples=10_000), Interval(1, 0, INF), id="seldom, wide"),
    ],
)
def test_times_that_are_never_reached_count_as_infinite(interval, expected):
    """A ratio of two infinite times can be any number, so it widens the interval to both sides."""
    np.testing.assert_array_equal(astuple(interval), astuple(expected))


def test_standard_errors_apart_by_hand():
    # 0.3² / 9 + 0.4² / 4 = 0.01 + 0.04
    assert standard_errors_apart(1.0, 0.3, 9, 1.5, 0.4, 4) == pytest.approx(0.5 / math.sqrt(0.05))
    assert standard_errors_apart(1.5, 0.4, 4, 1.0, 0.3, 9) == pytest.approx(0.5 / math.sqrt(0.05))
    assert standard_errors_apart(1.0, 0.0, 5, 1.0, 0.0, 5) == 0
    assert standard_errors_apart(1.0, 0.0, 5, 1.1, 0.0, 5) == INF


@pytest.mark.parametrize(
    ("statistic", "values", "complaint"),
    [
        (ratio, ([1, NAN], [1]), "NaN or -inf"),
        (ratio, ([1, -INF], [1]), "NaN or -inf"),
        (ratio, ([[1, 2], [3, 4]], [1]), "shape"),
        (t_interval, ([],), "shape"),
        (t_interval, ([INF, 1.0],), "not finite"),
        (t_interval, ([[1.0]],), "shape"),
    ],
)
def test_invalid_samples_are_refused(statistic, values, complaint):
    with pytest.raises(ValueError, match=complaint):
        statistic(*values)
