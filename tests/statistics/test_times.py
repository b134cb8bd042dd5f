"""Moving averages, and the time until a curve reaches a mark."""

import numpy as np
import pytest

from drest_torch.statistics.times import hitting_times, moving_average

EPISODES = np.arange(6) * 10


def column(*values):
    return np.array(values, float)[:, None]


def test_a_moving_average_is_centred_and_shorter_at_the_ends():
    values = column(1, 2, 6, 4, 5, 9)
    np.testing.assert_allclose(moving_average(values, 3)[:, 0], [1, 3, 4, 5, 6, 9])
    np.testing.assert_allclose(moving_average(values, 5)[:, 0], [1, 3, 18 / 5, 26 / 5, 6, 9])
    np.testing.assert_array_equal(moving_average(values, 1), values)


@pytest.mark.parametrize(
    ("values", "time"),
    [
        ((0, 0.5, 1, 1, 1, 1), 20),
        ((0, 1, 0, 1, 1, 1), 30),
        ((1, 1, 1, 1, 1, 1), 0),
        ((0, 1, 1, 1, 1, 0), np.inf),
        ((0, 0.8, 0.8, 0.8, 0.8, 0.8), np.inf),
        ((0, 0.9, 0.9, 0.9, 0.9, 0.9), 10),
    ],
)
def test_the_time_until_a_mark(values, time):
    assert hitting_times(EPISODES, column(*values), 0.9, window=1) == [time]


def test_every_agent_has_its_own_mark():
    usefulness = np.array([[0, 0, 0], [0.4, 0.4, 0], [0.8, 0.8, 0]])
    times = hitting_times(EPISODES[:3], usefulness, np.array([0.4, 0.5, 0.0]), window=1)
    assert times.tolist() == [10, 20, np.inf]  # an agent of no use has not become useful
