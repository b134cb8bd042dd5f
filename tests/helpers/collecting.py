"""Batches of gridworlds for tests, and their replay in the simulator."""

from typing import NamedTuple

import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.play.gridworld_slots import Gridworlds
from drest_torch.reward import Reward
from tests.helpers.simulator import Simulator

NINE = [world(name) for name in PAPER_WORLDS]
TINY = parse_level("shutdown: 1\nC1 A B2\n. . C3", name="tiny")


class Setup(NamedTuple):
    """Slots of gridworlds with a policy and a reward."""

    worlds: Gridworlds
    policy: Policy
    reward: Reward
    rng: torch.Generator

    def collect(self, policy=None):
        """Return a batch collected with this policy; by default with the policy of the setup."""
        actor = self.worlds.actor(self.policy if policy is None else policy)
        return self.worlds.collector(actor).collect(self.rng)


def make(levels, *, counting="averaged", episodes=6, lam=0.8, gamma=0.9, normalise=True, at_least=(1, 1), **options):
    """Return gridworlds of levels with a random policy; ``options`` are passed to `Gridworlds.on`."""
    mdp = compile_levels(levels, at_least=at_least)
    observe = make_observation("grid", mdp)
    reward = Reward(lam, gamma, episodes, counting, normalise=normalise)
    options = {"slots": 32, "group": 4, "private_bits": 0} | options
    worlds = Gridworlds.on(mdp, solve(mdp, gamma), observe, **options)
    worlds.pay(reward, shows_counts=counting == "sequential")
    torch.manual_seed(1)
    bits = options["private_bits"]
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(16, 1), scale=observe.scale, private_bits=bits)
    for parameter in policy.parameters():
        parameter.data.mul_(3)
    return Setup(worlds, policy, reward, torch.Generator().manual_seed(0))


class Played(NamedTuple):
    """A mini-episode in a batch."""

    level: int
    length: int
    coins: float
    paid: float
    steps: slice


def replayed(batch, setup):
    """Return the mini-episodes of each slot in order, replayed in the simulator from the level of their first step."""
    mdp = setup.worlds.base.mdp
    ended = batch["next", "mini_done"].squeeze(-1)
    paid = batch["next", "reward"].squeeze(-1)
    slots = []
    for slot in range(len(batch)):
        episodes = []
        first = 0
        for last in ended[slot].nonzero().flatten().tolist():
            spot, taken, time_left = mdp.states.decode(batch["state"][slot, first])
            level = int(mdp.level_of(spot))
            assert spot == mdp.start[level]
            assert taken == 0
            assert time_left == mdp.shutdown[level]
            state, coins = Simulator(mdp.levels[level]), 0.0
            for action in batch["action"][slot, first : last + 1].tolist():
                assert not state.done
                coins += setup.reward.gamma**state.ticks * state.step(action)
            assert state.done
            assert not paid[slot, first:last].any()
            episodes.append(Played(level, state.ticks, coins, paid[slot, last].item(), slice(first, last + 1)))
            first = last + 1
        assert not paid[slot, first:].any()
        slots.append(episodes)
    return slots


def best_of(setup, level, length):
    optima = setup.worlds.base.optima
    return optima.best_return[level, optima.lengths[level] == length].item()
