"""Intervals over seeds, against full enumeration, brute force, simulation and numbers worked out by hand."""

import itertools
import math

import numpy as np
import pytest

from drest_torch.statistics.intervals import Interval, ratio, standard_errors_apart

INF = math.inf


def numbers(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def assert_quantiles(interval_at, exact):
    """The ends of the interval are those of the exact distribution, at every level.

    Levels whose ends fall near a jump of the distribution are left out: there either side is right.
    """
    checked = 0
    for level in np.linspace(0.05, 0.95, 19):
        tail = (1 - level) / 2
        ends = [np.quantile(exact, (tail - 0.02, 1 - tail - 0.02), method="inverted_cdf")]
        ends.append(np.quantile(exact, (tail + 0.02, 1 - tail + 0.02), method="inverted_cdf"))
        interval = interval_at(level)
        for end, (one, other) in zip((interval.low, interval.high), np.transpose(ends), strict=True):
            if one == other:
                assert end == pytest.approx(one, rel=1e-12)
                checked += 1
    assert checked >= 5


def test_the_ratio_against_all_resamples():
    a, b = (1.0, 4.0, 20.0), (2.0, 7.0)
    pairs = list(itertools.product(itertools.product(a, repeat=3), itertools.product(b, repeat=2)))
    ratios = np.sort([np.median(x) / np.median(y) for x, y in pairs])
    assert_quantiles(lambda level: ratio(a, b, level=level, resamples=10_000), ratios)
    assert ratio(a, b).estimate == pytest.approx(4 / 4.5)


def test_as_much_is_left_out_below_as_above():
    a, b = numbers(4, 9) ** 2, [1.0]
    interval, inverse = ratio(a, b), ratio(1 / a, b)
    assert (inverse.low, inverse.high) == pytest.approx((1 / interval.high, 1 / interval.low))
    one = ratio(a, b, resamples=1)
    assert one.low == one.high


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (ratio([1, INF], [1]), Interval(INF, 1, INF)),
        (ratio([INF, INF], [1]), Interval(INF, INF, INF)),
        # One never in many moves the median no further than one large number does.
        (ratio([*range(1, 30), INF], [1]), ratio([*range(1, 30), 1e9], [1])),
        (ratio([INF] * 3, [2.0] * 3), Interval(INF, INF, INF)),
        (ratio([2.0] * 3, [INF] * 3), Interval(0, 0, 0)),
    ],
)
def test_what_is_never_reached_is_infinite(interval, expected):
    assert interval == expected


def test_never_divided_by_never_is_nan():
    both = ratio([INF] * 3, [INF] * 3)
    assert math.isnan(both.estimate)
    assert (both.low, both.high) == (0, INF)


def test_never_divided_by_never_widens_the_ratio_to_both_sides():
    """A resample of either has the median inf with probability 7/27, so 0, inf and NaN have 0.19, 0.19 and 0.07.

    0.26 of the resamples may therefore lie below 1, and as many above.
    """
    times = [1, 1, INF]
    assert ratio(times, times, level=0.4, resamples=10_000) == Interval(1, 1, 1)
    assert ratio(times, times, level=0.55, resamples=10_000) == Interval(1, 0, INF)


def test_standard_errors_apart_by_hand():
    # 0.3² / 9 + 0.4² / 4 = 0.01 + 0.04
    assert standard_errors_apart(1.0, 0.3, 9, 1.5, 0.4, 4) == pytest.approx(0.5 / math.sqrt(0.05))
    assert standard_errors_apart(1.5, 0.4, 4, 1.0, 0.3, 9) == pytest.approx(0.5 / math.sqrt(0.05))
    assert standard_errors_apart(1.0, 0.0, 5, 1.0, 0.0, 5) == 0
    assert standard_errors_apart(1.0, 0.0, 5, 1.1, 0.0, 5) == INF


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: ratio([1, math.nan], [1]), "NaN"),
        (lambda: ratio([1, -INF], [1]), "-inf"),
        (lambda: ratio([[1, 2], [3, 4]], [1]), "shape"),
    ],
)
def test_what_cannot_be_answered_is_refused(call, complaint):
    with pytest.raises(ValueError, match=complaint):
        call()
