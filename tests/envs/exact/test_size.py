"""The size of levels is told before they are unrolled: never too small, and seldom much too large."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.earliest import estimate_size, parts
from drest_torch.envs.exact.layers import MAX_STATES
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.stream import generate
from drest_torch.envs.levels import LevelError, parse_level, world
from tests.helpers.configs import preset
from tests.helpers.simulator import MIXED, levels


def bounds(levels):
    """The estimated and the true number of states of each level, and the same of its largest number in one tick."""
    mdp = compile_levels(levels)
    reachable, found = Reachable(mdp), estimate_size(mdp)
    states = torch.bincount(mdp.level_of(reachable.states.spot), minlength=mdp.num_levels)
    ticks = [torch.bincount(mdp.level_of(layer.spot), minlength=mdp.num_levels) for layer in reachable.layers]
    width = torch.stack(ticks).amax(0)
    assert (found.states >= states).all()
    assert (found.width >= width).all()
    return found.states, states, found.width, width


MANY = ("coins=[10,10]", "coin_in_every_length=false", "weights=null")
LUCK = ("chance=[0.2,0.9]", "buttons=[1,3]", "lengths=[2,8]")


@pytest.mark.parametrize(
    ("name", "values", "count"),
    [("followup_like", (), 40), ("large", (), 40), ("hard", MANY, 5), ("generated", LUCK, 40)],
)
def test_an_estimate_is_never_below_the_truth_and_close_to_it(name, values, count):
    """With buttons that work by chance it is close to that of all their outcomes."""
    levels = generate(preset(name, *(f"levels.generator.{value}" for value in values)), count, seed=3)
    outcomes = torch.tensor([2 ** sum(button.chance < 1 for button in level.buttons) for level in levels])
    estimated, states, estimated_width, width = bounds(levels)
    assert (estimated <= 1.35 * outcomes * states).all()
    assert estimated.sum() <= 1.05 * (outcomes * states).sum()
    assert (estimated_width <= 1.6 * outcomes * width).all()


@given(levels(lotteries=(0, 1, 2), **MIXED))
def test_an_estimate_is_never_below_the_truth_where_there_is_luck_or_a_door(levels):
    bounds(levels)


def test_a_thing_that_has_to_be_passed_is_taken_on_the_way():
    corridor = parse_level("shutdown: 4\nA C1 C2 C3", name="corridor")
    # Nothing taken: at the start in ticks 0 to 3. C1: 2 cells from tick 1. C1, C2: 3 cells from tick 2, and so on.
    assert estimate_size(compile_levels([corridor])).states.tolist() == [4 + (3 + 2) + (2 + 1) + 1]


@pytest.mark.slow
def test_a_level_of_many_things_is_too_large_without_being_counted_to_the_end():
    rows = [["C1" if (row + column) % 4 == 0 else "." for column in range(9)] for row in range(9)]
    rows[4][5] = "A"
    text = "shutdown: 60\n" + "\n".join(map(" ".join, rows))
    mdp = compile_levels([world("example"), parse_level(text, name="crowded", source="crowded.txt")])
    assert (estimate_size(mdp).states > MAX_STATES).tolist() == [False, True]
    with pytest.raises(LevelError, match=r"crowded\.txt \(crowded\) has more than 200,000,000 reachable states"):
        solve(mdp)


def test_parts_are_whole_consecutive_and_no_larger_than_they_may_be():
    mdp = compile_levels([world("example")] * 7)
    numbers = torch.tensor([5, 5, 1, 30, 2, 2, 2])
    found = parts(mdp, numbers, 10)
    assert [list(each) for each in found] == [[0, 1], [2], [3], [4, 5, 6]]
    assert [len(each) for each in parts(mdp, numbers, 1000, 3)] == [3, 3, 1]
