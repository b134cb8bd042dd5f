"""Raw stepping with uniformly random actions: what the worlds cost without a policy."""

from __future__ import annotations

import random

import numpy as np
import torch
from torchrl.envs import TransformedEnv

from benchmarks.measuring import FASTER, MILLION_STEPS, Bench, Work
from drest_torch import DReSTReward
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.interfaces.slots import start_episodes, step_episodes
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import Level, world
from drest_torch.reward import Reward
from tests.helpers.simulator import Simulator

TITLE = "Raw stepping"
REWARD = Reward(lam=0.9, gamma=1.0, episodes_per_meta=64)
NUMPY, PYTHON = "NumPy, the same gathers", "plain Python, one environment"


class NumpySlots:
    """The same gathers in NumPy, for a set of one level without chances, on the clock that counts every step."""

    def __init__(self, mdp: Mdp, slots: int) -> None:
        self.goto, self.found, self.delay = mdp.goto.numpy(), mdp.found.numpy(), mdp.delay.numpy()
        self.coin = mdp.coin.float().numpy()
        self.objects = mdp.num_objects
        self.begins, self.shutdown = np.full(slots, int(mdp.start[0])), np.full(slots, int(mdp.shutdown[0]))
        states = torch.arange(mdp.num_cells << self.objects)
        spot, taken = states >> self.objects, states & ((1 << self.objects) - 1)
        self.seen = make_observation("vector", mdp)(spot, taken, spot).numpy()
        self.spot, self.time_left = self.begins.copy(), self.shutdown.copy()
        self.taken, self.ticks = np.zeros_like(self.spot), np.zeros_like(self.spot)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The observations after it, the coins, and which mini-episodes ended."""
        there = self.goto.take(self.spot * NUM_ACTIONS + action)
        found = self.found.take(there)
        fresh = (found & ~self.taken) != 0
        self.time_left = self.time_left - 1 + self.delay.take(there) * fresh
        ended = self.time_left == 0
        goes_on = ~ended
        self.spot = np.where(ended, self.begins, there)
        self.taken = (self.taken | found) * goes_on
        self.time_left = np.where(ended, self.shutdown, self.time_left)
        self.ticks = (self.ticks + 1) * goes_on
        seen = self.seen.take((self.spot << self.objects) | self.taken, axis=0)
        return seen, self.coin.take(there) * fresh, ended


def numpy_steps(mdp: Mdp, slots: int) -> Work:
    state, rng = NumpySlots(mdp, slots), np.random.default_rng(0)

    def work() -> float:
        state.step(rng.integers(NUM_ACTIONS, size=slots))
        return slots

    return work


def gathers(mdp: Mdp, slots: int) -> tuple[Work, int]:
    """The look-ups of a step alone, from tables of the same size and type; and the bytes that they move for a slot."""
    seen = torch.zeros(mdp.num_cells << mdp.num_objects, *make_observation("vector", mdp).shape)
    tables = [mdp.goto, mdp.found, mdp.delay, mdp.coin.float(), seen]
    pairs = [(table, torch.randint(len(table), (slots,))) for table in tables]
    outs = [table[index] for table, index in pairs]
    moved = sum(index.itemsize + 2 * table[0].nbytes for table, index in pairs)

    def work() -> float:
        for (table, index), out in zip(pairs, outs, strict=True):
            torch.index_select(table, 0, index, out=out)
        return slots

    return work, moved


def tensor_steps(mdp: Mdp, slots: int) -> Work:
    """Sample actions, play, observe: a function of tensors."""
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
    """Through TorchRL with the DReST transform; slots begin at random places of their meta-episodes."""
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
    """The rules in plain Python, one environment with a Gym-like step."""
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
    wanted = {1_024: {"TorchRL + DReST": 3.0}, 65_536: {"tensor function": 20.0, "TorchRL + DReST": 10.0}}
    for slots in (1_024,) if bench.quick else (1_024, 4_096, 16_384, 65_536):
        alone, moved = gathers(mdp, slots)
        bench.table(
            f"`example`, `vector` observation, {slots:,} slots",
            f"E = 64. The limit are the look-ups of a step alone, {moved} bytes a slot.",
        )
        works = {"tensor function": tensor_steps(mdp, slots), "TorchRL + DReST": torchrl_steps(mdp, slots)}
        works |= {"gathers alone": alone, NUMPY: numpy_steps(mdp, slots), PYTHON: python_steps(level)}
        times = bench.measure(works)
        bench.compare(times, MILLION_STEPS, baselines=(NUMPY, PYTHON), limit="gathers alone", wanted=wanted.get(slots))
        bench.figure("tensor function ÷ NumPy", FASTER, times[NUMPY].over(times["tensor function"]), wanted=1.0)
