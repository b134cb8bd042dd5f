"""Aggregates of a configuration's scores over its seeds and levels, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from drest_torch.comparison.configurations import Configuration, labels, score_of, splits_of
from drest_torch.comparison.records import IN_BITS, MEASURES, MOST, RunRecord
from drest_torch.statistics.aggregates import (
    AGGREGATES,
    LEVELS,
    SEEDS,
    TITLES,
    Profile,
    aggregate_interval,
    performance_profile,
    probability_of_improvement,
)
from drest_torch.statistics.intervals import Interval, t_interval

OVER = {"seeds": (SEEDS,), "both": (SEEDS, LEVELS)}
"""The axes that an interval is over, by the value of the key ``over``."""
THRESHOLDS = np.linspace(0, 1, 101)
"""The thresholds τ of a performance profile."""


@dataclass(frozen=True)
class Aggregation:
    """The choice of an aggregate and of its interval."""

    aggregate: str = "mean"
    over: str = "seeds"

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of scores that the interval is over."""
        return OVER[self.over]

    def words(self, *, is_pooled: bool) -> str:
        """Return the aggregate and its interval in words."""
        name = TITLES[self.aggregate]
        if self.over == "both":
            return f"{name} over seeds and levels (95 % bootstrap interval over seeds and levels)"
        if self.aggregate == "mean" and not is_pooled:
            return f"{name} over seeds (95 % interval, Student's t)"
        return f"{name} over seeds and levels (95 % bootstrap interval over seeds)"


MEAN_OVER_SEEDS = Aggregation()


@dataclass(frozen=True)
class Aggregated(Interval):
    """An aggregate of scores, with an interval of NaN for a single seed, and the numbers of scores."""

    seeds: int
    levels: int
    """Levels with a score of their own; 1 for scores that are means over levels."""

    @property
    def has_interval(self) -> bool:
        """True if there are enough seeds for an interval."""
        return not math.isnan(self.low)

    def __str__(self) -> str:
        if self.has_interval:
            return self.text()
        return f"{self.estimate:.3f}"


def scores_by_level(
    configuration: Configuration, split: str, measure: str, *, by_level: bool = True
) -> list[np.ndarray]:
    """Return the scores [seeds, levels] of each stratum.

    They are means over levels [seeds, 1] if the file of any level is missing, or not ``by_level``.
    """
    strata = configuration.scored_strata(split, measure)
    matrices = [_level_scores(runs, split, measure) for runs in strata]
    scores = [matrix for matrix in matrices if matrix is not None]
    if by_level and len(scores) == len(strata):
        return scores
    return [np.array([[score_of(run, split, measure)] for run in runs]) for runs in strata]


def _level_names(configuration: Configuration, split: str) -> list[list[str]]:
    """Return the names of the levels of each stratum."""
    return [[level["name"] for level in stratum[0].levels(split)] for stratum in configuration.strata]


def _level_scores(runs: Sequence[RunRecord], split: str, measure: str) -> np.ndarray | None:
    """Return the scores [seeds, levels] of runs on the same levels, or None."""
    records = [run.levels(split) for run in runs]
    names = [[record["name"] for record in levels] for levels in records]
    if not names[0] or any(other != names[0] for other in names):
        return None
    scores = np.array([[_number(record, measure) for record in levels] for levels in records])
    if not (np.abs(scores) < MOST).all():
        return None
    return scores


def _number(record: dict[str, Any], measure: str) -> float:
    value = record.get(measure)
    return float(value) if isinstance(value, int | float) else math.nan


def aggregated(
    configuration: Configuration, split: str, measure: str, choice: Aggregation = MEAN_OVER_SEEDS
) -> Aggregated | None:
    """Return the aggregate of a configuration's scores, clipped to possible values; None without any score."""
    scores = configuration.scores(split, measure)
    if not scores:
        return None
    strata = scores_by_level(configuration, split, measure)
    seeds = max(len(stratum) for stratum in strata)
    levels = sum(stratum.shape[1] for stratum in strata)
    if (choice.aggregate, choice.over, len(strata)) == ("mean", "seeds", 1):
        interval = t_interval(scores)
    else:
        interval = aggregate_interval(strata, AGGREGATES[choice.aggregate], axes=choice.axes)
    values = [interval.estimate, *scores]
    if choice.aggregate != "mean" and measure in IN_BITS:  # levels differ in their largest neutrality
        values += [float(stratum.max()) for stratum in strata]
    maxima = [run.most(split, measure) for run in configuration.runs]
    most = max(filter(math.isfinite, maxima), default=math.inf)
    interval = interval.within(min(0.0, *values), max(most, *values))
    low, high = interval.low, interval.high
    if seeds < 2:
        low = high = math.nan
    return Aggregated(interval.estimate, low, high, seeds, levels)


def improvement(
    a: Configuration, b: Configuration, split: str, measure: str, choice: Aggregation = MEAN_OVER_SEEDS
) -> Aggregated | None:
    """Return the probability that a seed of a has a higher score than one of b, as a mean over their levels.

    On different levels, the means over levels are compared. The result is None if the numbers of strata differ.
    Configurations with several strata need the same number of seeds in each. Their runs with the same seed are
    resampled together, so that the interval is rather too wide.
    """
    by_level = _level_names(a, split) == _level_names(b, split)
    first, second = (scores_by_level(configuration, split, measure, by_level=by_level) for configuration in (a, b))
    if not first or not second or [x.shape[1] for x in first] != [x.shape[1] for x in second]:
        return None
    if len({len(stratum) for stratum in first}) > 1 or len({len(stratum) for stratum in second}) > 1:
        return None
    x, y = np.concatenate(first, 1), np.concatenate(second, 1)
    interval = probability_of_improvement(x, y, axes=choice.axes)
    low, high = interval.low, interval.high
    if min(len(x), len(y)) < 2:
        low = high = math.nan
    return Aggregated(interval.estimate, low, high, len(x), x.shape[1])


Comparison = tuple[str, str, str, str]
"""The labels of two configurations, a split and a measure."""


def improvements(
    compared: Sequence[Configuration], choice: Aggregation = MEAN_OVER_SEEDS
) -> Iterator[tuple[Comparison, Aggregated]]:
    """Yield the probability of improvement of each configuration over each later one, by split and measure."""
    names = labels(compared)
    for first, second in combinations(range(len(compared)), 2):
        a, b = compared[first], compared[second]
        for split in splits_of(a.runs):
            for measure in MEASURES:
                score = improvement(a, b, split, measure, choice)
                if score is not None:
                    yield (names[first], names[second], split, measure), score


def profile(
    configuration: Configuration, split: str, measure: str, choice: Aggregation = MEAN_OVER_SEEDS
) -> Profile | None:
    """Return the performance profile of a configuration, or None without any score."""
    strata = scores_by_level(configuration, split, measure)
    if len({len(stratum) for stratum in strata}) != 1:
        return None
    return performance_profile(np.concatenate(strata, 1), THRESHOLDS, axes=choice.axes)
