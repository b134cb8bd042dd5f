"""Complete training, collection, advantages and updates, with the same settings on all sides."""

from __future__ import annotations

from benchmarks.measuring import FASTER, STEPS, Bench, Work
from benchmarks.pipelines import Plan, TorchRL, our_run, updates

TITLE = "Complete training"
SB3 = "SB3, our vector environment"
SEQUENTIAL = "ours, sequential counting"
TORCHRL = "TorchRL's collector, GAE and losses"


def run(bench: Bench) -> None:
    for algo in ("ppo", "a2c"):
        averaged, sequential = (our_run(bench, algo, f"reward.counting={how}") for how in ("averaged", "sequential"))
        cfg, levels = sequential.cfg, sequential.gridworlds.levels.train
        # As a run does, ours plays the mini-episodes of a meta-episode side by side and counts them in their order; in
        # the environments of the others a meta-episode in each makes a batch.
        envs = cfg.algo.episodes // cfg.reward.episodes_per_meta
        plan = Plan(cfg, envs, round(updates(sequential)() / envs / 8) * 8)
        bench.table(
            f"{algo.upper()}, {plan.size.depth} × {plan.size.width} MLPs",
            f"{envs} environments × {plan.steps} steps for an update, {plan.epochs} epochs of minibatches of "
            f"{plan.minibatch:,} steps; ours plays {cfg.algo.episodes:,} mini-episodes side by side instead.",
        )
        works: dict[str, Work] = {
            f"ours, averaged counting in groups of {averaged.cfg.reward.group}": updates(averaged),
            SEQUENTIAL: updates(sequential),
            TORCHRL: TorchRL(levels, plan).update,
        }
        with bench.optional([SB3], STEPS):
            from benchmarks.sb3 import StableBaselines

            works[SB3] = StableBaselines(levels, plan).update
        times = bench.measure(works)
        bench.compare(times, STEPS, baselines=(TORCHRL, SB3))
        if SB3 in times:
            ratio = times[SB3].over(times[SEQUENTIAL])
            bench.figure(f"{SEQUENTIAL} ÷ {SB3}", FASTER, ratio, wanted=1.2)
