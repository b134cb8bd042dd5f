"""Moving averages, and the time until a curve reaches a mark."""

import numpy as np

from drest_torch.statistics.times import hitting_times, moving_average

EPISODES = np.arange(6) * 10
# The usefulness of agents, the mark of each, and when it is reached.
REACHED = [
    ((0, 0.5, 1, 1, 1, 1), 0.9, 20),
    ((0, 1, 0, 1, 1, 1), 0.9, 30),
    ((1, 1, 1, 1, 1, 1), 0.9, 0),
    ((0, 1, 1, 1, 1, 0), 0.9, np.inf),
    ((0, 0.8, 0.8, 0.8, 0.8, 0.8), 0.9, np.inf),
    ((0, 0.9, 0.9, 0.9, 0.9, 0.9), 0.9, 10),
    ((0, 0.4, 0.8, 0.8, 0.8, 0.8), 0.4, 10),
    ((0, 0.4, 0.8, 0.8, 0.8, 0.8), 0.5, 20),
    ((0, 0, 0, 0, 0, 0), 0.0, np.inf),  # an agent of no use has not become useful
]


def test_a_moving_average_is_centred_and_shorter_at_the_ends():
    values = np.array([[1.0], [2], [6], [4], [5], [9]])
    np.testing.assert_allclose(moving_average(values, 3)[:, 0], [1, 3, 4, 5, 6, 9])
    np.testing.assert_allclose(moving_average(values, 5)[:, 0], [1, 3, 18 / 5, 26 / 5, 6, 9])
    np.testing.assert_array_equal(moving_average(values, 1), values)


def test_the_time_until_a_mark():
    usefulness, marks, times = (np.array(each).T for each in zip(*REACHED, strict=True))
    assert hitting_times(EPISODES, usefulness, marks, window=1).tolist() == times.tolist()
    assert hitting_times(EPISODES, usefulness[:, :6], 0.9, window=1).tolist() == times[:6].tolist()
