"""Shapes that claims of studies test: a curve falls, rises, stays within a prediction, crosses another."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def falls(values: ArrayLike, tolerance: float = 0.0) -> bool:
    """Return whether a curve [n] falls from its first to its last value, and rises by no more than the tolerance."""
    curve = np.asarray(values, float)
    return bool((np.diff(curve) <= tolerance).all() and curve[-1] < curve[0])


def rises(values: ArrayLike, tolerance: float = 0.0) -> bool:
    """Return whether a curve [n] rises from its first to its last value, and falls by no more than the tolerance."""
    return falls(-np.asarray(values, float), tolerance)


def within(values: ArrayLike, prediction: ArrayLike, tolerance: float) -> bool:
    """Return whether all values are as close to their prediction; a missing value is not."""
    apart = np.abs(np.asarray(values, float) - np.asarray(prediction, float))
    return bool(apart.size and (apart <= tolerance).all())


def crosses(first: ArrayLike, second: ArrayLike) -> bool:
    """Return whether the first curve [n] begins below the second and ends above it, or the other way round."""
    apart = np.asarray(first, float) - np.asarray(second, float)
    return bool(apart[0] * apart[-1] < 0)
