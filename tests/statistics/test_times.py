"""Moving averages, and the time until a curve reaches a mark."""

from typing import NamedTuple

import numpy as np
import pytest

from drest_torch.statistics.times import hitting_times, moving_average

EPISODES = np.arange(6) * 10


class Agent(NamedTuple):
    """The usefulness of an agent over training, its mark, and the time at which it reaches the mark."""

    usefulness: tuple[float, ...]
    mark: float
    time: float


AGENTS = {
    "reaches it": Agent((0, 0.5, 1, 1, 1, 1), 0.9, 20),
    "falls in between": Agent((0, 1, 0, 1, 1, 1), 0.9, 30),
    "is useful at once": Agent((1, 1, 1, 1, 1, 1), 0.9, 0),
    "falls at the end": Agent((0, 1, 1, 1, 1, 0), 0.9, np.inf),
    "stays below": Agent((0, 0.8, 0.8, 0.8, 0.8, 0.8), 0.9, np.inf),
    "is equal to it": Agent((0, 0.9, 0.9, 0.9, 0.9, 0.9), 0.9, 10),
    "has a low mark": Agent((0, 0.4, 0.8, 0.8, 0.8, 0.8), 0.4, 10),
    "has a higher mark": Agent((0, 0.4, 0.8, 0.8, 0.8, 0.8), 0.5, 20),
    "never becomes useful": Agent((0, 0, 0, 0, 0, 0), 0.0, np.inf),
}


def test_a_moving_average_is_centred():
    """The window is shorter at both ends."""
    values = np.array([[1.0], [2], [6], [4], [5], [9]])
    np.testing.assert_allclose(moving_average(values, 3)[:, 0], [1, 3, 4, 5, 6, 9])
    np.testing.assert_allclose(moving_average(values, 5)[:, 0], [1, 3, 18 / 5, 26 / 5, 6, 9])
    np.testing.assert_array_equal(moving_average(values, 1), values)


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_time_until_a_mark(agent):
    usefulness = np.array(agent.usefulness)[:, np.newaxis]
    assert hitting_times(EPISODES, usefulness, agent.mark, window=1).tolist() == [agent.time]


def test_agents_have_marks_of_their_own():
    agents = [*AGENTS.values()]
    usefulness = np.array([agent.usefulness for agent in agents]).T
    marks = np.array([agent.mark for agent in agents])
    assert hitting_times(EPISODES, usefulness, marks, window=1).tolist() == [agent.time for agent in agents]
