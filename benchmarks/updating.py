"""One update of PPO, beside the same arithmetic as bare matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from tensordict import TensorDictBase
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, SECONDS, TIMES, Bench, Work, once
from benchmarks.pipelines import Ours, setting_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.transforms.base import played

TITLE = "An update of PPO"
WANTED = 1.5
KINDS = {
    "matrix products": ("mm", "addmm", "linear"),
    "activations": ("silu", "silu_backward", "relu", "threshold_backward", "tanh", "tanh_backward", "gelu"),
    "gathers and sorting": ("index", "index_put_", "_index_put_impl_", "index_add_", "index_select", "gather", "cat"),
    "optimiser and clipping": ("_foreach", "_fused", "linalg_vector_norm", "lerp", "addcdiv", "addcmul", "sqrt"),
}
"""Operations of torch by what they are for here; those that end in `_` or begin with a name of the last row, too."""


@dataclass(frozen=True)
class Call:
    """A network was given so many inputs, and whether its weights' gradient followed."""

    network: nn.Module
    inputs: int
    learned_from: bool


@contextmanager
def recorded(*networks: nn.Module) -> Iterator[list[Call]]:
    calls: list[Call] = []
    hooks = [
        each.register_forward_pre_hook(
            lambda network, given: calls.append(Call(network, len(given[0]), torch.is_grad_enabled()))
        )
        for each in networks
    ]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def shapes(calls: list[Call]) -> list[tuple[int, int, int]]:
    """Rows, inner size and columns of every matrix product of these calls and of their gradients.

    A layer of a [n, i] input has the product with its weights [n, i] · [i, o]; with gradients, its weights' gradient
    [o, n] · [n, i] and, but for the first layer, its input's [n, o] · [o, i].
    """
    found = []
    for call in calls:
        weights = [each for each in call.network.parameters() if each.ndim == 2]
        for index, weight in enumerate(weights):
            outputs, inputs = weight.shape
            found.append((call.inputs, inputs, outputs))
            if call.learned_from:
                found.append((outputs, call.inputs, inputs))
                if index > 0:
                    found.append((call.inputs, outputs, inputs))
    return found


def products(sizes: list[tuple[int, int, int]], device: torch.device) -> tuple[Work, float]:
    """These matrix products one after the other, and the floating-point operations of them all."""
    largest = max(max(rows * inner, inner * columns, rows * columns) for rows, inner, columns in sizes)
    store = torch.randn(3, largest, device=device)

    def matrix(which: int, rows: int, columns: int) -> torch.Tensor:
        return store[which, : rows * columns].reshape(rows, columns)

    triples = [
        (matrix(0, rows, inner), matrix(1, inner, columns), matrix(2, rows, columns)) for rows, inner, columns in sizes
    ]

    def work() -> None:
        for left, right, out in triples:
            torch.mm(left, right, out=out)

    return once(work), sum(2.0 * rows * inner * columns for rows, inner, columns in sizes)


def time_by_kind(work: Work, device: torch.device) -> dict[str, float]:
    """Shares of the time that torch's operations take, by what they are for."""
    work()
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    with profile(activities=activities) as found:
        work()
    taken = dict.fromkeys([*KINDS, "all else"], 0.0)
    for event in found.key_averages():
        if on_gpu and not event.key.startswith("aten::"):
            continue  # a kernel, whose time its operation has already
        seconds = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        taken[_kind(event.key.removeprefix("aten::"))] += seconds
    total = sum(taken.values())
    return {kind: each / total for kind, each in taken.items()}


def _kind(operation: str) -> str:
    for kind, names in KINDS.items():
        if any(operation in (name, f"{name}_") or (name[0] == "_" and operation.startswith(name)) for name in names):
            return kind
    return "all else"


def _compare(bench: Bench, ours: Ours, batch: TensorDictBase, calls: list[Call], count: int) -> None:
    steps, episodes = int(played(batch).sum()), int(batch.get(("next", "mini_done")).sum())
    bare, flops = products(shapes(calls), bench.device)
    asked, config = sum(call.inputs for call in calls), ours.learner.config
    bench.table(
        f"{steps:,} steps of {episodes:,} mini-episodes, threads: {count}",
        f"{config.epochs} epochs of {config.minibatches} minibatches; policy and critic are given {asked:,} inputs in "
        f"all, the critic's for the advantages included. The bare products are those of the same layers: forward, the "
        f"weights' gradient and the inputs' gradient, {flops / 1e9:.4g} billion operations.",
    )
    peak = "largest matrix product"
    times = bench.measure(
        {
            "our update": once(lambda: ours.update(batch)),
            "bare matrix products": bare,
            peak: product(bench.size(2_048, 256), bench.device),
        }
    )
    update, alone = times["our update"], times["bare matrix products"]
    bench.compare({"our update": update, "bare matrix products": alone}, SECONDS, baselines=["bare matrix products"])
    bench.figure("update ÷ bare matrix products", TIMES, update.over(alone), wanted=WANTED)
    found = {"our update": update.times(flops), "bare matrix products": alone.times(flops), peak: times[peak]}
    bench.compare({f"{name}: operations": each for name, each in found.items()}, GIGAFLOPS, limit=f"{peak}: operations")


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run(bench: Bench) -> None:
    mdp = compile_levels(generate(GeneratorConfig(), bench.size(2_000, 20), seed=0), bench.device)
    setting = setting_of("ppo")
    if bench.quick:
        setting = replace(setting, envs=256)
    ours = Ours(mdp, setting)
    learner = ours.learner
    batch = ours.collect()
    with recorded(learner.policy, learner.critic) as calls:
        ours.update(batch)
    # With the elementwise work in the caches of one core, more threads speed up the products most.
    for count in sorted({1, torch.get_num_threads()}):
        with threads(count):
            _compare(bench, ours, batch, calls, count)
    bench.table("What an update's time is spent on", "One update under torch's profiler, which slows small operations.")
    for kind, share in time_by_kind(once(lambda: ours.update(batch)), bench.device).items():
        bench.numbers(kind, "%", [100 * share])
