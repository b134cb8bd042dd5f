"""Raw stepping with uniformly random actions: what the worlds cost without a policy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torchrl.envs import TransformedEnv

from benchmarks.measuring import FASTER, MILLION_STEPS, Bench, Work
from drest_torch import DReSTReward
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.interfaces.slots import start_episodes, step_episodes
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import Level, world
from drest_torch.reward import Reward
from tests.helpers.simulator import Simulator

TITLE = "Raw stepping"
REWARD = Reward(lam=0.9, gamma=1.0, episodes_per_meta=64)


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
    seen = torch.zeros(mdp.num_cells << mdp.num_objects, *make_observation("vector", mdp).shape, device=mdp.device)
    tables = [mdp.goto, mdp.found, mdp.delay, mdp.coin.float(), seen]
    pairs = [(table, torch.randint(len(table), (slots,), device=mdp.device)) for table in tables]
    outs = [table[index] for table, index in pairs]
    moved = sum(index.itemsize + 2 * table[0].nbytes for table, index in pairs)

    def work() -> float:
        for (table, index), out in zip(pairs, outs, strict=True):
            torch.index_select(table, 0, index, out=out)
        return slots

    return work, moved


def tensor_steps(mdp: Mdp, slots: int, observation: str) -> Work:
    """Sample actions, play, observe: a function of tensors."""
    observe = make_observation(observation, mdp)
    mdp = mdp.to(dtype=torch.float32)
    now = start_episodes(mdp, torch.arange(slots, device=mdp.device) % mdp.num_levels)

    def work() -> float:
        nonlocal now
        now, _ = step_episodes(mdp, now, torch.randint(NUM_ACTIONS, (slots,), device=mdp.device))
        observe(now.spot, now.taken, now.time_left)
        return slots

    return work


def torchrl_steps(mdp: Mdp, slots: int, observation: str, *, any_tick: bool = False) -> Work:
    """Through TorchRL with the DReST transform.

    Slots begin at random places of their meta-episodes, so that these end and begin anew all the time. As in a run
    that starts all slots together, mini-episodes of lengths 4 and 8 then end on every fourth step, and so do
    meta-episodes; with ``any_tick`` they do on every step.
    """
    base = GridworldEnv(mdp, slots, episodes_per_meta=REWARD.episodes_per_meta, observation=observation)
    env = TransformedEnv(base, DReSTReward(REWARD.lam, num_lengths=base.optima.lengths.shape[1]))
    td = env.reset()
    state = base.state_dict()
    state["mini_idx"] = torch.randint(REWARD.episodes_per_meta, (slots,))
    if any_tick:
        shutdown = int(mdp.shutdown[0])
        state["ticks"] = torch.randint(shutdown, (slots,))
        state["time_left"] = shutdown - state["ticks"]
    base.load_state_dict(state)

    def work() -> float:
        nonlocal td
        td.set("action", torch.randint(NUM_ACTIONS, (slots,), device=mdp.device))
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


def vec_env_steps(env: Any) -> Work:
    """An environment of Stable-Baselines3, which is reset first."""
    env.reset()
    rng = np.random.default_rng(0)

    def work() -> float:
        env.step(rng.integers(NUM_ACTIONS, size=env.num_envs))
        return env.num_envs

    return work


SUBPROC = "SubprocVecEnv, 8"
GYMNASIUM = ("DummyVecEnv, 8", "DummyVecEnv, 64", SUBPROC, "our vector environment, 512")


def gymnasium_envs(levels: Sequence[Level]) -> dict[str, Any]:
    """What Stable-Baselines3 can play, the plain environment in its vectorisations and our own vector."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    from benchmarks.plain import PlainLevels, check_plain
    from benchmarks.sb3 import TensorVecEnv, plain_vec_env
    from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv

    check_plain(levels)
    plain = PlainLevels(levels)
    ours = GridworldVectorEnv(levels, 512, observation="centred", reward=REWARD)
    envs = (
        plain_vec_env(plain, REWARD, 8, DummyVecEnv),
        plain_vec_env(plain, REWARD, 64, DummyVecEnv),
        plain_vec_env(plain, REWARD, 8, SubprocVecEnv),
        TensorVecEnv(ours),
    )
    return dict(zip(GYMNASIUM, envs, strict=True))


def run(bench: Bench) -> None:
    level = world("example")
    mdp = compile_levels([level], bench.device)
    wanted = {1_024: {"TorchRL + DReST": 3.0}, 65_536: {"tensor function": 20.0, "TorchRL + DReST": 10.0}}
    for slots in (1_024,) if bench.quick else (1_024, 4_096, 16_384, 65_536):
        alone, moved = gathers(mdp, slots)
        bench.table(
            f"`example`, `vector` observation, {slots:,} slots",
            f"E = 64. The limit are the look-ups of a step alone, {moved} bytes a slot.",
        )
        works = {
            "tensor function": tensor_steps(mdp, slots, "vector"),
            "TorchRL + DReST": torchrl_steps(mdp, slots, "vector"),
            "TorchRL + DReST, some slot ends its meta-episode in every step": torchrl_steps(
                mdp, slots, "vector", any_tick=True
            ),
            "gathers alone": alone,
        }
        baselines: dict[str, Callable[[], Work]] = {
            "NumPy, the same gathers": lambda slots=slots: numpy_steps(mdp, slots),
            "plain Python, one environment": lambda: python_steps(level),
        }
        if bench.on_cpu:
            works |= {name: make() for name, make in baselines.items()}
        times = bench.measure(works)
        bench.compare(times, MILLION_STEPS, baselines=list(baselines), limit="gathers alone", wanted=wanted.get(slots))
        if bench.on_cpu:
            ratio = times["NumPy, the same gathers"].over(times["tensor function"])
            bench.figure("tensor function ÷ NumPy", FASTER, ratio, wanted=1.0)
    _many_levels(bench)


def _many_levels(bench: Bench) -> None:
    levels = generate(GeneratorConfig(), bench.size(200, 20), seed=0)
    slots = bench.size(16_384, 256)
    bench.table(
        f"{len(levels)} random levels, `grid` and `centred` observation",
        f"{slots:,} slots, where no other number is given; those of Gymnasium have `centred`.",
    )
    mdp = compile_levels(levels, bench.device)
    works = {}
    for observation in ("grid", "centred"):
        works[f"tensor function, {observation}"] = tensor_steps(mdp, slots, observation)
        works[f"TorchRL + DReST, {observation}"] = torchrl_steps(mdp, slots, observation)
    envs: dict[str, Any] = {}
    if bench.on_cpu:
        with bench.optional(GYMNASIUM, MILLION_STEPS):
            envs = gymnasium_envs(levels)
    if not bench.on_wall and (unseen := envs.pop(SUBPROC, None)):
        unseen.close()
        bench.missing(
            SUBPROC, MILLION_STEPS.name, "not measured: the processor's seconds of its processes are not seen"
        )
    try:
        works |= {name: vec_env_steps(env) for name, env in envs.items()}
        bench.compare(bench.measure(works), MILLION_STEPS, baselines=GYMNASIUM)
    finally:
        for env in envs.values():
            env.close()
