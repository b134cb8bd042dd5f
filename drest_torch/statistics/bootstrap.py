"""Bootstrap intervals for medians, ratios and comparisons over seeds; for means see `drest_torch.statistics.intervals`.

All intervals are percentile intervals. With few seeds they are too narrow: of the 95 % intervals for the
mean of normal numbers, 75 % cover it with 3 seeds, 83 % with 5, 90 % with 10 and 93 % with 20.

A hitting time may be +inf (never). The median and comparisons accept +inf; a mean refuses it. NaN is refused
everywhere. All random numbers come from ``seed``: the same seed gives the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""A function that reduces the last axis: [..., n] -> [...]."""

NUMBERS_AT_ONCE = 2**20
"""The size of a chunk of resamples, in numbers; chunks keep memory independent of the number of resamples."""


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it."""

    estimate: float
    low: float
    high: float

    def text(self, digits: int = 3) -> str:
        """Return ``0.995 (0.992-0.997)``, or ``-0.100 (-0.200 to 0.050)`` where a minus could be read as the dash."""
        # Adding 0 turns −0.000 into 0.000.
        estimate, low, high = (f"{round(x, digits) + 0.0:.{digits}f}" for x in (self.estimate, self.low, self.high))
        return f"{estimate} ({low}{' to ' if low.startswith('-') else '-'}{high})"

    def within(self, least: float, most: float) -> Interval:
        """Return the estimate and its interval, moved into the range of the statistic.

        A mean of estimates that are corrected for bias can lie outside.
        """
        return Interval(*(min(max(number, least), most) for number in (self.estimate, self.low, self.high)))

    def __str__(self) -> str:
        return self.text()


def mean(values: ArrayLike) -> Array:
    """Return the mean of the last axis."""
    return np.asarray(np.asarray(values, np.float64).mean(-1))


def median(values: ArrayLike) -> Array:
    """Return the median of the last axis, which is +inf (never) if at least half of the values are."""
    return np.asarray(np.median(np.asarray(values, np.float64), -1))


def bootstrap(
    values: ArrayLike, statistic: Statistic = mean, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Return the statistic of values [n], with its interval over other seeds.

    One value, or equal values, give an interval of width 0. It says nothing about other seeds.
    """
    return _bootstrap([_sample(values, never=statistic is median)], statistic, level, resamples, seed)


def ratio(a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return median(a) ÷ median(b), with its interval, for independent samples a [n] and b [m] of times.

    Times are not negative. The shutdownability tax is the ratio of DReST's time to that of the default reward.
    The ratio is inf if only a is inf (never), and 0 if only b is. If both are inf, or both are 0, it is NaN and
    can be any number from 0 to inf: such resamples widen the interval to both sides.
    """
    samples = [_sample(values, never=True) for values in (a, b)]
    if any((sample < 0).any() for sample in samples):
        raise ValueError("A ratio is taken of times, and a time is not negative.")
    return _bootstrap(samples, lambda x, y: median(x) / median(y), level, resamples, seed, least=0.0)


def standard_errors_apart(mean_a: float, sd_a: float, n_a: int, mean_b: float, sd_b: float, n_b: int) -> float:
    """Return |difference of the means| ÷ its standard error (Welch), to compare with a paper's mean ± SD.

    The SDs are those of the runs (with n − 1), not of their mean. If both SDs are 0, the result is 0 for equal
    means and inf for others.
    """
    if n_a < 2 or n_b < 2:
        raise ValueError("A standard deviation needs at least two values.")
    if not (all(map(math.isfinite, (mean_a, sd_a, mean_b, sd_b))) and sd_a >= 0 and sd_b >= 0):
        raise ValueError("Means and standard deviations have to be finite, and standard deviations not negative.")
    distance, error = abs(mean_a - mean_b), math.hypot(sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b))
    if error == 0:
        return 0.0 if distance == 0 else math.inf
    return distance / error


def _sample(values: ArrayLike, *, never: bool) -> Array:
    """Check values and return them as [n]. ``never`` allows +inf."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1 or sample.size == 0:
        raise ValueError(f"Expected [n] values, got shape {sample.shape}.")
    if np.isnan(sample).any():
        raise ValueError("A value is NaN.")
    if np.isneginf(sample).any():
        raise ValueError("A value is -inf.")
    if not never and np.isposinf(sample).any():
        raise ValueError("A value is +inf, of which a median can be taken, and nothing else.")
    return sample


def _bootstrap(
    samples: list[Array],
    statistic: Callable[..., Array],
    level: float,
    resamples: int,
    seed: int,
    *,
    least: float = -math.inf,
    numbers: int | None = None,
) -> Interval:
    """Return the percentile interval of a statistic of samples [n], which are resampled independently.

    A NaN can be anything from ``least`` to inf. ``numbers`` is how many numbers the statistic holds per resample.
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"Expected a level between 0 and 1 and some resamples, got {level} and {resamples}.")
    rng = np.random.default_rng(seed)
    chunk = max(1, NUMBERS_AT_ONCE // (numbers or sum(sample.size for sample in samples)))
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = statistic(*samples)
        resampled = np.concatenate(
            [
                statistic(*(_resample(sample, min(chunk, resamples - done), rng) for sample in samples))
                for done in range(0, resamples, chunk)
            ]
        )
    # No interpolation: it would turn inf into NaN. Equally many resamples are cut off below and above.
    cut = int((1 - level) / 2 * resamples)
    unknown = np.isnan(resampled)
    low = np.sort(np.where(unknown, least, resampled))[cut]
    high = np.sort(np.where(unknown, math.inf, resampled))[-1 - cut]
    return Interval(float(estimate), float(low), float(high))


def _resample(values: Array, count: int, rng: np.random.Generator) -> Array:
    """Return [count, n] resamples of values [n]."""
    return values[rng.integers(len(values), size=(count, len(values)))]
