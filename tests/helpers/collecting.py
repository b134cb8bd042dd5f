"""Collectors of tests, and a replay of what they collected."""

from collections import defaultdict

import torch
from drest_torch.rollout.collector import Collector

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.dynamics.simulator import Simulator
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.reward import Reward

NINE = [world(name) for name in PAPER_WORLDS]


TINY = parse_level("shutdown: 1\nC1 A B2\n. . C3", name="tiny")


def make(
    levels, *, slots=32, group=4, counting="averaged", episodes=6, lam=0.8, gamma=0.9, seed=0, private_bits=0, **kwargs
):
    mdp = compile_levels(levels)
    observe = make_observation("grid", mdp)
    reward = Reward(lam, gamma, episodes, counting, **kwargs)
    group = group if counting == "averaged" else 1
    generator = torch.Generator().manual_seed(seed)
    collector = Collector(mdp, solve(mdp, gamma), observe, reward, slots=slots, group=group, rng=generator)
    torch.manual_seed(1)
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(16, 1), scale=observe.scale, private_bits=private_bits)
    for parameter in policy.parameters():
        parameter.data.mul_(3)
    return collector, policy


def replayed(batch, collector):
    """Length and discounted coins of every mini-episode, by the simulator, on the level its first step shows."""
    first = {}
    for episode, seen in zip(batch.episode.tolist(), batch.seen.tolist(), strict=True):
        first.setdefault(episode, batch.observation[seen])
    starts = collector.observe(collector.mdp.start, torch.zeros_like(collector.mdp.start), collector.mdp.shutdown)
    results = []
    for episode, actions in enumerate(episodes_of(batch)):
        index = next(i for i, start in enumerate(starts) if torch.equal(start, first[episode]))
        state, coins = Simulator(collector.mdp.levels[index]), 0.0
        for action in actions:
            assert not state.done
            coins += collector.reward.gamma**state.ticks * state.step(action)
        assert state.done
        results.append((index, state.ticks, coins))
    return results


def best_of(collector, index, length):
    column = collector.optima.lengths[index].tolist().index(length)
    return collector.optima.best_return[index, column].item()


def episodes_of(batch):
    """The actions of every mini-episode, in order."""
    actions = defaultdict(list)
    for episode, action in zip(batch.episode.tolist(), batch.action.tolist(), strict=True):
        actions[episode].append(action)
    return [actions[m] for m in range(batch.episodes)]
