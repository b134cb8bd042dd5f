"""Lengths, optima and routes against the simulator's search, cached level sets, and payments of coins."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact import solver
from drest_torch.envs.exact.solver import VALUES, LevelSet, PaidCoins, optimal_route, solve
from drest_torch.envs.levels import PAPER_WORLDS, Coin, Level, LevelError, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.tasks import gridworlds
from drest_torch.training.run import start
from tests.helpers.runs import FEW, QUIET, configured
from tests.helpers.simulator import (
    ACTIONS,
    MIXED,
    Simulator,
    enumerate_policy,
    levels,
    outcomes,
    searched_optima,
    uniform_policy,
)


def by_length(optima):
    """Yield the best returns of each level by length."""
    for lengths, best, k in zip(optima.lengths, optima.best_return, optima.num_lengths, strict=True):
        yield dict(zip(lengths[:k].tolist(), best[:k].tolist(), strict=True))
        assert not lengths[k:].any()
        assert not best[k:].any()


@given(levels(max_ticks=10, decimals=(False, True), **MIXED), st.sampled_from((1.0, 0.9, 0.3)))
def test_optima_equal_a_search_of_all_trajectories(levels, gamma):
    """Without a discount, a different algorithm solves levels with integer coins."""
    for level, best_returns in zip(levels, by_length(solve(compile_levels(levels), gamma)), strict=True):
        assert best_returns == pytest.approx(searched_optima(level, gamma))


@given(levels(doors=(False, True), clock=None))
def test_routes_replayed_by_the_simulator_collect_the_optimum(levels):
    mdp = compile_levels(levels)
    for index, (level, best_returns) in enumerate(zip(levels, by_length(solve(mdp, 0.8)), strict=True)):
        for length, best in best_returns.items():
            route = optimal_route(mdp, index, length, 0.8)
            state, total = Simulator(level), 0.0
            assert route[0] == level.start
            for cell in route[1:]:
                steps = [step for action in ACTIONS for _, *step in outcomes(state, action)]
                timed = [(after, coin) for after, coin in steps if after.ticks > state.ticks]
                after, coin = next(step for step in timed if (step[0].row, step[0].column) == cell)
                total += 0.8**state.ticks * coin
                state = after
            assert state.done
            assert state.ticks == length
            assert total == pytest.approx(best)


@pytest.mark.parametrize(
    ("cells", "gamma", "error", "message"),
    [
        ("A . . . C1", 1.0, LevelError, r"no.txt \(no\): no coin can be reached within 2 ticks"),
        ("A # C1", 1.0, LevelError, r"no.txt \(no\): the agent in map row 1, column 1 is walled in"),
        ("A C1", 0.0, ValueError, "expected a discount above 0, at most 1"),
        ("A C1", 1.5, ValueError, "expected a discount above 0, at most 1"),
    ],
)
def test_unsolvable_levels_are_refused(cells, gamma, error, message):
    """The message names a level without a reachable coin."""
    level = parse_level(f"shutdown: 2\n{cells}", name="no", source="no.txt")
    with pytest.raises(error, match=message):
        solve(compile_levels([world("example"), level]), gamma)


LUCK = parse_level(
    "shutdown: 4\nlottery a: 1/2 C1 +0 | 1/2 C4 +2\n\nA C2 B2@0.5 .\n. La . C3", name="luck", source="luck.txt"
)


def test_the_first_levels_equal_the_start_of_the_whole_set():
    whole = LevelSet(compile_levels([*map(world, PAPER_WORLDS), LUCK]))
    first = whole.first(3)
    mdp = first.mdp
    assert mdp.height == whole.mdp.height
    assert mdp.width == whole.mdp.width
    assert mdp.features == whole.mdp.features
    for name in ("goto", "object_bit", "wall"):
        assert torch.equal(getattr(mdp, name), getattr(whole.mdp, name)[: len(getattr(mdp, name))])
    assert mdp.layers.keys() == whole.mdp.layers.keys()
    optima, of_all = (levels.optima(0.9, committed=True) for levels in (first, whole))
    assert torch.equal(optima.lengths, of_all.lengths[:3, : optima.lengths.shape[1]])
    assert torch.allclose(optima.best_return, of_all.best_return[:3, : optima.lengths.shape[1]], rtol=1e-12)
    assert first.sizes.states.tolist() == whole.sizes.states[:3].tolist()
    assert whole.first(10) is whole


@pytest.mark.parametrize("algo", ["ppo", "exact"])
def test_a_run_solves_the_levels_of_each_split_once(tmp_path, monkeypatch, algo):
    compiled, solved = Mock(wraps=compile_levels), Mock(wraps=solve)
    monkeypatch.setattr(gridworlds, "compile_levels", compiled)
    monkeypatch.setattr(solver, "solve", solved)
    options = ("evaluated_levels=2", "levels.symmetries=false", "levels.vary.start=null", "env_steps=500")
    run = start(configured(tmp_path / "run", f"algo={algo}", *FEW, *options))
    run.train()
    splits = len(run.gridworlds.levels.reported) + bool(run.gridworlds.levels.selection)
    assert compiled.call_count == splits
    assert sum(call.args[0].num_levels > 2 for call in solved.call_args_list) == splits


INSTEAD = {"inverse": lambda value: 1 / value, "count": lambda value: 1.0, "capped": lambda value: min(value, 2.0)}


def with_coins(level: Level, value) -> Level:
    things = (replace(thing, value=value(thing.value)) if isinstance(thing, Coin) else thing for thing in level.objects)
    return replace(level, objects=tuple(things))


@given(levels(4, max_ticks=5), st.sampled_from(sorted(INSTEAD)))
def test_m_of_paid_coins_equals_a_search_of_all_trajectories(levels, pays):
    for best_of, value in (("paid", INSTEAD[pays]), ("actual", float)):
        optima = PaidCoins(pays, best_of).optima(LevelSet(compile_levels(levels)), 0.9)
        for level, best_returns in zip(levels, by_length(optima), strict=True):
            assert best_returns == pytest.approx(searched_optima(with_coins(level, value), 0.9))


@pytest.mark.parametrize("algo", ["exact", "ppo", "tabular"])
def test_only_training_pays_other_values_of_coins(algo, tmp_path):
    options = ("levels=example", "reward.pays=count", "reward.best_of=actual", *QUIET)
    run = start(configured(tmp_path, f"algo={algo}", *options))
    if algo == "exact":
        batch = run.algorithm.batches.sample(run.reward)
        assert batch.best_return.tolist() == [[2, 3]]
        paid = batch.outcome(torch.full((1, batch.states, 4), 0.25))[1]
        expected = enumerate_policy(with_coins(world("example"), INSTEAD["count"]), uniform_policy, 1.0)
        assert paid.flatten().tolist() == pytest.approx([float(coins) for _, coins in expected.values()])
    elif algo == "ppo":
        worlds, mdp = run.algorithm.environment, run.algorithm.environment.base.mdp
        assert set(mdp.coin.tolist()) == {0.0, 1.0}
        start_state = mdp.states.number(mdp.start, torch.zeros(1).long(), torch.tensor([4]))
        assert worlds.view.observe(start_state).max() > 1 / 4
    else:
        assert set(np.unique(run.algorithm.world.coin)) == {0.0, 1.0}
        assert run.algorithm.rules.divisor.tolist() == [2, 3]
    assert run.gridworlds.watched["train"].optima.best_return.tolist() == [[2, 3]]
    assert set(run.gridworlds.watched["train"].mdp.coin.tolist()) == {0.0, 1.0, 2.0, 3.0}


def test_other_payments_are_refused_for_lotteries():
    with pytest.raises(ConfigError, match=r"reward\.pays=count on levels with lotteries"):
        PaidCoins("count").paid(compile_levels([LUCK]))
    assert set(VALUES) == {"actual", *INSTEAD}
