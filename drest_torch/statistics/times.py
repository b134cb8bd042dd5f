"""Curves over training, smoothed, and the time at which they reach a mark."""

from __future__ import annotations

import numpy as np


def moving_average(values: np.ndarray, window: int, *, symmetric: bool = True) -> np.ndarray:
    """Return for each evaluation [T, ...] the mean of it and of half a window before and after it.

    The window is centred, because an average of past values lags behind: that would delay two curves by the same
    time, and draw the ratio of their times towards 1. Near both ends it shrinks on both sides, or, if not
    ``symmetric``, on the outer side only, which smooths more and leaves a slope less steep.
    """
    half, end = window // 2, len(values) - 1
    before, after = ([min(half, room) for room in rooms] for rooms in (range(end + 1), range(end, -1, -1)))
    if symmetric:
        before = after = [min(sides) for sides in zip(before, after, strict=True)]
    means = [
        values[place - left : place + right + 1].mean(0, dtype=float)
        for place, (left, right) in enumerate(zip(before, after, strict=True))
    ]
    return np.stack(means) if means else np.zeros(values.shape)


def hitting_times(episodes: np.ndarray, usefulness: np.ndarray, mark: np.ndarray | float, *, window: int) -> np.ndarray:
    """Return [A] the mini-episodes until the moving average of usefulness [T, A] is at least the agent's mark.

    The average has to stay there, because an agent that first learns the shorter trajectory and later changes to the
    longer one loses usefulness on the way. The time is inf if that never happens. A mark of 0, that of an agent that
    never becomes useful, is never reached.
    """
    mark = np.broadcast_to(mark, usefulness.shape[1:])
    reached = (moving_average(usefulness, window) >= mark) & (mark > 0)
    reached = np.logical_and.accumulate(reached[::-1])[::-1]
    return np.where(reached.any(0), np.asarray(episodes, float)[reached.argmax(0)], np.inf)
