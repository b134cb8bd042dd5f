"""The limits of the machine: the peak speed of its matrix products."""

from __future__ import annotations

import torch

from benchmarks.measuring import GIGAFLOPS, Bench, Work
from benchmarks.pipelines import precisions
from drest_torch.algos.networks.precision import FLOAT32

TITLE = "Limits of the machine"


def product(size: int, precision: str = FLOAT32) -> Work:
    """Return a square matrix product, which is counted in floating-point operations."""
    dtype = getattr(torch, precision)
    left, right = torch.randn(2, size, size).to(dtype)
    out = torch.empty(size, size, dtype=dtype)

    def work() -> float:
        torch.mm(left, right, out=out)
        return 2.0 * size**3

    return work


def run(bench: Bench) -> None:
    sizes = (256,) if bench.quick else (512, 1024, 2048)
    for precision in precisions():
        bench.table(f"Matrix products in {precision}", "The largest speed is the limit of networks in this precision.")
        bench.compare(bench.measure({f"{size} × {size}": product(size, precision) for size in sizes}), GIGAFLOPS)
