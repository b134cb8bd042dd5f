"""Complete training, collection, advantages and updates, with the same settings on all sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.measuring import FASTER, STEPS, Bench, Work
from benchmarks.pipelines import Ours, Setting, TorchRL, setting_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import Level

TITLE = "Complete training"
SB3 = ("SB3, plain environments", "SB3, our vector environment")
SEQUENTIAL = "ours, sequential counting"
TORCHRL = "TorchRL's collector, GAE and losses"


def sb3(levels: Sequence[Level], setting: Setting) -> dict[str, Any]:
    from benchmarks.plain import PlainLevels, in_order
    from benchmarks.sb3 import StableBaselines, TensorVecEnv, plain_vec_env
    from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv

    reward = in_order(setting.reward)
    vector = GridworldVectorEnv(levels, setting.envs, observation="centred", reward=reward)
    envs = (plain_vec_env(PlainLevels(levels), reward, setting.envs), TensorVecEnv(vector))
    return {name: StableBaselines(env, setting) for name, env in zip(SB3, envs, strict=True)}


def training(trainer: Any) -> Work:
    return lambda: trainer.iterate(0.0)


def run(bench: Bench) -> None:
    levels = generate(GeneratorConfig(), bench.size(2_000, 20), seed=0)
    mdp = compile_levels(levels, bench.device)
    for algo in ("ppo", "a2c"):
        changes = {} if algo == "ppo" else {"minibatches": 1}  # those of Stable-Baselines3 has none
        averaged = setting_of(algo, **changes)
        if bench.quick:
            small = replace(averaged.reward, episodes_per_meta=2)
            averaged = replace(averaged, envs=64, reward=small)
        # As a run does, ours plays the mini-episodes of a meta-episode side by side and counts them in their order; in
        # the environments of the others a meta-episode in each makes a batch.
        envs, counted = (
            averaged.envs // averaged.reward.episodes_per_meta,
            replace(averaged.reward, counting="sequential"),
        )
        sequential = Ours(mdp, replace(averaged, group=averaged.reward.episodes_per_meta, reward=counted))
        setting = replace(averaged, envs=envs, group=1, reward=counted)
        setting = replace(setting, steps=round(sequential.iterate(0.0) / envs / 8) * 8)
        size = setting.size
        bench.table(
            f"{algo.upper()}, {size.depth} × {size.width} MLPs",
            f"{envs} environments × {setting.steps} steps for an update, {setting.epochs} epochs of minibatches of "
            f"{setting.batch:,} steps; ours plays {averaged.envs:,} mini-episodes side by side instead.",
        )
        trainers: dict[str, Any] = {
            f"ours, averaged counting in groups of {averaged.group}": Ours(mdp, averaged),
            SEQUENTIAL: sequential,
            TORCHRL: TorchRL(mdp, setting),
        }
        if bench.on_cpu:
            with bench.optional(SB3, STEPS):
                trainers |= sb3(levels, setting)
        times = bench.measure({name: training(trainer) for name, trainer in trainers.items()})
        bench.compare(times, STEPS, baselines=(TORCHRL, *SB3))
        if SB3[0] in times:
            ratio = times[SB3[0]].over(times[SEQUENTIAL])
            bench.figure(f"{SEQUENTIAL} ÷ {SB3[0]}", FASTER, ratio, wanted=1.2)
