"""Complete training, collection, advantages and updates, with the same settings on all sides."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.measuring import FASTER, STEPS, Bench
from benchmarks.pipelines import Ours, TorchRL, setting_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.generation.stream import GeneratorConfig, generate

TITLE = "Complete training"
SB3 = "SB3, our vector environment"
SEQUENTIAL = "ours, sequential counting"
TORCHRL = "TorchRL's collector, GAE and losses"


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
        envs = averaged.envs // averaged.reward.episodes_per_meta
        counted = replace(averaged.reward, counting="sequential")
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
            with bench.optional([SB3], STEPS):
                from benchmarks.sb3 import StableBaselines

                trainers[SB3] = StableBaselines(levels, setting)
        times = bench.measure({name: partial(trainer.iterate, 0.0) for name, trainer in trainers.items()})
        bench.compare(times, STEPS, baselines=(TORCHRL, SB3))
        if SB3 in times:
            ratio = times[SB3].over(times[SEQUENTIAL])
            bench.figure(f"{SEQUENTIAL} ÷ {SB3}", FASTER, ratio, wanted=1.2)
