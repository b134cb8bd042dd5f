"""Collection with a policy, beside the network's forward passes on the same number of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, STEPS, TIMES, Bench
from benchmarks.pipelines import our_run
from drest_torch.envs.interfaces.torchrl_env import STATE
from drest_torch.training.run import Run
from drest_torch.transforms.mini_episodes import played

TITLE = "Collection with a policy"
TARGET = 2.0
"""The largest ratio to the forward passes."""
OURS, PASSES, PEAK = "our collector", "forward passes", "largest matrix product"
COUNTINGS = ((), ("reward.counting=sequential", "reward.episodes_per_meta=2"))


@torch.no_grad()
def passes(policy: Callable[[Tensor], Tensor], inputs: Sequence[Tensor]) -> int:
    """Run a network on batches of inputs; return the number of inputs."""
    return sum(len(policy(batch)) for batch in inputs)


def operations(network: nn.Module) -> float:
    """Return the floating-point operations of a network's matrix products for one input."""
    return 2.0 * sum(parameter.numel() for parameter in network.parameters() if parameter.ndim == 2)


def run(bench: Bench) -> None:
    for words in COUNTINGS:
        compare(bench, our_run(bench, "ppo", *words))


def compare(bench: Bench, run: Run) -> None:
    """Add the table of a counting."""
    algorithm, size = run.algorithm, run.cfg.policy
    policy = algorithm.policy
    batch = algorithm.collector.collect(run.rng)
    # The inputs of the network tick by tick, without sharing between slots.
    ticks = zip(batch.get(STATE).T, played(batch).T, strict=True)
    inputs = [algorithm.view.observe(state[now]) for state, now in ticks if now.any()]
    number = sum(len(observations) for observations in inputs)
    bench.table(
        f"{run.cfg.algo.episodes:,} slots, {run.reward.counting} counting, {size.depth} × {size.width} MLP",
        f"{number:,} steps a batch. The forward passes process an input for each step, tick by tick; our collector "
        "runs the network once for each distinct input of a tick.",
    )
    times = bench.measure(
        {
            OURS: lambda: int(played(algorithm.collector.collect(run.rng)).sum()),
            PASSES: lambda: passes(policy, inputs),
            PEAK: product(bench.size(2_048, 256)),
        }
    )
    bench.compare({name: times[name] for name in (OURS, PASSES)}, STEPS, baselines=[PASSES])
    bench.figure(f"{OURS} ÷ {PASSES}", TIMES, times[OURS].over(times[PASSES]), target=TARGET)
    rates = {f"{PASSES}, operations": times[PASSES].times(operations(policy)), f"{PEAK}, operations": times[PEAK]}
    bench.compare(rates, GIGAFLOPS, limit=f"{PEAK}, operations")
