"""A bootstrap interval for the ratio of two median times; for means see `drest_torch.statistics.intervals`.

It is a percentile interval, which is too narrow with few seeds: of the 95 % intervals for the mean of normal numbers,
75 % cover it with 3 seeds, 83 % with 5, 90 % with 10 and 93 % with 20.

A time may be +inf (never); NaN is refused. The same ``seed`` gives the same interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
        """Return the estimate and its interval, moved into the range of the statistic.

        A mean of estimates that are corrected for bias can lie outside.
        """
        return Interval(*(min(max(number, least), most) for number in (self.estimate, self.low, self.high)))

    def __str__(self) -> str:
        return self.text()


def ratio(a: ArrayLike, b: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return median(a) ÷ median(b), with its interval, for independent samples a [n] and b [m] of times.

    Times are not negative. The shutdownability tax is the ratio of DReST's time to that of the default reward.
    The ratio is inf if only a is inf (never), and 0 if only b is. If both are inf, or both are 0, it is NaN and
    can be any number from 0 to inf: such resamples widen the interval to both sides.
    """
    samples = [sample_of(values, infinite=True) for values in (a, b)]
    if any((sample < 0).any() for sample in samples):
        raise ValueError("A ratio is taken of times, and a time is not negative.")
    rng = np.random.default_rng(seed)
    drawn = (sample[rng.integers(len(sample), size=(resamples, len(sample)))] for sample in samples)
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate, resampled = (np.median(x, -1) / np.median(y, -1) for x, y in (samples, drawn))
    # No interpolation: it would turn inf into NaN. Equally many resamples are cut off below and above.
    cut = int((1 - level) / 2 * resamples)
    unknown = np.isnan(resampled)
    low = np.sort(np.where(unknown, 0.0, resampled))[cut]
    high = np.sort(np.where(unknown, math.inf, resampled))[-1 - cut]
    return Interval(float(estimate), float(low), float(high))


def standard_errors_apart(mean_a: float, sd_a: float, n_a: int, mean_b: float, sd_b: float, n_b: int) -> float:
    """Return |difference of the means| ÷ its standard error (Welch), to compare with a paper's mean ± SD.

    The SDs are those of the runs (with n − 1), not of their mean. If both SDs are 0, the result is 0 for equal
    means and inf for others.
    """
    if n_a < 2 or n_b < 2:
        raise ValueError("A standard deviation needs at least two values.")
    distance, error = abs(mean_a - mean_b), math.hypot(sd_a / math.sqrt(n_a), sd_b / math.sqrt(n_b))
    if error == 0:
        return 0.0 if distance == 0 else math.inf
    return distance / error


def sample_of(values: ArrayLike, axes: int = 1, *, infinite: bool = False) -> Array:
    """Check values and return them as [n], or, with two axes, as [seeds, levels]; +inf is known if ``infinite``."""
    sample = np.asarray(values, np.float64)
    if sample.ndim != axes or sample.size == 0:
        raise ValueError(f"Expected {'[n]' if axes == 1 else '[seeds, levels]'} values, got shape {sample.shape}.")
    if not (np.isfinite(sample) | (infinite & np.isposinf(sample))).all():
        raise ValueError(f"A value is NaN or {'-inf' if infinite else 'not finite'}.")
    return sample
