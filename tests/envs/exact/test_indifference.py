"""Utility indifference: levels that end at their longest length, and the optimal agent in the actual level."""

import random

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation, on_actual_clock
from drest_torch.envs.exact.indifference import indifferent_policy
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import LevelSet, PaidCoins, solve, with_longest_end
from drest_torch.envs.levels import parse_level
from drest_torch.errors import ConfigError
from tests.helpers.plans import GAIN, LOSS, plans
from tests.helpers.simulator import Simulator, random_level

RANDOM = [random_level(random.Random(seed), max_side=3, max_buttons=2, max_ticks=5) for seed in range(3)]
LEVELS = [GAIN, LOSS, parse_level("shutdown: 2\nB2 A . C2", name="tie"), *RANDOM]


def in_the_actual_level(level, actions):
    """Return the length and the coins of a plan that shutdown cuts short."""
    state, coins = Simulator(level), 0.0
    for action in actions:
        if not state.done:
            coins += state.step(action)
    return state.ticks, coins


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_indifferent_agent_plays_the_best_plans(level):
    reachable = Reachable(compile_levels([level]))
    longest = int(reachable.lengths.max())
    by_coins = {}
    for actions, coins in plans(level, longest):
        by_coins.setdefault(round(coins, 9), []).append(actions)
    best = by_coins[max(by_coins)]
    ended = solve(with_longest_end(reachable.mdp))
    assert ended.lengths.tolist() == [[longest]]
    assert ended.best_return.item() == pytest.approx(max(by_coins))
    lengths = reachable.propagate(indifferent_policy(reachable))
    played = [in_the_actual_level(level, actions) for actions in best]
    for column, length in enumerate(reachable.lengths[0].tolist()):
        coins = [coins for ticks, coins in played if ticks == length]
        assert lengths.probability[0, column].item() == pytest.approx(len(coins) / len(best), abs=1e-9)
        if coins:
            assert lengths.coins[0, column].item() == pytest.approx(sum(coins) / len(coins))


@pytest.mark.parametrize("name", ["grid", "centred", "centred_elapsed"])
def test_training_shows_the_clock_of_the_map(name):
    """A state of training looks like the state of the actual level at the same tick, with the same map."""
    levels = LEVELS[:2]
    actual = compile_levels(levels)
    played = with_longest_end(actual)
    observe = make_observation(name, actual)
    in_training = on_actual_clock(observe, actual, played)
    reachable = Reachable(actual)
    states = reachable.states
    tick = torch.cat([torch.full_like(layer.spot, layer.tick) for layer in reachable.layers])
    left = played.shutdown[actual.level_of(states.spot)] - tick
    expected = observe(states.spot, states.taken, states.time_left)
    assert in_training(states.spot, states.taken, left).equal(expected)
    assert in_training.shape == observe.shape


def test_the_clock_runs_on_after_the_actual_shutdown():
    actual = compile_levels([LOSS])
    played = with_longest_end(actual)
    observe = on_actual_clock(make_observation("grid", actual), actual, played)
    spot, taken = actual.start, torch.zeros(1, dtype=torch.long)
    times = [observe(spot, taken, torch.tensor([left]))[0, observe.planes.index("time"), 0, 0] for left in (6, 3, 1)]
    assert torch.stack(times).tolist() == [3, 0, -2]


def test_best_returns_are_of_the_level_of_training():
    levels = LevelSet(compile_levels([GAIN, LOSS]))
    coins = PaidCoins(ends="longest")
    assert coins.optima(levels).best_return.tolist() == [[3], [3]]
    assert PaidCoins("count", "paid", "longest").optima(levels).best_return.tolist() == [[1], [2]]
    assert PaidCoins("count", "actual", "longest").optima(levels).best_return.tolist() == [[3], [3]]
    assert coins.paid(levels.mdp).layers is levels.mdp.layers
    assert PaidCoins().paid(levels.mdp) is levels.mdp


def test_levels_with_luck_have_no_longest_end():
    with pytest.raises(ConfigError, match=r"reward\.ends=longest on levels with luck"):
        PaidCoins(ends="longest").paid(compile_levels([parse_level("shutdown: 2\nC1 A B2@0.5")]))
