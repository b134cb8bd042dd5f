"""Smoothed training curves, and the time at which they reach a threshold."""

from __future__ import annotations

import numpy as np


def moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """Return the centred moving average of evaluations [T, ...].

    An average of past values would lag behind: it would delay two curves by the same time, and bias the ratio of their
    times towards 1. Near both ends the window shrinks on both sides.
    """
    means = []
    for place in range(len(values)):
        half = min(window // 2, place, len(values) - 1 - place)
        means.append(values[place - half : place + half + 1].mean(0, dtype=float))
    return np.stack(means)


def hitting_times(episodes: np.ndarray, usefulness: np.ndarray, mark: np.ndarray | float, *, window: int) -> np.ndarray:
    """Return the mini-episodes [A] after which the moving average of usefulness [T, A] stays at or above the agent's
    mark.

    The average has to stay there: an agent that first learns the shorter trajectory and then changes to the longer one
    loses usefulness meanwhile. The time is inf if this never happens. A mark of 0, that of an agent that never becomes
    useful, is never reached.
    """
    mark = np.broadcast_to(mark, usefulness.shape[1:])
    reached = (moving_average(usefulness, window) >= mark) & (mark > 0)
    reached = np.logical_and.accumulate(reached[::-1])[::-1]
    return np.where(reached.any(0), np.asarray(episodes, float)[reached.argmax(0)], np.inf)
