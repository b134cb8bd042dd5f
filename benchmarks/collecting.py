"""Collection with a policy, beside the network's own forward passes on the same number of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.envs import TransformedEnv

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, STEPS, TIMES, Bench, Work
from benchmarks.pipelines import Ours, Setting, actor_of, setting_of
from drest_torch import DReSTReward
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.interfaces.torchrl_env import STATE, GridworldEnv
from drest_torch.envs.levels import Level
from drest_torch.transforms.base import played

TITLE = "Collection with a policy"
WANTED = 2.0
"""Times the forward passes with one input for each step."""
TORCHRL = "TorchRL's Collector, default settings"
STEPS_AT_ONCE = 16
"""Of every environment, for collectors that are told a number of steps and not of mini-episodes."""


@contextmanager
def recorded(network: nn.Module) -> Iterator[list[Tensor]]:
    """The observations that a network is given within it, call by call."""
    inputs: list[Tensor] = []
    hook = network.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    try:
        yield inputs
    finally:
        hook.remove()


@torch.no_grad()
def passes(policy: Callable[[Tensor], Tensor], inputs: Sequence[Tensor]) -> None:
    for each in inputs:
        policy(each)


def forward(policy: Callable[[Tensor], Tensor], inputs: Sequence[Tensor], steps: int) -> Work:
    def work() -> float:
        passes(policy, inputs)
        return steps

    return work


def inputs_by_step(ours: Ours, batch: TensorDictBase) -> list[Tensor]:
    """Return what the network would be given if each step had its own input, tick by tick."""
    assert ours.worlds.view is not None
    observe, steps = ours.worlds.view.observe, played(batch).T
    ticks = zip(batch.get(STATE).T, steps, strict=True)
    return [observe(state[now]) for state, now in ticks if now.any()]


def operations(network: nn.Module) -> float:
    """Floating-point operations of its matrix products for one input."""
    return 2.0 * sum(each.numel() for each in network.parameters() if each.ndim == 2)


def torchrl_collector(mdp: Mdp, setting: Setting, policy: Any) -> Work:
    env = GridworldEnv(mdp, setting.envs, episodes_per_meta=setting.reward.episodes_per_meta, observation="centred")
    paying = DReSTReward(setting.reward.lam, num_lengths=env.optima.lengths.shape[1])
    # Its defaults; only the warning that one of them will change is spared.
    batches = iter(
        Collector(
            TransformedEnv(env, paying),
            actor_of(policy),
            frames_per_batch=setting.envs * STEPS_AT_ONCE,
            total_frames=-1,
            auto_register_policy_transforms=False,
        )
    )
    return lambda: next(batches).numel()


SB3 = ("SB3's collect_rollouts, 64 plain environments", "SB3's collect_rollouts, our vector environment")


def sb3_collectors(levels: Sequence[Level], setting: Setting) -> dict[str, Work]:
    from benchmarks.plain import PlainLevels, in_order
    from benchmarks.sb3 import StableBaselines, TensorVecEnv, plain_vec_env
    from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv

    reward = in_order(setting.reward)
    vector = GridworldVectorEnv(levels, setting.envs, observation="centred", reward=reward)
    plain = plain_vec_env(PlainLevels(levels), reward, 64)
    setting = replace(setting, steps=STEPS_AT_ONCE)
    envs = {SB3[0]: (plain, 64), SB3[1]: (TensorVecEnv(vector), setting.envs)}
    return {
        name: StableBaselines(env, replace(setting, envs=count)).collector(STEPS_AT_ONCE)
        for name, (env, count) in envs.items()
    }


def run(bench: Bench) -> None:
    levels = generate(GeneratorConfig(), bench.size(2_000, 20), seed=0)
    mdp = compile_levels(levels, bench.device)
    slots = bench.size(4_096, 64)
    averaged = replace(setting_of("ppo"), envs=slots)
    _beside_others(bench, levels, mdp, averaged)
    one_by_one = replace(averaged.reward, counting="sequential", episodes_per_meta=2)
    _beside_passes(bench, "sequential counting, E = 2", mdp, replace(averaged, reward=one_by_one, group=1))


def _beside_others(bench: Bench, levels: Sequence[Level], mdp: Mdp, setting: Setting) -> None:
    ours = _beside_passes(bench, f"averaged counting in groups of {setting.group}", mdp, setting)
    bench.table(
        f"Collection of others, {setting.envs:,} slots",
        f"The same network, {STEPS_AT_ONCE} steps of every environment at a time.",
    )
    works = {
        "ours": lambda: int(played(ours.collect()).sum()),
        TORCHRL: torchrl_collector(mdp, setting, ours.learner.policy),
    }
    if bench.on_cpu:
        with bench.optional(SB3, STEPS):
            works |= sb3_collectors(levels, setting)
    bench.compare(bench.measure(works), STEPS, baselines=(TORCHRL, *SB3))


def _beside_passes(bench: Bench, how: str, mdp: Mdp, setting: Setting) -> Ours:
    ours = Ours(mdp, setting)
    policy = ours.learner.policy
    with recorded(policy) as asked:
        batch = ours.collect()
    every = inputs_by_step(ours, batch)
    steps = sum(map(len, every))
    size = setting.size
    bench.table(
        f"{setting.envs:,} slots, {how}, {size.depth} × {size.width} MLP, `centred` observation",
        f"{steps:,} steps a batch, for which our collector asks the network for {sum(map(len, asked)):,} inputs: "
        "each distinct one once in every tick. The forward passes are the network's, "
        "tick by tick, on these inputs, and on one input for each step. The last is what a collector has to do that "
        f"does not find what is equal, and what “at most {WANTED:g} times” is about.",
    )
    names = ("our collector", "forward passes, our collector's inputs", "forward passes, one input for each step")
    peak = "largest matrix product"
    times = bench.measure(
        {
            names[0]: lambda: int(played(ours.collect()).sum()),
            names[1]: forward(policy, asked, steps),
            names[2]: forward(policy, every, steps),
            peak: product(bench.size(2_048, 256), bench.device),
        }
    )
    bench.compare({name: times[name] for name in names}, STEPS, baselines=names[1:])
    collected, on_asked, on_every = (times[name] for name in names)
    bench.figure("collection ÷ forward passes, our collector's inputs", TIMES, collected.over(on_asked))
    ratio = "collection ÷ forward passes, one input for each step"
    bench.figure(ratio, TIMES, collected.over(on_every), wanted=WANTED)
    found = {names[2]: on_every.times(operations(policy)), peak: times[peak]}
    bench.compare({f"{name}: operations": each for name, each in found.items()}, GIGAFLOPS, limit=f"{peak}: operations")
    return ours
