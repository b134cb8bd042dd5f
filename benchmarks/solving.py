"""Compiling and solving level sets: all trajectory-lengths, and the best return of each."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measuring import SECONDS, Bench, Work, once
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import Level
from tests.helpers.simulator import searched_optima

TITLE = "Solving"
OURS, GENERATE, SEARCH = "compile and solve", "generate", "search in plain Python"
TARGET = 50.0
"""The smallest speed relative to the search."""


def searching(levels: Sequence[Level], total: int) -> Work:
    """Return a search of some levels in plain Python, counted as their share of all levels."""

    def work() -> float:
        for level in levels:
            searched_optima(level, 1.0)
        return len(levels) / total

    return work


def run(bench: Bench) -> None:
    config, count = GeneratorConfig(coins=(2, 4)), bench.size(10_000, 50)
    levels = generate(config, count, seed=1)
    few = levels[: bench.size(5, 1)]
    bench.table(
        f"{count:,} random 5 × 5 levels of 2 to 4 coins and a button",
        f"The time of the search is extrapolated from {len(few)} of the levels.",
    )
    works = {
        OURS: once(lambda: solve(compile_levels(levels))),
        GENERATE: once(lambda: generate(config, count, seed=1)),
        SEARCH: searching(few, count),
    }
    times = bench.measure(works)
    bench.compare(times, SECONDS, baselines=[GENERATE, SEARCH])
    bench.ratio(times, OURS, SEARCH, target=TARGET)
