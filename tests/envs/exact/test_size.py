"""The size of levels is told before they are unrolled: never too small, and seldom much too large."""

from __future__ import annotations

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.earliest import estimate_size, parts
from drest_torch.envs.exact.layers import MAX_STATES
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import _parts, solve
from drest_torch.envs.generation.stream import generate
from drest_torch.envs.levels import PAPER_WORLDS, LevelError, parse_level, world
from tests.helpers.configs import preset
from tests.helpers.simulator import random_levels

PAPER = [world(name) for name in PAPER_WORLDS]


def counted(mdp):
    """By unrolling: the states of each level, and its largest number in one tick."""
    reachable = Reachable(mdp)
    states = torch.bincount(mdp.level_of(reachable.states.spot), minlength=mdp.num_levels)
    ticks = [torch.bincount(mdp.level_of(layer.spot), minlength=mdp.num_levels) for layer in reachable.layers]
    return states, torch.stack(ticks).amax(0)


def made(name, *values, count):
    return generate(preset(name, *(f"levels.generator.{value}" for value in values)), count, seed=3)


@pytest.mark.parametrize(
    ("name", "coins"),
    [(name, None) for name in ("easy", "followup_like", "hard", "three_lengths", "large")]
    + [("followup_like", 6), ("three_lengths", 1), ("hard", 10), ("large", 1), ("large", 10)],
)
def test_an_estimate_is_never_below_the_truth_and_close_to_it(name, coins):
    others = () if coins is None else (f"coins=[{coins},{coins}]", "coin_in_every_length=false", "weights=null")
    mdp = compile_levels(made(name, *others, count=5 if coins == 10 else 40))
    (states, width), found = counted(mdp), estimate_size(mdp)
    assert (found.states >= states).all()
    assert (found.width >= width).all()
    assert (found.states <= 1.35 * states).all()
    assert found.states.sum() <= 1.05 * states.sum()
    assert (found.width <= 1.6 * width).all()


@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_an_estimate_is_never_below_the_truth_where_there_are_doors(clock):
    mdp = compile_levels(random_levels(200, 0, max_ticks=12, doors=True, clock=clock))
    (states, width), found = counted(mdp), estimate_size(mdp)
    assert (found.states >= states).all()
    assert (found.width >= width).all()
    assert found.states.sum() <= 1.5 * states.sum()


def test_buttons_that_work_by_chance_make_it_no_larger_than_all_their_outcomes():
    mdp = compile_levels(made("generated", "chance=[0.2,0.9]", "buttons=[1,3]", "lengths=[2,8]", count=40))
    (states, width), found = counted(mdp), estimate_size(mdp)
    outcomes = torch.tensor([2 ** len(level.buttons) for level in mdp.levels])
    assert (found.states >= states).all()
    assert (found.width >= width).all()
    assert (found.states <= 1.35 * outcomes * states).all()


def test_a_thing_that_has_to_be_passed_is_taken_on_the_way():
    corridor = parse_level("shutdown: 4\nA C1 C2 C3", name="corridor")
    # Nothing taken: at the start in ticks 0 to 3. C1: 2 cells from tick 1. C1, C2: 3 cells from tick 2, and so on.
    assert estimate_size(compile_levels([corridor])).states.tolist() == [4 + (3 + 2) + (2 + 1) + 1]


@pytest.mark.slow
def test_a_level_of_many_things_is_too_large_without_being_counted_to_the_end():
    mdp = compile_levels([PAPER[0], crowded()])
    found = estimate_size(mdp).states
    assert found.tolist() == [int(estimate_size(compile_levels(PAPER[:1])).states), MAX_STATES + 1]
    with pytest.raises(LevelError, match=r"crowded\.txt \(crowded\) has more than 200,000,000 reachable states"):
        solve(mdp)


def crowded():
    rows = [["C1" if (row + column) % 4 == 0 else "." for column in range(9)] for row in range(9)]
    rows[4][5] = "A"
    text = "\n".join(" ".join(row) for row in rows)
    return parse_level(f"shutdown: 60\n{text}", name="crowded", source="crowded.txt")


def test_parts_are_whole_consecutive_and_no_larger_than_they_may_be():
    mdp = compile_levels([PAPER[0]] * 7)
    numbers = torch.tensor([5, 5, 1, 30, 2, 2, 2])
    found = parts(mdp, numbers, 10)
    assert [list(each) for each in found] == [[0, 1], [2], [3], [4, 5, 6]]
    assert [len(each) for each in parts(mdp, numbers, 1000, 3)] == [3, 3, 1]


def test_the_solver_finds_the_same_in_parts(monkeypatch):
    levels = [*PAPER, *made("large", count=20)]
    whole = solve(compile_levels(levels), 0.9)
    monkeypatch.setattr("drest_torch.envs.exact.solver.STATES_AT_ONCE", 500)
    assert len(_parts(compile_levels(levels))) > 5
    some = solve(compile_levels(levels), 0.9)
    assert torch.equal(whole.lengths, some.lengths)
    assert torch.equal(whole.best_return, some.best_return)
