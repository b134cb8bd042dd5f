"""Collection with a policy, beside the network's own forward passes on the same number of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, STEPS, TIMES, Bench
from benchmarks.pipelines import Ours, Setting, setting_of
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.interfaces.torchrl_env import STATE
from drest_torch.transforms.base import played

TITLE = "Collection with a policy"
WANTED = 2.0
"""Times the forward passes."""
OURS, PASSES, PEAK = "our collector", "forward passes", "largest matrix product"


@torch.no_grad()
def passes(policy: Callable[[Tensor], Tensor], inputs: Sequence[Tensor]) -> int:
    """Run a network on inputs; return how many they are."""
    return sum(len(policy(each)) for each in inputs)


def inputs_by_step(ours: Ours, batch: TensorDictBase) -> list[Tensor]:
    """Return what the network would be given if each step had its own input, tick by tick."""
    assert ours.worlds.view is not None
    observe, steps = ours.worlds.view.observe, played(batch).T
    ticks = zip(batch.get(STATE).T, steps, strict=True)
    return [observe(state[now]) for state, now in ticks if now.any()]


def operations(network: nn.Module) -> float:
    """Floating-point operations of its matrix products for one input."""
    return 2.0 * sum(each.numel() for each in network.parameters() if each.ndim == 2)


def run(bench: Bench) -> None:
    mdp = compile_levels(generate(GeneratorConfig(), bench.size(2_000, 20), seed=0), bench.device)
    averaged = replace(setting_of("ppo"), envs=bench.size(4_096, 64))
    _beside_passes(bench, f"averaged counting in groups of {averaged.group}", mdp, averaged)
    one_by_one = replace(averaged.reward, counting="sequential", episodes_per_meta=2)
    _beside_passes(bench, "sequential counting, E = 2", mdp, replace(averaged, reward=one_by_one, group=1))


def _beside_passes(bench: Bench, how: str, mdp: Mdp, setting: Setting) -> None:
    ours, size = Ours(mdp, setting), setting.size
    policy = ours.learner.policy
    every = inputs_by_step(ours, ours.collect())
    bench.table(
        f"{setting.envs:,} slots, {how}, {size.depth} × {size.width} MLP, `centred` observation",
        f"{sum(map(len, every)):,} steps a batch. The forward passes are the network's, tick by tick, on one input for "
        "each step; our collector gives it each distinct input once in every tick.",
    )
    works = {
        OURS: lambda: int(played(ours.collect()).sum()),
        PASSES: lambda: passes(policy, every),
        PEAK: product(bench.size(2_048, 256), bench.device),
    }
    times = bench.measure(works)
    bench.compare({name: times[name] for name in (OURS, PASSES)}, STEPS, baselines=[PASSES])
    bench.figure(f"{OURS} ÷ {PASSES}", TIMES, times[OURS].over(times[PASSES]), wanted=WANTED)
    found = {PASSES: times[PASSES].times(operations(policy)), PEAK: times[PEAK]}
    bench.compare({f"{name}, operations": each for name, each in found.items()}, GIGAFLOPS, limit=f"{PEAK}, operations")
