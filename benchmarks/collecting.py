"""Collection with a policy, beside the network's own forward passes on the same number of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, STEPS, TIMES, Bench
from benchmarks.pipelines import our_run
from drest_torch.envs.interfaces.torchrl_env import STATE
from drest_torch.transforms.mini_episodes import played

TITLE = "Collection with a policy"
WANTED = 2.0
"""Times the forward passes."""
OURS, PASSES, PEAK = "our collector", "forward passes", "largest matrix product"


@torch.no_grad()
def passes(policy: Callable[[Tensor], Tensor], inputs: Sequence[Tensor]) -> int:
    """Run a network on inputs; return how many they are."""
    return sum(len(policy(each)) for each in inputs)


def operations(network: nn.Module) -> float:
    """Floating-point operations of its matrix products for one input."""
    return 2.0 * sum(each.numel() for each in network.parameters() if each.ndim == 2)


def run(bench: Bench) -> None:
    for words in ((), ("reward.counting=sequential", "reward.episodes_per_meta=2")):
        ours = our_run(bench, "ppo", *words)
        algorithm, size = ours.algorithm, ours.cfg.policy
        policy = algorithm.policy
        batch = algorithm.collector.collect(ours.rng)
        # What the network would be given if each step had its own input, tick by tick.
        ticks = zip(batch.get(STATE).T, played(batch).T, strict=True)
        inputs = [algorithm.view.observe(state[now]) for state, now in ticks if now.any()]
        bench.table(
            f"{ours.cfg.algo.episodes:,} slots, {ours.reward.counting} counting, {size.depth} × {size.width} MLP",
            f"{sum(map(len, inputs)):,} steps a batch. The forward passes are the network's, tick by tick, on an input "
            "for each step; our collector gives it each distinct input once in every tick.",
        )
        works = {
            OURS: lambda ours=ours: int(played(ours.algorithm.collector.collect(ours.rng)).sum()),
            PASSES: lambda policy=policy, inputs=inputs: passes(policy, inputs),
            PEAK: product(bench.size(2_048, 256)),
        }
        times = bench.measure(works)
        bench.compare({name: times[name] for name in (OURS, PASSES)}, STEPS, baselines=[PASSES])
        bench.figure(f"{OURS} ÷ {PASSES}", TIMES, times[OURS].over(times[PASSES]), wanted=WANTED)
        found = {PASSES: times[PASSES].times(operations(policy)), PEAK: times[PEAK]}
        named = {f"{name}, operations": each for name, each in found.items()}
        bench.compare(named, GIGAFLOPS, limit=f"{PEAK}, operations")
