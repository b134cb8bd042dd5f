"""Attainable values, against a search in plain Python."""

import random

import pytest
import torch

from drest_torch.algos.objectives.attainable_utility import GOALS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.attainable import changes
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import parse_level
from drest_torch.errors import ConfigError
from tests.helpers.plans import GAIN, LOSS, change
from tests.helpers.simulator import ACTIONS, Simulator, random_level

SEEDS = 4
LEVELS = [
    GAIN,
    LOSS,
    parse_level("shutdown: 2\nC2 B1 A\n# C1 B2", name="two buttons"),
    *(random_level(random.Random(seed), max_side=3, max_buttons=2, max_ticks=5, doors=True) for seed in range(SEEDS)),
]


def state_of(level, states, index):
    """Return one of the states of a level as a simulator."""
    taken = int(states.taken[index])
    state = Simulator(level)
    state.row, state.column = divmod(int(states.spot[index]), level.width)
    state.present = tuple(not taken >> bit & 1 for bit in range(level.num_objects))
    state.time_left = int(states.time_left[index])
    return state


@pytest.mark.parametrize("goals", GOALS)
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_changes_equal_a_search_in_plain_python(level, goals):
    level = level.with_clock("steps")
    reachable = Reachable(compile_levels([level]))
    table = changes(reachable, goals)
    for index in range(len(reachable)):
        state = state_of(level, reachable.states, index)
        expected = [change(level, state, action, pressed=goals == "pressed") for action in ACTIONS]
        assert table[index].tolist() == pytest.approx(expected)


def test_levels_of_a_set_have_the_values_of_a_level_alone():
    together = Reachable(compile_levels(LEVELS[:3]))
    level = together.mdp.level_of(together.states.spot)
    table = changes(together, "pressed")
    for index in range(3):
        alone = Reachable(compile_levels([LEVELS[index]]))
        expected = changes(alone, "pressed")
        assert table[level == index].sum(0).tolist() == pytest.approx(expected.sum(0).tolist())


def test_levels_with_luck_have_no_attainable_values():
    reachable = Reachable(compile_levels([parse_level("shutdown: 2\nC1 A B2@0.5")]))
    with pytest.raises(ConfigError, match="attainable_utility on levels with luck"):
        changes(reachable, "pressed")


def test_steps_are_the_visits_times_the_actions():
    reachable = Reachable(compile_levels(LEVELS[:2]))
    table = torch.rand(len(reachable), 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    table = table / table.sum(-1, keepdim=True)
    expected = reachable.visits(table).unsqueeze(-1) * table
    assert torch.allclose(reachable.steps(table), expected)
