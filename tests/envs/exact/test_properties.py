"""Exact properties against the solver, and against every trajectory there is."""

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact import earliest as module
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level
from tests.helpers.simulator import ACTIONS, Simulator, outcomes, random_levels


def exhaustive(level):
    """For each length the best total and the earliest last coin or working button of a trajectory that has it,
    and the ticks to the first button."""
    best, distance = {}, 0

    def play(state, total, last):
        nonlocal distance
        if state.done:
            found = (total, -last)
            best[state.ticks] = max(found, best.get(state.ticks, found))
            return
        for action in ACTIONS:
            button = state.button_ahead(action)
            for _, after, collected in outcomes(state, action):
                if after.ticks == state.ticks:
                    continue
                if button is not None:
                    distance = min(distance or after.ticks, after.ticks)
                happened = collected > 0 or after.time_left > state.time_left - 1
                play(after, round(total + collected, 9), after.ticks if happened else last)

    play(Simulator(level), 0.0, 0)
    return dict(sorted(best.items())), distance


@pytest.mark.parametrize("doors", [False, True])
@pytest.mark.parametrize("chances", [False, True])
@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_lengths_and_optima_are_the_solvers(clock, chances, doors):
    levels = random_levels(300, 0, clock=clock, chances=chances, doors=doors, max_ticks=12)
    mdp = compile_levels(levels)
    found, optima = properties(mdp), solve(mdp)
    assert torch.equal(found.num_lengths, optima.num_lengths)
    assert torch.equal(found.lengths, optima.lengths)
    torch.testing.assert_close(found.best_return, optima.best_return)
    assert set(found.num_lengths.tolist()) >= {1, 2, 3, 4}


@pytest.mark.parametrize("doors", [False, True])
@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_all_properties_are_those_of_the_trajectories(clock, doors):
    levels = random_levels(60, 1, chances=True, clock=clock, doors=doors, max_ticks=5, max_buttons=2)
    mdp = compile_levels(levels)
    found, distance = properties(mdp), button_distance(mdp)
    for index, level in enumerate(levels):
        best, nearest = exhaustive(level)
        k = len(best)
        assert found.lengths[index, :k].tolist() == list(best)
        assert found.best_return[index, :k].tolist() == pytest.approx([total for total, _ in best.values()])
        slack = [length + last if total > 0 else length for length, (total, last) in best.items()]
        assert found.slack[index, :k].tolist() == slack
        assert distance[index] == nearest
        totals = [total for total, _ in best.values()]
        assert found.with_coin[index] == sum(total > 0 for total in totals)
        if totals[0] > 0:
            assert found.ratio[index] == pytest.approx(totals[-1] / totals[0])


def test_the_ways_of_searching_agree(monkeypatch):
    levels = random_levels(120, 2, chances=True, doors=True, clock=None)
    expected = properties(compile_levels(levels))
    monkeypatch.setattr(module, "MAX_TABLE", 1 << 14)  # a part at a time
    parts = properties(compile_levels(levels))
    monkeypatch.setattr(module, "MAX_TABLE", 1)  # one level at a time, and no table
    singles = properties(compile_levels(levels))
    for found in (parts, singles):
        for name in ("num_lengths", "lengths", "best_return", "slack"):
            assert torch.equal(getattr(found, name), getattr(expected, name))


def test_a_start_that_cannot_be_stayed_at():
    # No wall to bump into and a button on every side: there is no trajectory without a button pressed.
    level = parse_level("shutdown: 2\n. B1 C1\nB1 A B1\n. B1 .")
    found = properties(compile_levels([level]))
    assert found.lengths.tolist() == solve(compile_levels([level])).lengths.tolist() == [[3, 4]]


def test_a_door_that_cannot_be_stayed_at():
    # Where bumps take no time, the door leads on to the button, and there is no other way.
    for clock, lengths in (("steps", [[2, 3]]), ("moves", [[3]])):
        level = parse_level(f"shutdown: 2\nclock: {clock}\nA > B1 C1")
        found = properties(compile_levels([level]))
        assert found.lengths.tolist() == solve(compile_levels([level])).lengths.tolist() == lengths
