"""Stepping gridworlds with uniformly random actions, without a policy."""

from __future__ import annotations

import random

import torch
from torchrl.envs import TransformedEnv

from benchmarks.measuring import MILLION_STEPS, Bench, Work
from drest_torch import DReSTReward
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.interfaces.slots import start_episodes, step_episodes
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import Level, world
from drest_torch.reward import Reward
from tests.helpers.simulator import Simulator

TITLE = "Stepping"
REWARD = Reward(lam=0.9, gamma=1.0, episodes_per_meta=64)
FUNCTION, TORCHRL = "tensor function", "TorchRL + DReST"
GATHERS, PYTHON = "look-ups alone", "plain Python, one environment"
TARGETS = {1_024: 3.0, 4_096: 6.0, 16_384: 12.0, 65_536: 20.0}
"""The smallest speed of a TorchRL environment relative to plain Python, by slots."""


def gathers(mdp: Mdp, slots: int) -> tuple[Work, int]:
    """Return the look-ups of a step in tables of the same size and type, and the bytes that they move a slot."""
    observations = torch.zeros(mdp.num_cells << mdp.num_objects, *make_observation("vector", mdp).shape)
    tables = [mdp.goto, mdp.object_bit, mdp.delay, mdp.coin.float(), observations]
    pairs = [(table, torch.randint(len(table), (slots,))) for table in tables]
    outs = [table[index] for table, index in pairs]
    moved = sum(index.itemsize + 2 * table[0].nbytes for table, index in pairs)

    def work() -> float:
        for (table, index), out in zip(pairs, outs, strict=True):
            torch.index_select(table, 0, index, out=out)
        return slots

    return work, moved


def tensor_steps(mdp: Mdp, slots: int) -> Work:
    """Return steps of the tensor function: sample actions, play, observe."""
    observe = make_observation("vector", mdp)
    mdp = mdp.to(dtype=torch.float32)
    now = start_episodes(mdp, torch.arange(slots) % mdp.num_levels)

    def work() -> float:
        nonlocal now
        now, _ = step_episodes(mdp, now, torch.randint(NUM_ACTIONS, (slots,)))
        observe(now.spot, now.taken, now.time_left)
        return slots

    return work


def torchrl_steps(mdp: Mdp, slots: int) -> Work:
    """Return steps of TorchRL with the DReST transform, from random places in meta-episodes."""
    base = GridworldEnv(mdp, slots, episodes_per_meta=REWARD.episodes_per_meta, observation="vector")
    env = TransformedEnv(base, DReSTReward(REWARD.lam, num_lengths=base.optima.lengths.shape[1]))
    td = env.reset()
    state = base.state_dict()
    state["mini_idx"] = torch.randint(REWARD.episodes_per_meta, (slots,))
    base.load_state_dict(state)

    def work() -> float:
        nonlocal td
        td.set("action", torch.randint(NUM_ACTIONS, (slots,)))
        _, td = env.step_and_maybe_reset(td)
        return slots

    return work


def python_steps(level: Level, count: int = 500) -> Work:
    """Return steps of the rules in plain Python: a single environment with an interface like that of Gym."""
    rng, state = random.Random(0), Simulator(level)

    def work() -> float:
        nonlocal state
        for _ in range(count):
            reward = state.step(rng.randrange(NUM_ACTIONS))
            _ = (state.observation, reward, state.done)
            if state.done:
                state = Simulator(level)
        return count

    return work


def run(bench: Bench) -> None:
    level = world("example")
    mdp = compile_levels([level])
    for slots in (1_024,) if bench.quick else TARGETS:
        look_ups, moved = gathers(mdp, slots)
        bench.table(
            f"`example`, `vector` observation, {slots:,} slots",
            f"E = 64. The limit counts only the table look-ups of a step, {moved} bytes for each slot.",
        )
        times = bench.measure(
            {
                FUNCTION: tensor_steps(mdp, slots),
                TORCHRL: torchrl_steps(mdp, slots),
                GATHERS: look_ups,
                PYTHON: python_steps(level),
            }
        )
        bench.compare(times, MILLION_STEPS, baselines=[PYTHON], limit=GATHERS)
        bench.ratio(times, TORCHRL, PYTHON, target=TARGETS[slots])
