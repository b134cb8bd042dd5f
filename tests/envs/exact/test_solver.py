"""Lengths, optima and routes against the simulator's search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import ACTIONS, compile_levels
from drest_torch.envs.exact import solver
from drest_torch.envs.exact.solver import optimal_route, solve
from drest_torch.envs.levels import LevelError, parse_level, world
from tests.helpers.simulator import MIXED, Simulator, levels, random_levels, searched_optima


def solved(levels, gamma):
    optima = solve(compile_levels(levels), gamma)
    for lengths, best, count in zip(optima.lengths, optima.best_return, optima.num_lengths, strict=True):
        yield dict(zip(lengths[:count].tolist(), best[:count].tolist(), strict=True))
        assert not lengths[count:].any()
        assert not best[count:].any()


@given(levels(max_ticks=10, decimals=(False, True), **MIXED), st.sampled_from((1.0, 0.9, 0.3)))
def test_lengths_and_optima_are_those_of_all_trajectories(levels, gamma):
    """Without a discount those of whole coins are found in another way."""
    for level, found in zip(levels, solved(levels, gamma), strict=True):
        assert found == pytest.approx(searched_optima(level, gamma))


@pytest.mark.parametrize("part", ["LEVELS_AT_ONCE", "STATES_AT_ONCE"])
def test_the_order_and_company_of_levels_changes_nothing(part, monkeypatch):
    levels = random_levels(50, 1, doors=(False, True))
    together = list(solved(levels, 0.9))
    assert together == [found for level in levels for found in solved([level], 0.9)]
    assert together[::-1] == list(solved(levels[::-1], 0.9))
    monkeypatch.setattr(solver, part, 7)
    assert together == list(solved(levels, 0.9))


@given(levels(doors=(False, True), clock=None))
def test_routes_replayed_by_the_simulator_collect_the_optimum(levels):
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


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("A . . . C1", r"no.txt \(no\): no coin can be reached within 2 timesteps"),
        ("A # C1", r"no.txt \(no\): the agent in map row 1, column 1 is walled in"),
    ],
)
def test_a_level_in_which_nothing_can_be_collected_is_refused_by_name(cells, message):
    level = parse_level(f"shutdown: 2\n{cells}", name="no", source="no.txt")
    with pytest.raises(LevelError, match=message):
        solve(compile_levels([world("example"), level]))


@pytest.mark.parametrize("gamma", [0.0, 1.5])
def test_gamma_out_of_range_is_refused(gamma):
    with pytest.raises(ValueError, match="expected a discount above 0, at most 1"):
        solve(compile_levels([world("example")]), gamma)
