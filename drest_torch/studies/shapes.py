"""Shapes of curves that claims test: falling, rising, close to a prediction, crossing another curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def falls(values: ArrayLike, tolerance: float = 0.0) -> bool:
    """Return whether a curve [n] falls from its first to its last value, with no step up above the tolerance."""
    curve = np.asarray(values, float)
    return bool((np.diff(curve) <= tolerance).all() and curve[-1] < curve[0])


def rises(values: ArrayLike, tolerance: float = 0.0) -> bool:
    """Return whether a curve [n] rises from its first to its last value, with no step down above the tolerance."""
    return falls(-np.asarray(values, float), tolerance)


def within(values: ArrayLike, prediction: ArrayLike, tolerance: float) -> bool:
    """Return whether all values are within the tolerance of their prediction; NaN is not."""
    distance = np.abs(np.asarray(values, float) - np.asarray(prediction, float))
    return bool(distance.size and (distance <= tolerance).all())


def crosses(first: ArrayLike, second: ArrayLike) -> bool:
    """Return whether the first curve [n] begins below the second and ends above it, or the reverse."""
    difference = np.asarray(first, float) - np.asarray(second, float)
    return bool(difference[0] * difference[-1] < 0)
