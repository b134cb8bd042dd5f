"""Shapes of curves that claims test: falling, rising, close to a prediction."""

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
