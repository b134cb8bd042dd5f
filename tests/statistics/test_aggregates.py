"""Aggregates over seeds and levels against numbers by hand, full enumeration, and simulation."""

import math
from itertools import product

import numpy as np
import pytest

from drest_torch.statistics.aggregates import (
    AGGREGATES,
    LEVELS,
    SEEDS,
    aggregate_interval,
    interquartile_mean,
    mean,
    median,
    performance_profile,
    probability_of_improvement,
)
from drest_torch.statistics.bootstrap import over_seeds_and_levels
from drest_torch.statistics.intervals import t_interval, t_quantile
from tests.statistics.coverage import coverage

RNG = np.random.default_rng(0)
SCORES = np.array([[0.1, 0.9, 0.4], [0.3, 0.8, 0.0]])


def trimmed(values):
    """Return the mean without a quarter of the values at each end, as scipy.stats.trim_mean defines it."""
    values = sorted(values)
    cut = int(0.25 * len(values))
    middle = values[cut : len(values) - cut]
    return sum(middle) / len(middle)


@pytest.mark.parametrize("count", range(1, 14))
def test_the_interquartile_mean_is_a_trimmed_mean(count):
    values = RNG.normal(size=(count, 1))
    assert interquartile_mean([values]) == pytest.approx(trimmed(values[:, 0]))


def test_the_interquartile_mean_by_hand():
    """The two lowest and the two highest of eight scores are cut."""
    assert interquartile_mean([np.array([[0, 1, 2, 3], [4, 5, 6, 70.0]])]) == 3.5


def test_aggregates_of_levels_by_hand():
    """The means of the levels are 0.2, 0.85 and 0.2; a quarter of six scores, rounded down, is one."""
    assert mean([SCORES]) == pytest.approx(1.25 / 3)
    assert median([SCORES]) == pytest.approx(0.2)
    assert interquartile_mean([SCORES]) == pytest.approx((0.1 + 0.3 + 0.4 + 0.8) / 4)


def test_the_median_of_a_single_level_is_over_seeds():
    assert median([np.array([[0.1], [0.2], [0.9]])]) == 0.2


def test_strata_may_have_different_numbers_of_seeds():
    strata = [np.array([[0.0], [1.0]]), np.array([[0.2], [0.3], [0.4]])]
    assert mean(strata) == pytest.approx((0.5 + 0.3) / 2)
    assert median(strata) == pytest.approx((0.5 + 0.3) / 2)
    assert interquartile_mean(strata) == pytest.approx(0.3)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_of_a_batch_are_computed_entry_by_entry(name):
    batch = RNG.normal(size=(5, 4, 7))
    assert AGGREGATES[name]([batch]) == pytest.approx([float(AGGREGATES[name]([scores])) for scores in batch])


def every_end(scores, deviation_of):
    """Return the ends of the widened interval over seeds from all resamples of four scores [seeds, 1]."""
    n = len(scores)
    widening = t_quantile(n - 1) / 1.96 * math.sqrt(n / (n - 1))
    deviations = [widening * deviation_of(scores[list(indices)]) for indices in product(range(n), repeat=n)]
    return np.quantile(deviations, (0.015, 0.035, 0.965, 0.985), method="inverted_cdf")


@pytest.mark.parametrize("name", ["median", "iqm"])
def test_an_interval_over_seeds_agrees_with_all_resamples(name):
    scores, aggregate = RNG.normal(size=(4, 1)), AGGREGATES[name]
    estimate = float(aggregate([scores]))
    interval = aggregate_interval([scores], aggregate, resamples=40_000)
    ends = estimate + every_end(scores, lambda resampled: float(aggregate([resampled])) - estimate)
    assert interval.estimate == estimate
    assert ends[0] - 1e-3 <= interval.low <= ends[1] + 1e-3
    assert ends[2] - 1e-3 <= interval.high <= ends[3] + 1e-3


def test_the_interval_of_a_mean_is_the_one_over_seeds_or_levels():
    values = RNG.normal(size=(5, 30))
    interval, expected = aggregate_interval([values], mean, resamples=20_000), over_seeds_and_levels(values)
    width = expected.high - expected.low
    assert interval.estimate == pytest.approx(expected.estimate)
    assert interval.low == pytest.approx(expected.low, abs=0.05 * width)
    assert interval.high == pytest.approx(expected.high, abs=0.05 * width)


def test_levels_that_are_not_resampled_add_no_width():
    values = RNG.normal(size=(6, 1)) + 100 * RNG.normal(size=30)
    interval, expected = aggregate_interval([values], mean, axes=[SEEDS]), t_interval(values.mean(1))
    assert interval.high - interval.low == pytest.approx(expected.high - expected.low, rel=0.2)


def test_strata_are_resampled_separately():
    """Two tasks far apart: mixing them would give a wide interval."""
    near, far = RNG.normal(size=(2, 10, 1))
    interval = aggregate_interval([near, 1000 + far], mean, axes=[SEEDS])
    expected = math.hypot(near.std(ddof=1), far.std(ddof=1)) / math.sqrt(10) / 2
    assert interval.estimate == pytest.approx((near.mean() + 1000 + far.mean()) / 2)
    assert interval.high - interval.low == pytest.approx(2 * t_quantile(18) * expected, rel=0.1)


@pytest.mark.parametrize("name", AGGREGATES)
def test_equal_scores_give_no_width(name):
    interval = aggregate_interval([np.full((3, 5), 0.3)], AGGREGATES[name])
    assert interval.low == interval.high == interval.estimate == pytest.approx(0.3)


def test_resampling_in_batches_gives_the_same_resamples(monkeypatch):
    values = RNG.normal(size=(3, 4))
    whole = aggregate_interval([values], resamples=4000)
    monkeypatch.setattr("drest_torch.statistics.aggregates.NUMBERS_AT_ONCE", 120)
    parts = aggregate_interval([values], resamples=4000)
    assert parts.low == pytest.approx(whole.low, abs=0.1)
    assert parts.high == pytest.approx(whole.high, abs=0.1)


@pytest.mark.parametrize("method", ["median", "iqm"])
@pytest.mark.parametrize("world", ["mostly of levels", "mostly of seeds"])
def test_the_interval_of_an_aggregate_covers(world, method):
    """100 samples: standard error 0.02."""
    assert coverage(world, method, samples=100, shape=(5, 20)) >= 0.9


def test_a_profile_is_the_share_that_reaches_each_threshold():
    profile = performance_profile(SCORES, [0, 0.1, 0.35, 0.8, 0.95])
    assert profile.share.tolist() == pytest.approx([1, 5 / 6, 3 / 6, 2 / 6, 0])
    assert profile.low[0] == profile.high[0] == 1
    assert profile.low[-1] == profile.high[-1] == 0
    assert (profile.low >= 0).all()
    assert (profile.high <= 1).all()
    assert (profile.low <= profile.share).all()
    assert (profile.high >= profile.share).all()


def test_a_point_of_a_profile_has_the_interval_of_a_mean():
    values = RNG.random((8, 40))
    profile = performance_profile(values, [0.5], resamples=20_000)
    expected = over_seeds_and_levels(values >= 0.5)
    assert profile.low[0] == pytest.approx(expected.low, abs=0.01)
    assert profile.high[0] == pytest.approx(expected.high, abs=0.01)


def test_the_probability_of_improvement_by_enumeration():
    a, b = RNG.integers(4, size=(2, 3, 5)) / 4
    b = b[:2]
    pairs = [(x > y) + 0.5 * (x == y) for level in range(5) for x in a[:, level] for y in b[:, level]]
    better, worse = probability_of_improvement(a, b), probability_of_improvement(b, a)
    assert better.estimate == pytest.approx(np.mean(pairs))
    assert worse.estimate == pytest.approx(1 - better.estimate)
    assert 0 <= better.low <= better.estimate <= better.high <= 1


def test_an_improvement_of_all_pairs_is_certain():
    interval = probability_of_improvement(np.ones((3, 4)), np.zeros((2, 4)))
    assert (interval.estimate, interval.low, interval.high) == (1, 1, 1)


def test_an_interval_of_an_improvement_covers_chance():
    """Scores of the same distribution; 100 samples: standard error 0.02."""
    rng = np.random.default_rng(1)
    intervals = [probability_of_improvement(*rng.normal(size=(2, 6, 1)), axes=[SEEDS]) for _ in range(100)]
    assert np.mean([interval.low <= 0.5 <= interval.high for interval in intervals]) >= 0.88


def test_an_improvement_on_other_levels_is_refused():
    with pytest.raises(ValueError, match="the same levels"):
        probability_of_improvement(np.ones((2, 3)), np.ones((2, 4)))


def test_levels_widen_an_interval_of_a_profile():
    values = np.broadcast_to(RNG.random(20), (4, 20))
    over_levels = performance_profile(values, [0.5], axes=[LEVELS])
    over_seeds = performance_profile(values, [0.5], axes=[SEEDS])
    assert over_seeds.low[0] == over_seeds.high[0]
    assert over_levels.low[0] < over_levels.high[0]
