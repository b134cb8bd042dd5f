"""Compiling level sets and solving them: every trajectory-length, and the most that can be collected in each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.measuring import SECONDS, Bench, Work, once
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import Level
from tests.helpers.simulator import searched_optima

TITLE = "Solving"
WANTED_SECONDS, WANTED_GIB = 5.0, 2.0


def compile_and_solve(levels: Sequence[Level], device: torch.device) -> Optima:
    return solve(compile_levels(levels, device))


def searching(levels: Sequence[Level], of: int) -> Work:
    """A search of some of the levels in plain Python; what amounts to 1 is all of them."""

    def work() -> float:
        for level in levels:
            searched_optima(level, 1.0)
        return len(levels) / of

    return work


def run(bench: Bench) -> None:
    levels = generate(GeneratorConfig(coins=(2, 4)), bench.size(10_000, 50), seed=1)
    few = levels[: bench.size(5, 1)]
    bench.table(
        f"{len(levels):,} random 5 × 5 levels of 2 to 4 coins and a button",
        f"The search is in plain Python, reckoned from {len(few)} of the levels.",
    )
    work = once(lambda: compile_and_solve(levels, bench.device))
    works = {"compile and solve": work}
    if bench.on_cpu:
        works |= {
            "make them": once(lambda: generate(GeneratorConfig(coins=(2, 4)), len(levels), seed=1)),
            "search in plain Python": searching(few, len(levels)),
        }
    wanted = {"compile and solve": WANTED_SECONDS}
    bench.compare(bench.measure(works), SECONDS, baselines=["make them", "search in plain Python"], wanted=wanted)
    needed = bench.memory(work)
    if needed is None:
        bench.missing("memory it needs at its peak", "GiB", "not measured: this system does not tell")
    else:
        bench.numbers("memory it needs at its peak", "GiB", [needed / 1024], wanted=WANTED_GIB)
