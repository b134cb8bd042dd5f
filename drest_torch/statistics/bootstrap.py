"""Intervals for means over seeds and levels, by a bootstrap, and Holm's correction for many comparisons.

Runs with the same seed are not independent, and neither are values on the same level. So seeds and levels are resampled
separately (the pigeonhole bootstrap of Owen 2007), and the resampled deviations are widened by the quantile of t, since
a percentile bootstrap covers too little with few seeds. Coverage of the 95 % interval, from 1,000 simulated samples of
5 seeds × 100 levels (``python -m tests.statistics.coverage 1000``):

===================================================  ==========  ================  ==========  ===========
effects                                              this one    t over seeds [1]  percentile  with bounds
===================================================  ==========  ================  ==========  ===========
mostly of levels (SDs .02 of seeds, .1, .05)         .95         .86               .93         1.00
mostly of seeds (SDs .1, .02, .05)                   .94         .94               .83         1.00
noise alone                                          .99         .95               .98         1.00
each level fails or not, more often for some seeds   .95         .94               .90         1.00
a fifth of the seeds collapses                       .68         .67               .65         1.00
===================================================  ==========  ================  ==========  ===========

[1] `t_interval` of the means of the seeds. It is right for statements about these levels alone.

Where a fifth of the seeds collapses, a third of all samples of five seeds contains no collapse. Such a sample holds no
sign of it, so no interval from the values alone can cover .95. Show the range of the seeds there, or give the
``bounds`` of all possible values: then the interval covers, but is about half as wide as the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drest_torch.statistics.intervals import NORMAL_95, Array, Interval, sample_of, t_quantile, t_tails

RESAMPLES = 2000


@dataclass(frozen=True)
class PairedDifference(Interval):
    """A mean difference, the interval around it, and the p value of no difference."""

    p: float


def over_seeds_and_levels(
    values: ArrayLike, *, bounds: tuple[float, float] | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return the mean of values [seeds, levels] with its 95 % interval over other seeds and other levels.

    ``bounds`` are the least and the largest possible value. With them the interval also covers if some seeds collapse
    and none in the sample does (the bound of Gaffke 2005: random weights of the seeds, with one more seed at the
    bound). ``seed`` is the seed of the resampling.
    """
    sample = _crossed(values)
    rng = np.random.default_rng(seed)
    mean, seeds, levels = _effects(sample)
    level_means = _resampled(levels, resamples, rng)
    if bounds is not None:
        return _bounded(seeds + mean, level_means, bounds, rng)
    widening = t_quantile(_freedom(seeds, levels)) / NORMAL_95
    deviations = (_resampled(seeds, resamples, rng) + level_means) * widening
    low, high = np.quantile(deviations, (0.025, 0.975))
    return Interval(mean, mean + min(float(low), 0.0), mean + max(float(high), 0.0))


def paired_difference(a: ArrayLike, b: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> PairedDifference:
    """Return mean(a) − mean(b) of values [seeds, levels] on the same levels, with its interval and p value.

    The p value is two-sided, after Student's t with the degrees of freedom of Satterthwaite (1946). Seeds may be paired
    in any order if those of a and b are unrelated.
    """
    first, second = _crossed(a), _crossed(b)
    if first.shape != second.shape:
        raise ValueError(f"A paired difference needs the same seeds and levels: {first.shape} and {second.shape}.")
    interval = over_seeds_and_levels(first - second, resamples=resamples, seed=seed)
    mean, seeds, levels = _effects(first - second)
    error = float(np.sqrt(_variance(seeds) + _variance(levels)))
    if error == 0:
        p = float(mean == 0)
    else:
        p = t_tails(abs(mean) / error, _freedom(seeds, levels))
    return PairedDifference(interval.estimate, interval.low, interval.high, p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values [n] corrected for n comparisons (Holm 1979).

    If hypotheses below 0.05 are rejected, the probability of any false rejection is at most 0.05, also for dependent
    comparisons.
    """
    p = sample_of(p_values)
    if ((p < 0) | (p > 1)).any():
        raise ValueError("A p value lies outside 0 to 1.")
    order = np.argsort(p)
    corrected = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    result = np.empty_like(p)
    result[order] = corrected
    return [float(value) for value in result]


def _crossed(values: ArrayLike) -> Array:
    """Return checked values as [seeds, levels]."""
    sample = sample_of(values, axes=2)
    if min(sample.shape) < 2:
        seeds, levels = sample.shape
        raise ValueError(
            f"An interval over seeds and levels needs two of each, got {seeds} × {levels}. "
            "Show the values alone; for seeds on one level take t_interval."
        )
    return sample


def _effects(sample: Array) -> tuple[float, Array, Array]:
    """Return the mean of values [S, L], and the deviations of seeds' means [S] and levels' means [L] from it."""
    mean = float(sample.mean())
    seeds, levels = sample.mean(1) - mean, sample.mean(0) - mean
    # Means of equal numbers differ by rounding.
    tiny = 1e-12 * max(1.0, float(np.abs(sample).max()))
    return mean, np.where(abs(seeds) < tiny, 0, seeds), np.where(abs(levels) < tiny, 0, levels)


def _resampled(effects: Array, resamples: int, rng: np.random.Generator) -> Array:
    """Return means [R] of resampled effects [n], whose variance is unbiased."""
    n = len(effects)
    means = effects[rng.integers(n, size=(resamples, n))].mean(1)
    return np.asarray(means * np.sqrt(n / (n - 1)))


def _variance(effects: Array) -> float:
    """Return the variance of the mean of effects [n]."""
    return float(effects.var(ddof=1)) / len(effects)


def _freedom(seeds: Array, levels: Array) -> float:
    """Return the degrees of freedom of the variance of the mean, after Satterthwaite."""
    seed_variance, level_variance = _variance(seeds), _variance(levels)
    total = seed_variance + level_variance
    if total == 0:
        return 1.0
    seed_part = (seed_variance / total) ** 2 / (len(seeds) - 1)
    level_part = (level_variance / total) ** 2 / (len(levels) - 1)
    return round(max(1 / (seed_part + level_part), 1.0), 3)


def _bounded(means: Array, level_means: Array, bounds: tuple[float, float], rng: np.random.Generator) -> Interval:
    """Return the interval for values within the bounds, from seeds' means [S] and resampled levels' means [R]."""
    least, most = bounds
    if means.min() < least or means.max() > most:
        raise ValueError(f"A value lies outside the bounds {least} to {most}.")
    weights = rng.dirichlet(np.ones(len(means) + 1), size=len(level_means))  # [R, S + 1]
    lowest = weights @ np.sort(np.append(means, least)) + level_means
    highest = weights @ np.sort(np.append(means, most)) + level_means
    low, high = float(np.quantile(lowest, 0.025)), float(np.quantile(highest, 0.975))
    return Interval(float(means.mean()), low, high).within(least, most)
