"""What this machine allows: the floating-point peak of a matrix product."""

from __future__ import annotations

import torch

from benchmarks.measuring import GIGAFLOPS, Bench, Work

TITLE = "What the machine allows"


def product(size: int) -> Work:
    """A square matrix product; its floating-point operations."""
    left, right = torch.randn(2, size, size)
    out = torch.empty(size, size)

    def work() -> float:
        torch.mm(left, right, out=out)
        return 2.0 * size**3

    return work


def run(bench: Bench) -> None:
    bench.table("Matrix products of 32-bit numbers", "The largest of these is the peak that networks are held against.")
    sizes = (256,) if bench.quick else (512, 1024, 2048)
    bench.compare(bench.measure({f"{n} × {n}": product(n) for n in sizes}), GIGAFLOPS)
