"""Wrong coin values: what is paid, m of it, and what agents are shown of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import VALUES, LevelSet, PaidCoins
from drest_torch.envs.levels import Coin, Level, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.training.run import start
from tests.helpers.runs import QUIET, configured
from tests.helpers.simulator import levels, searched_optima

INSTEAD = {"inverse": lambda value: 1 / value, "count": lambda value: 1.0, "capped": lambda value: min(value, 2.0)}


def with_coins(level: Level, value) -> Level:
    things = (replace(thing, value=value(thing.value)) if isinstance(thing, Coin) else thing for thing in level.objects)
    return replace(level, objects=tuple(things))


@given(levels(4, max_ticks=5), st.sampled_from(sorted(INSTEAD)))
def test_m_of_the_paid_coins_is_that_of_a_search_through_all_trajectories(levels, pays):
    for best_of, value in (("paid", INSTEAD[pays]), ("actual", float)):
        optima = PaidCoins(pays, best_of).optima(LevelSet(compile_levels(levels)), 0.9)
        for lengths, k, found, level in zip(*optima_of(optima), levels, strict=True):
            best = searched_optima(with_coins(level, value), 0.9)
            assert dict(zip(lengths[:k], found[:k], strict=True)) == pytest.approx(best)


def optima_of(optima):
    return optima.lengths.tolist(), optima.num_lengths.tolist(), optima.best_return.tolist()


@pytest.mark.parametrize("algo", ["exact", "ppo", "tabular"])
def test_training_pays_other_coins_and_evaluation_does_not(algo, tmp_path):
    own = ["algo.episodes=64"] if algo == "ppo" else []
    cfg = configured(
        tmp_path, f"algo={algo}", "levels=example", "reward.pays=count", "reward.best_of=actual", *own, *QUIET
    )
    run = start(cfg)
    if algo == "exact":
        batch = run.updater.draw()
        assert batch.best_return.tolist() == [[2, 3]]
        uniform = torch.full((1, batch.states, 4), 0.25)
        paid = batch.outcome(uniform)[1]
        level = with_coins(world("example"), INSTEAD["count"])
        assert paid.flatten().tolist() == pytest.approx(coins_of_uniform(level))
    elif algo == "ppo":
        worlds = run.updater.environment
        mdp = worlds.base.mdp
        assert set(mdp.coin.tolist()) == {0.0, 1.0}
        start_state = mdp.states.number(mdp.start, torch.zeros(1).long(), torch.tensor([4]))
        assert worlds.view.observe(start_state).max() > 1 / 4
    else:
        assert set(np.unique(run.learner.world.coin)) == {0.0, 1.0}
        assert run.learner.rules.divisor.tolist() == [2, 3]
    assert run.gridworlds.watched["train"].optima.best_return.tolist() == [[2, 3]]
    assert set(run.gridworlds.watched["train"].mdp.coin.tolist()) == {0.0, 1.0, 2.0, 3.0}


def coins_of_uniform(level: Level) -> list[float]:
    reachable = Reachable(compile_levels([level]))
    arrivals = reachable.arrivals(torch.full((len(reachable), 4), 0.25, dtype=torch.float64), 1.0)
    return arrivals.coins.flatten().tolist()


def test_wrong_coins_are_refused_where_there_are_none_to_replace():
    level = parse_level("lottery a: 1/2 C4 +0 | 1/2 C0 +0\nshutdown: 3\nA La C1\n. B2 .", name="luck")
    with pytest.raises(ConfigError, match=r"reward\.pays=count on levels with lotteries"):
        PaidCoins("count").paid(compile_levels([level]))
    assert set(VALUES) == {"actual", *INSTEAD}
