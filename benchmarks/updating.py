"""One update of PPO, beside its matrix products alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, SECONDS, TIMES, Bench, Work, once
from benchmarks.pipelines import our_run, precisions
from drest_torch.algos.networks.precision import FLOAT32

TITLE = "An update of PPO"
TARGET = 1.25
"""The largest ratio to the bare matrix products in float32. In bfloat16 they are a smaller share of an update."""
OURS, BARE, PEAK = "our update", "bare matrix products", "largest matrix product"
Product = tuple[int, int, int]
"""The rows, the inner size and the columns of a matrix product."""


@contextmanager
def recorded(*networks: nn.Module) -> Iterator[list[Product]]:
    """Record the matrix products of networks and of their gradients.

    A layer multiplies its input [n, i] with its weights: [n, i] · [i, o]. The gradient of the weights is a product
    [o, n] · [n, i]. Except in the first layer, the gradient of the input is a product [n, o] · [o, i].
    """
    products: list[Product] = []

    def record(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        rows = len(inputs[0])
        matrices = [parameter for parameter in network.parameters() if parameter.ndim == 2]
        for index, weight in enumerate(matrices):
            outputs, width = weight.shape
            products.append((rows, width, outputs))
            if torch.is_grad_enabled():
                products.append((outputs, rows, width))
                if index > 0:
                    products.append((rows, outputs, width))

    hooks = [network.register_forward_pre_hook(record) for network in networks]
    try:
        yield products
    finally:
        for hook in hooks:
            hook.remove()


def operations(products: list[Product]) -> float:
    """Return the floating-point operations of matrix products."""
    return sum(2.0 * rows * inner * columns for rows, inner, columns in products)


def alone(products: list[Product], precision: str) -> Work:
    """Return work that makes these matrix products one after the other."""
    largest = max(max(rows * inner, inner * columns, rows * columns) for rows, inner, columns in products)
    store = torch.randn(3, largest).to(getattr(torch, precision))

    def matrix(which: int, rows: int, columns: int) -> Tensor:
        return store[which, : rows * columns].reshape(rows, columns)

    triples = [
        (matrix(0, rows, inner), matrix(1, inner, columns), matrix(2, rows, columns))
        for rows, inner, columns in products
    ]

    def work() -> None:
        for left, right, out in triples:
            torch.mm(left, right, out=out)

    return once(work)


def run(bench: Bench) -> None:
    for precision in precisions():
        compare(bench, precision)


def compare(bench: Bench, precision: str) -> None:
    """Add the tables of one precision, for one thread and for all."""
    run = our_run(bench, "ppo", precision=precision)
    algorithm, algo = run.algorithm, run.cfg.algo
    batch = algorithm.collector.collect(run.rng)
    records = algorithm.view.records

    def update() -> None:
        algorithm.view.records = records  # an update takes them away
        algorithm.learn(algorithm.with_advantages(batch))

    with recorded(algorithm.policy, algorithm.critic) as products:
        update()
    flops = operations(products)
    episodes = int(batch.get(("next", "mini_done")).sum())
    before = torch.get_num_threads()
    for threads in sorted({1, before}):
        torch.set_num_threads(threads)
        bench.table(
            f"{episodes:,} mini-episodes, {precision}, threads: {threads}",
            f"{algo.epochs} epochs of {algo.minibatches} minibatches. The bare products are those of all layers of "
            "policy and critic: forward, the gradient of the weights and the gradient of the inputs, "
            f"{flops / 1e9:.4g} billion operations.",
        )
        works = {OURS: once(update), BARE: alone(products, precision)}
        times = bench.measure(works | {PEAK: product(bench.size(2_048, 256), precision)})
        bench.compare({name: times[name] for name in works}, SECONDS, baselines=[BARE])
        target = TARGET if precision == FLOAT32 else None
        bench.figure(f"{OURS} ÷ {BARE}", TIMES, times[OURS].over(times[BARE]), target=target)
        rates = {f"{name}, operations": times[name].times(flops) for name in works}
        rates[f"{PEAK}, operations"] = times[PEAK]
        bench.compare(rates, GIGAFLOPS, limit=f"{PEAK}, operations")
    torch.set_num_threads(before)
