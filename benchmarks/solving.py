"""Compiling level sets and solving them: every trajectory-length, and the most that can be collected in each."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measuring import SECONDS, Bench, Work, once
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import Level
from tests.helpers.simulator import searched_optima

TITLE = "Solving"
OURS, MAKE, SEARCH = "compile and solve", "make them", "search in plain Python"
WANTED_SECONDS = 5.0


def searching(levels: Sequence[Level], of: int) -> Work:
    """A search of some of the levels in plain Python; what amounts to 1 is all of them."""

    def work() -> float:
        for level in levels:
            searched_optima(level, 1.0)
        return len(levels) / of

    return work


def run(bench: Bench) -> None:
    config, count = GeneratorConfig(coins=(2, 4)), bench.size(10_000, 50)
    levels = generate(config, count, seed=1)
    few = levels[: bench.size(5, 1)]
    bench.table(
        f"{count:,} random 5 × 5 levels of 2 to 4 coins and a button",
        f"The search is in plain Python, reckoned from {len(few)} of the levels.",
    )
    works = {
        OURS: once(lambda: solve(compile_levels(levels))),
        MAKE: once(lambda: generate(config, count, seed=1)),
        SEARCH: searching(few, count),
    }
    bench.compare(bench.measure(works), SECONDS, baselines=[MAKE, SEARCH], wanted={OURS: WANTED_SECONDS})
