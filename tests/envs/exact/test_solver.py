"""Lengths, optima and routes against the simulator's search."""

from dataclasses import astuple

import pytest
import torch

from drest_torch.envs.dynamics.mdp import ACTIONS, compile_levels
from drest_torch.envs.exact import solver
from drest_torch.envs.exact.solver import optimal_route, solve
from drest_torch.envs.levels import LevelError, parse_level, world
from tests.helpers.simulator import Simulator, every, exhaustive_optima, random_levels, searched_optima


def solved(levels, gamma):
    optima = solve(compile_levels(levels), gamma)
    for lengths, best, count in zip(optima.lengths, optima.best_return, optima.num_lengths, strict=True):
        yield dict(zip(lengths[:count].tolist(), best[:count].tolist(), strict=True))
        assert not lengths[count:].any()
        assert not best[count:].any()


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("search", "max_ticks", "gamma"),
    [(exhaustive_optima, 5, 0.9), (searched_optima, 9, 1.0), (searched_optima, 12, 0.7)],
)
def test_a_thousand_random_levels_against_search(search, max_ticks, gamma):
    levels = random_levels(1000, max_ticks, max_ticks=max_ticks, chances=every(4), doors=every(3), clock=None)
    assert {len(level.buttons) for level in levels} == {1, 2, 3}
    for level, found in zip(levels, solved(levels, gamma), strict=True):
        assert found == pytest.approx(search(level, gamma)), level.rows()


def test_the_order_and_company_of_levels_changes_nothing(monkeypatch):
    levels = random_levels(50, 1, max_ticks=8, doors=every(2))
    together = list(solved(levels, 0.9))
    assert together == [found for level in levels for found in solved([level], 0.9)]
    assert together[::-1] == list(solved(levels[::-1], 0.9))
    monkeypatch.setattr(solver, "LEVELS_AT_ONCE", 7)
    assert together == list(solved(levels, 0.9))


@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_without_a_discount_the_fast_search_finds_the_same_bit_for_bit(clock, monkeypatch):
    levels = random_levels(200, 3, max_ticks=12, chances=every(4), doors=every(3), clock=clock, decimals=False)
    for chosen in (levels, [level for index, level in enumerate(levels) if index % 4]):
        fast = solve(compile_levels(chosen))
        with monkeypatch.context() as patch:
            patch.setattr(solver, "few_combinations", lambda mdp: False)
            slow = solve(compile_levels(chosen))
        for one, two in zip(astuple(fast), astuple(slow), strict=True):
            assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))


@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_routes_replayed_by_the_simulator_collect_the_optimum(clock):
    levels = random_levels(100, 2, max_ticks=9, doors=every(2), clock=clock)
    mdp = compile_levels(levels)
    for index, (level, found) in enumerate(zip(levels, solved(levels, 0.8), strict=True)):
        for length, best in found.items():
            route = optimal_route(mdp, index, length, 0.8)
            state, total = Simulator(level), 0.0
            assert route[0] == level.start
            for here in route[1:]:
                action = next(a for a in range(len(ACTIONS)) if state.target(a) == here or _stays(state, a, here))
                total += 0.8**state.ticks * state.step(action)
            assert state.done
            assert state.ticks == length
            assert total == pytest.approx(best)


def _stays(state, action, here):
    return state.is_bump(action) and here == (state.row, state.column) and state.level.clock == "steps"


def test_a_level_without_a_coin_in_reach_is_refused_by_name():
    far = parse_level("shutdown: 2\nA . . . C1", name="far", source="far.txt")
    with pytest.raises(LevelError, match=r"far\.txt \(far\): no coin can be reached within 2 timesteps"):
        solve(compile_levels([world("example"), far]))


def test_an_agent_walled_in_is_refused_by_name():
    walled = parse_level("shutdown: 2\nA # C1", name="walled", source="walled.txt")
    with pytest.raises(LevelError, match=r"walled\.txt \(walled\): the agent in map row 1, column 1 is walled in"):
        compile_levels([world("example"), walled])


@pytest.mark.parametrize("gamma", [0.0, -1.0, 1.5])
def test_gamma_out_of_range_is_refused(gamma):
    with pytest.raises(ValueError, match="expected a discount above 0, at most 1"):
        solve(compile_levels([world("example")]), gamma)
