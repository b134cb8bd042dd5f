"""What this machine allows: the floating-point peak of a matrix product, and the bandwidth of copies and gathers."""

from __future__ import annotations

import torch

from benchmarks.measuring import GIGABYTES, GIGAFLOPS, Bench, Work

TITLE = "What the machine allows"


def product(size: int, device: torch.device) -> Work:
    """A square matrix product; its floating-point operations."""
    left, right = torch.randn(2, size, size, device=device)
    out = torch.empty(size, size, device=device)

    def work() -> float:
        torch.mm(left, right, out=out)
        return 2.0 * size**3

    return work


def run(bench: Bench) -> None:
    bench.table("Matrix products of 32-bit numbers", "The largest of these is the peak that networks are held against.")
    sizes = (256,) if bench.quick else (512, 1024, 2048)
    bench.compare(bench.measure({f"{n} × {n}": product(n, bench.device) for n in sizes}), GIGAFLOPS)
    bench.table("Memory", "Bytes read and written. A gather reads an index of 8 bytes and a number of 8 and writes it.")
    count = bench.size(2**24, 2**16)
    many = torch.arange(count, device=bench.device)
    few = torch.arange(1024, device=bench.device)
    index = torch.randint(count, (count // 8,), device=bench.device)
    out, gathered = torch.empty_like(many), torch.empty_like(index)

    def copy() -> float:
        out.copy_(many)
        return 16.0 * count

    def gather(table: torch.Tensor) -> Work:
        there = index % len(table)

        def work() -> float:
            torch.index_select(table, 0, there, out=gathered)
            return 24.0 * len(there)

        return work

    times = bench.measure(
        {
            f"copy of {8 * count / 2**20:.4g} MiB": copy,
            f"gather from {8 * count / 2**20:.4g} MiB": gather(many),
            "gather from 8 KiB": gather(few),
        }
    )
    bench.compare(times, GIGABYTES)
