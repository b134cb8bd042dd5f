"""Intervals for means over seeds, after Student's t, and a bootstrap interval for the ratio of two median times.

A nominal 95 % percentile bootstrap over 3 (5) seeds covers about 75 % (83 %), because it neither widens for the
estimated variance nor corrects its bias; the quantiles of t do. If several parts of the variance are each estimated
from a few seeds, the degrees of freedom follow Satterthwaite (1946).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


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
        """Return the interval with all three numbers clipped to the range of the statistic.

        A mean of bias-corrected estimates can lie outside it.
        """
        return Interval(*(min(max(number, least), most) for number in (self.estimate, self.low, self.high)))

    def __str__(self) -> str:
        return self.text()


def ratio(a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return median(a) ÷ median(b), with its interval, for independent samples a [n] and b [m] of times.

    Times are not negative. The shutdownability tax is DReST's time ÷ the default reward's time. The ratio is inf if
    only median(a) is inf (never), and 0 if only median(b) is. If both are inf, or both are 0, it is NaN and can be any
    number from 0 to inf: such resamples widen the interval to both sides.
    """
    samples = [sample_of(values, infinite=True) for values in (a, b)]
    rng = np.random.default_rng(seed)
    drawn = (sample[rng.integers(len(sample), size=(resamples, len(sample)))] for sample in samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate, resampled = (np.median(x, -1) / np.median(y, -1) for x, y in (samples, drawn))
    # No interpolation: it would turn inf into NaN. The same number of resamples is cut off on both sides.
    cut = int((1 - level) / 2 * resamples)
    unknown = np.isnan(resampled)
    low = np.sort(np.where(unknown, 0.0, resampled))[cut]
    high = np.sort(np.where(unknown, math.inf, resampled))[-1 - cut]
    return Interval(float(estimate), float(low), float(high))


def standard_errors_apart(mean_a: float, sd_a: float, n_a: int, mean_b: float, sd_b: float, n_b: int) -> float:
    """Return |difference of the means| ÷ its standard error (Welch), to compare with a paper's mean ± SD.

    The SDs are over runs (with n − 1), not of their mean. If both SDs are 0, the result is 0 for equal means and inf
    otherwise.
    """
    distance, error = abs(mean_a - mean_b), math.hypot(sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b))
    if error == 0:
        return 0.0 if distance == 0 else math.inf
    return distance / error


def sample_of(values: ArrayLike, axes: int = 1, *, infinite: bool = False) -> Array:
    """Return checked values as [n], or, with two axes, as [seeds, levels]; +inf is allowed if ``infinite``."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != axes or sample.size == 0:
        raise ValueError(f"Expected {'[n]' if axes == 1 else '[seeds, levels]'} values, got shape {sample.shape}.")
    if not (np.isfinite(sample) | (infinite & np.isposinf(sample))).all():
        raise ValueError(f"A value is NaN or {'-inf' if infinite else 'not finite'}.")
    return sample


LEVEL = 0.95
NORMAL_95 = 1.959964
"""The half-width of a 95 % interval for the mean of normal numbers, in standard errors."""
POINTS = 20_001
"""Points of the numerical integral of the density of t."""
MOST_FREEDOM = 1e4
"""The largest degrees of freedom; t is nearly normal there, and more degrees are treated as these."""


@lru_cache(1024)
def t_quantile(freedom: float) -> float:
    """Return the half-width of a two-sided 95 % interval for t, such as 4.303 for 2 degrees of freedom."""
    angle, area = _t_areas(min(freedom, MOST_FREEDOM))
    return math.sqrt(min(freedom, MOST_FREEDOM)) * math.tan(float(np.interp(LEVEL * area[-1], area, angle)))


def t_tails(t: float, freedom: float) -> float:
    """Return the two-sided p value: the probability that Student's t is further from 0 than ``t``."""
    freedom = min(freedom, MOST_FREEDOM)
    angle, area = _t_areas(freedom)
    inside = np.interp(math.atan(abs(t) / math.sqrt(freedom)), angle, area)
    return float(1 - inside / area[-1])


@lru_cache(16)
def _t_areas(freedom: float) -> tuple[Array, Array]:
    """Return angles θ, and the areas from 0 to θ below the density of θ where t = √ν tan θ.

    The density is proportional to cos^(ν−1) θ, so that the integral is finite and smooth.
    """
    # With many degrees of freedom the density beyond twelve standard deviations is negligible.
    angle = np.linspace(0, math.pi / 2 if freedom < 100 else math.atan(12 / math.sqrt(freedom)), POINTS)
    density = np.cos(angle) ** (freedom - 1)
    return angle, np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))


Part = tuple[float, float]
"""A part of the variance of a mean, and the degrees of freedom of its estimate."""


def t_interval(values: ArrayLike) -> Interval:
    """Return the mean of values [n] with its 95 % interval over seeds.

    One value, or equal values, give an interval of width 0, which is not valid for other seeds.
    """
    sample = sample_of(values)
    return _interval(float(sample.mean()), [_over_rows(sample)])


def difference(a: ArrayLike, b: ArrayLike) -> Interval:
    """Return mean(a) − mean(b) of the values [n] of different seeds, with its interval (Welch 1947)."""
    first, second = sample_of(a), sample_of(b)
    return _interval(float(first.mean() - second.mean()), [_over_rows(first), _over_rows(second)])


def _interval(mean: float, parts: Sequence[Part]) -> Interval:
    """Return an interval whose variance is the sum of the parts."""
    variance = sum(part for part, _ in parts)
    if variance <= 0:
        return Interval(mean, mean, mean)
    half = t_quantile(round(freedom_of(parts), 3)) * math.sqrt(variance)
    return Interval(mean, mean - half, mean + half)


def freedom_of(parts: Sequence[Part]) -> float:
    """Return the degrees of freedom of the sum of the parts, at least 1, after Satterthwaite."""
    variance = sum(part for part, _ in parts)
    # The parts are divided first: the square of a tiny variance is 0.
    freedom = 1 / sum((part / variance) ** 2 / part_freedom for part, part_freedom in parts)
    return max(freedom, 1.0)


def _over_rows(values: Array) -> Part:
    """Return the variance of the mean of independent values [n]."""
    n = len(values)
    return (float(values.var(ddof=1)) / n, n - 1) if n > 1 else (0.0, 1.0)
