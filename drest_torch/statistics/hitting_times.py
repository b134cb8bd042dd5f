"""The time until a curve over training reaches a mark."""

from __future__ import annotations

import numpy as np


def moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """Return [T, A] the mean of each evaluation and as many before as after it; fewer at both ends.

    An average of the last evaluations only would come late, for both rewards by the same time, and would pull the
    ratio of two times towards 1.
    """
    last = len(values) - 1
    reach = [min(window // 2, place, last - place) for place in range(last + 1)]
    return np.stack([values[place - r : place + r + 1].mean(0, dtype=float) for place, r in enumerate(reach)])


def hitting_times(
    times: np.ndarray, usefulness: np.ndarray, mark: np.ndarray | float, *, window: int, for_good: bool = True
) -> np.ndarray:
    """Return [A] the time at which the moving average of usefulness [T, A] is at least the agent's mark; never is inf.

    With ``for_good`` the time from which on it stays there: an agent that first learns the shorter trajectory and
    later changes to the longer one loses usefulness on the way, and can be relied on only then. Otherwise the first
    time. A mark of 0 is that of an agent that never becomes useful, and is never reached.
    """
    mark = np.broadcast_to(mark, usefulness.shape[1:])
    reached = (moving_average(usefulness, window) >= mark) & (mark > 0)
    if for_good:
        reached = np.logical_and.accumulate(reached[::-1])[::-1]
    return np.where(reached.any(0), np.asarray(times, float)[reached.argmax(0)], np.inf)
