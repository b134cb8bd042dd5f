"""Complete training: collection, advantages and updates, with the same networks and values on all sides.

Each comparison is made in float32, and again with the networks in bfloat16 on all sides (`torch.autocast`).
Stable-Baselines3 and TorchRL are used without changes on these gridworlds. The JAX peer is PPO as one compiled
function, on a 5 × 5 gridworld of XLand-MiniGrid with observations of the same size; its first call includes the
compilation. It needs a separate Python: `python -m venv jax-venv && jax-venv/bin/pip install jax xminigrid`, then
`python -m benchmarks.run --jax jax-venv/bin/python`.
"""

from __future__ import annotations

from contextlib import ExitStack

import torch

from benchmarks.jax_peer import JaxPPO, settings_of
from benchmarks.measuring import STEPS, Bench, Work
from benchmarks.pipelines import Plan, TorchRL, critics_without_counts, our_run, precisions, updates
from drest_torch.algos.networks.precision import FLOAT32

TITLE = "Complete training"
TARGET = 3.0
"""The smallest speed in float32 relative to other libraries."""
SB3 = "SB3, our vector environment"
AVERAGED, SEQUENTIAL = "ours, averaged counting", "ours, sequential counting"
WITH_COUNTS = "ours, sequential counting, the critic sees counts"
TORCHRL = "TorchRL's collector, GAE and losses"
JAX = "JAX, XLand-MiniGrid"
ROUND_TO = 8
"""The divisor of the steps of an environment, so that minibatches have equal sizes."""


def run(bench: Bench) -> None:
    for precision in precisions():
        for algo in ("ppo", "a2c"):
            compare(bench, algo, precision)


def compare(bench: Bench, algo: str, precision: str) -> None:
    """Add a table of an algorithm in a precision."""
    with_counts = our_run(bench, algo, "reward.counting=sequential", precision=precision)
    with critics_without_counts():
        sequential = our_run(bench, algo, "reward.counting=sequential", precision=precision)
    group = sequential.cfg.reward.episodes_per_meta
    averaged = our_run(bench, algo, "reward.counting=averaged", f"reward.group={group}", precision=precision)
    cfg, levels = sequential.cfg, sequential.gridworlds.levels.train
    envs = cfg.algo.episodes // cfg.reward.episodes_per_meta
    steps = round(updates(sequential)() / envs / ROUND_TO) * ROUND_TO
    plan = Plan(cfg, envs, steps, precision)
    bench.table(
        f"{algo.upper()}, {plan.size.depth} × {plan.size.width} MLPs, {precision}",
        f"An update is on {envs} meta-episodes of {group} mini-episodes, each on a level of its own. The other "
        f"libraries play {envs} environments × {steps} steps; ours plays the mini-episodes of a meta-episode side by "
        f"side. {plan.epochs} × {cfg.algo.minibatches} minibatches of {plan.minibatch:,} steps. With sequential "
        "counting the critic of a run sees how often each length was chosen; this is compared, too.",
    )
    works: dict[str, Work] = {
        AVERAGED: updates(averaged),
        SEQUENTIAL: updates(sequential),
        WITH_COUNTS: updates(with_counts),
        TORCHRL: TorchRL(levels, plan).update,
    }
    with ExitStack() as processes:
        with bench.optional([SB3], STEPS):
            from benchmarks.sb3 import StableBaselines

            works[SB3] = StableBaselines(levels, plan).update
        if algo == "ppo" and bench.jax is None:
            bench.missing(JAX, STEPS, "not measured: --jax names no Python that has JAX")
        elif algo == "ppo":
            inputs = next(sequential.algorithm.policy.parameters()).shape[1]
            settings = settings_of(plan, inputs=inputs, cores=torch.get_num_threads())
            works[JAX] = processes.enter_context(JaxPPO(bench.jax, settings)).update
        times = bench.measure(works)
    bench.compare(times, STEPS, baselines=(TORCHRL, SB3, JAX))
    for ours in (AVERAGED, SEQUENTIAL):
        for library in (TORCHRL, SB3):
            bench.ratio(times, ours, library, target=TARGET if precision == FLOAT32 else None)
        bench.ratio(times, ours, JAX)
    for library in (TORCHRL, SB3):
        bench.ratio(times, WITH_COUNTS, library)
