"""Curves over training, smoothed, and the time at which they reach a mark."""

from __future__ import annotations

import numpy as np


def moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """Return for each evaluation [T, ...] the mean of it and of half a window before and after it.

    The window is centred, because an average of past values lags behind: that would delay two curves by the same
    time, and draw the ratio of their times towards 1. Near both ends it shrinks on both sides.
    """
    means = []
    for place in range(len(values)):
        half = min(window // 2, place, len(values) - 1 - place)
        means.append(values[place - half : place + half + 1].mean(0, dtype=float))
    return np.stack(means)


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
