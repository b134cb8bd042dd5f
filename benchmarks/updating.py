"""One update of PPO, beside the same arithmetic as bare matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from benchmarks.machine import product
from benchmarks.measuring import GIGAFLOPS, SECONDS, TIMES, Bench, Work, once
from benchmarks.pipelines import our_run

TITLE = "An update of PPO"
WANTED = 1.5
OURS, BARE, PEAK = "our update", "bare matrix products", "largest matrix product"


@contextmanager
def recorded(*networks: nn.Module) -> Iterator[list[tuple[int, int, int]]]:
    """Rows, inner size and columns of every matrix product of the networks within it, and of their gradients.

    A layer of a [n, i] input has the product with its weights [n, i] · [i, o]; with gradients, its weights' gradient
    [o, n] · [n, i] and, but for the first layer, its input's [n, o] · [o, i].
    """
    found: list[tuple[int, int, int]] = []

    def heard(network: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        rows = len(given[0])
        for index, weight in enumerate(each for each in network.parameters() if each.ndim == 2):
            outputs, inputs = weight.shape
            found.append((rows, inputs, outputs))
            if torch.is_grad_enabled():
                found.append((outputs, rows, inputs))
                found.extend([(rows, outputs, inputs)] if index else [])

    hooks = [each.register_forward_pre_hook(heard) for each in networks]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def products(sizes: list[tuple[int, int, int]]) -> Work:
    """These matrix products one after the other."""
    store = torch.randn(3, max(max(rows * inner, inner * columns, rows * columns) for rows, inner, columns in sizes))

    def matrix(which: int, rows: int, columns: int) -> torch.Tensor:
        return store[which, : rows * columns].reshape(rows, columns)

    triples = [(matrix(0, r, i), matrix(1, i, c), matrix(2, r, c)) for r, i, c in sizes]

    def work() -> None:
        for left, right, out in triples:
            torch.mm(left, right, out=out)

    return once(work)


def run(bench: Bench) -> None:
    ours = our_run(bench, "ppo")
    algorithm, algo = ours.algorithm, ours.cfg.algo
    batch = algorithm.collector.collect(ours.rng)
    records = algorithm.view.records

    def update() -> None:
        algorithm.view.records = records  # which an update takes
        algorithm.learn(algorithm.with_advantages(batch))

    with recorded(algorithm.policy, algorithm.critic) as sizes:
        update()
    flops = sum(2.0 * rows * inner * columns for rows, inner, columns in sizes)
    before = torch.get_num_threads()
    # With the elementwise work in the caches of one core, more threads speed up the products most.
    for threads in sorted({1, before}):
        torch.set_num_threads(threads)
        bench.table(
            f"{int(batch.get(('next', 'mini_done')).sum()):,} mini-episodes, threads: {threads}",
            f"{algo.epochs} epochs of {algo.minibatches} minibatches. The bare products are those of the same layers "
            "of policy and critic: forward, the weights' gradient and the inputs' gradient, "
            f"{flops / 1e9:.4g} billion operations.",
        )
        works = {OURS: once(update), BARE: products(sizes)}
        times = bench.measure(works | {PEAK: product(bench.size(2_048, 256))})
        bench.compare({name: times[name] for name in works}, SECONDS, baselines=[BARE])
        bench.figure(f"{OURS} ÷ {BARE}", TIMES, times[OURS].over(times[BARE]), wanted=WANTED)
        found = {name: times[name].times(flops) for name in works} | {PEAK: times[PEAK]}
        bench.compare({f"{name}, operations": found[name] for name in found}, GIGAFLOPS, limit=f"{PEAK}, operations")
    torch.set_num_threads(before)
