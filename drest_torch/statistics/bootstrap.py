"""Numbers over seeds, with bootstrap intervals: results are a matrix (seeds × levels), as in rliable.

After Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical Precipice".
All intervals are percentile intervals. With few seeds they are too narrow: of the 95 % intervals for the
mean of normal numbers, 75 % cover it with 3 seeds, 83 % with 5, 90 % with 10 and 93 % with 20.

Time until something is reached may be +inf (never). The median and comparisons can take that; a mean
cannot, and refuses. NaN is refused everywhere. Every draw comes from ``seed``: same seed, same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""What becomes of the last axis: [..., n] -> [...]."""

NUMBERS_AT_ONCE = 2**20
"""Resamples are drawn in chunks of about this many numbers, so that memory does not grow with them."""


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it."""

    estimate: float
    low: float
    high: float

    def text(self, digits: int = 3) -> str:
        """``0.995 (0.992-0.997)``, and ``-0.100 (-0.200 to 0.050)`` where a minus could be taken for the dash."""
        # Adding 0 turns −0.000 into 0.000.
        estimate, low, high = (f"{round(x, digits) + 0.0:.{digits}f}" for x in (self.estimate, self.low, self.high))
        return f"{estimate} ({low}{' to ' if low.startswith('-') else '-'}{high})"

    def __str__(self) -> str:
        return self.text()


def mean(values: ArrayLike) -> Array:
    """The mean of the last axis."""
    return np.asarray(np.asarray(values, np.float64).mean(-1))


def median(values: ArrayLike) -> Array:
    """The median of the last axis; +inf (never) where half of the values or more are."""
    return np.asarray(np.median(np.asarray(values, np.float64), -1))


def interquartile_mean(values: ArrayLike) -> Array:
    """The mean of the middle half of the last axis: as robust as a median, and less noisy.

    Each of the n sorted values stands for 1/n of the distribution and counts by how much of that lies
    between the quartiles, so n need be no multiple of 4.
    """
    values = np.asarray(values, np.float64)
    n = values.shape[-1]
    place = np.arange(n)
    weights = np.clip(np.minimum(place + 1, 0.75 * n) - np.maximum(place, 0.25 * n), 0, 1)
    # Inside the middle half all weights are 1, so only the two values at its ends have to be in their place.
    middle = np.partition(values, (n // 4, n - 1 - n // 4), -1)
    # Not a matrix product: its rounding depends on the number of rows, and equal values must stay equal.
    return np.asarray((middle * weights).sum(-1) / (0.5 * n))


def bootstrap(
    values: ArrayLike, statistic: Statistic = mean, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """The statistic of values [n], with the interval that other seeds would leave it in.

    One value, or equal ones, give an interval of no width: it says nothing about other seeds.
    """
    return _bootstrap([_sample(values, never=statistic is median)], statistic, level, resamples, seed)


def stratified_bootstrap(
    values: ArrayLike,
    statistic: Statistic = mean,
    *,
    over_levels: bool = False,
    whole_seeds: bool = False,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """The statistic of all entries of values [seeds, levels]. The options say what else could have come out.

    By default each level draws its own seeds; the levels, being strata, stay as they are (as in rliable):
    the same levels, trained on again. It takes each entry for a run of its own.

    ``whole_seeds`` draws a seed with all its levels: the same levels, met by other policies. It is the one
    to take where each seed is one policy, evaluated on every level. A policy's luck is then common to its
    levels, and drawing within each level would average it away.

    ``over_levels`` draws the levels as well: other levels of the same kind. It is for held-out levels,
    which are themselves a sample. Both together are for policies evaluated on held-out levels.
    """
    sample = _sample(values, never=statistic is median, axes=2)
    return _bootstrap([sample], statistic, level, resamples, seed, over_levels=over_levels, whole_seeds=whole_seeds)


def difference(
    a: ArrayLike,
    b: ArrayLike,
    statistic: Statistic = mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """statistic(a) − statistic(b), for independent samples a [n] and b [m].

    Never minus never is NaN, and may be any number: such resamples widen the interval to both sides.
    """
    samples = [_sample(each, never=statistic is median) for each in (a, b)]
    return _bootstrap(samples, lambda x, y: statistic(x) - statistic(y), level, resamples, seed)


def ratio(a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """median(a) ÷ median(b), for independent samples a [n] and b [m] of times, which are never negative.

    The shutdownability tax is this ratio of DReST's time to that of the default reward. If only a never
    arrives it is inf, if only b, 0. If neither does (or both take no time) it is NaN, and may be any number
    from 0 to inf: such resamples widen the interval to both sides.
    """
    samples = [_sample(each, never=True) for each in (a, b)]
    if any((sample < 0).any() for sample in samples):
        raise ValueError("A ratio is taken of times, and a time is not negative.")
    return _bootstrap(samples, lambda x, y: median(x) / median(y), level, resamples, seed, least=0.0)


def probability_of_improvement(
    a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """P(a > b) + ½ P(a = b), for independent samples a [n] and b [m]; +inf is larger than any number."""

    def above(x: Array, y: Array) -> Array:
        x, y = x[..., :, None], y[..., None, :]
        return ((x > y).mean((-2, -1)) + (x >= y).mean((-2, -1))) / 2

    first, second = (_sample(each, never=True) for each in (a, b))
    return _bootstrap([first, second], above, level, resamples, seed, numbers=first.size * second.size)


def standard_errors_apart(mean_a: float, sd_a: float, n_a: int, mean_b: float, sd_b: float, n_b: int) -> float:
    """|difference of the means| ÷ its standard error (Welch), for comparing with a paper's mean ± SD.

    The SDs are those of the runs (with n − 1), not of their mean. Without any spread, equal means are 0
    apart and others inf.
    """
    if n_a < 2 or n_b < 2:
        raise ValueError("A standard deviation needs at least two values.")
    if not (all(map(math.isfinite, (mean_a, sd_a, mean_b, sd_b))) and sd_a >= 0 and sd_b >= 0):
        raise ValueError("Means and standard deviations have to be finite, and standard deviations not negative.")
    apart, error = abs(mean_a - mean_b), math.hypot(sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b))
    if error == 0:
        return 0.0 if apart == 0 else math.inf
    return apart / error


def _sample(values: ArrayLike, *, never: bool, axes: int = 1) -> Array:
    """[seeds, levels], checked; [n] becomes n seeds on one level. ``never`` says that +inf may occur."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != axes or sample.size == 0:
        raise ValueError(f"Expected {'[n]' if axes == 1 else '[seeds, levels]'} values, got shape {sample.shape}.")
    if np.isnan(sample).any():
        raise ValueError("A value is NaN.")
    if np.isneginf(sample).any():
        raise ValueError("A value is -inf.")
    if not never and np.isposinf(sample).any():
        raise ValueError("A value is +inf, of which a median can be taken, and nothing else.")
    return sample.reshape(len(sample), -1)


def _bootstrap(
    samples: list[Array],
    statistic: Callable[..., Array],
    level: float,
    resamples: int,
    seed: int,
    *,
    over_levels: bool = False,
    whole_seeds: bool = False,
    least: float = -math.inf,
    numbers: int | None = None,
) -> Interval:
    """The percentile interval of a statistic of all samples, each [seeds, levels] and drawn independently.

    A NaN may be anything from ``least`` to inf. ``numbers`` is how many the statistic holds per resample.
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"Expected a level between 0 and 1 and some resamples, got {level} and {resamples}.")
    rng = np.random.default_rng(seed)
    chunk = max(1, NUMBERS_AT_ONCE // (numbers or sum(sample.size for sample in samples)))
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = statistic(*(sample.reshape(-1) for sample in samples))
        drawn = np.concatenate(
            [
                statistic(*(_resample(s, min(chunk, resamples - done), rng, over_levels, whole_seeds) for s in samples))
                for done in range(0, resamples, chunk)
            ]
        )
    # No interpolation, which would make NaN of inf. As many are left out below as above.
    out = int((1 - level) / 2 * resamples)
    unknown = np.isnan(drawn)
    low = np.sort(np.where(unknown, least, drawn))[out]
    high = np.sort(np.where(unknown, math.inf, drawn))[-1 - out]
    return Interval(float(estimate), float(low), float(high))


def _resample(values: Array, count: int, rng: np.random.Generator, over_levels: bool, whole_seeds: bool) -> Array:
    """[count, seeds · levels] resamples of values [seeds, levels]."""
    seeds, levels = values.shape
    of_seed = rng.integers(seeds, size=(count, seeds, 1 if whole_seeds else levels))
    of_level = rng.integers(levels, size=(count, 1, levels)) if over_levels else np.arange(levels)
    return values[of_seed, of_level].reshape(count, -1)
