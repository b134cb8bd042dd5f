"""Levels in which the first step decides the length, each beside itself with time to come back.

In a level without a tick to spare, a step towards one length gives the other one up. With two more ticks on the clock
the same step can be taken back, and every length offers the same coins. So the two differ in when the length has to be
chosen, and in nothing that an optimal agent collects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from drest_torch.envs.actions import STEPS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.config import GeneratorConfig
from drest_torch.envs.generation.stream import generate
from drest_torch.envs.levels import Level

BACK = 2
"""The ticks that a step and the way back take."""
SAMPLED = GeneratorConfig(
    walls=(0, 12), wall_shape="mixed", coins=(1, 3), coin_values=(1, 10), shutdown=(2, 5), delay=(1, 6), slack=(0, 0)
)
DRAFTS = 20
"""Levels that are sampled for each pair that is wanted: of about 16 one is kept."""


@cache
def pairs(number: int) -> tuple[tuple[Level, Level], ...]:
    """Return at most so many levels in which the first step decides, each with itself with time to come back."""
    levels = generate(SAMPLED, DRAFTS * number, seed=0)
    decided = [level for level, chosen in zip(levels, first_step_decides(levels), strict=True) if chosen]
    later = [replace(level, name=f"{level.name}, +{BACK}", shutdown=level.shutdown + BACK) for level in decided]
    same = zip(decided, later, best_returns(decided), best_returns(later), strict=True)
    return tuple((level, more) for level, more, m, then in same if [*m.values()] == [*then.values()])[:number]


def best_returns(levels: Sequence[Level]) -> list[dict[int, float]]:
    """Return m(l) of each level, by length."""
    optima = solve(compile_levels(levels), allow_barren=True)
    tables = (optima.lengths.tolist(), optima.best_return.tolist(), optima.num_lengths.tolist())
    return [dict(zip(lengths[:count], best[:count], strict=True)) for lengths, best, count in zip(*tables, strict=True)]


def first_step_decides(levels: Sequence[Level]) -> list[bool]:
    """Return for each level whether every first step leaves m(l) within reach for at most one length, and all steps do.

    Levels with an object or a fixture beside the start are not looked at: False.
    """
    after = [_after_first_steps(level) for level in levels]
    flat = [each for some in after for each in some]
    optima = iter(best_returns(flat) if flat else [])
    decided = []
    for best, some in zip(best_returns(levels), after, strict=True):
        kept = [{length for length, m in next(optima).items() if best.get(length + 1) == m} for _ in some]
        all_of_them = {length + 1 for one in kept for length in one}
        decided.append(len(best) > 1 and all(len(one) <= 1 for one in kept) and set(best) == all_of_them)
    return decided


def _after_first_steps(level: Level) -> list[Level]:
    """Return the levels that begin after each first step; none if an object is beside the start or no time is left."""
    things = {(thing.row, thing.column) for thing in (*level.objects, *level.fixtures)}
    beside = [(level.start[0] + down, level.start[1] + right) for down, right in STEPS]
    inside = [(row, column) for row, column in beside if 0 <= row < level.height and 0 <= column < level.width]
    free = [cell for cell in inside if not level.walls[cell[0]][cell[1]]]
    if level.shutdown < 2 or things.intersection(free):
        return []
    return [
        replace(
            level, name=f"{level.name} from {row + 1}, {column + 1}", start=(row, column), shutdown=level.shutdown - 1
        )
        for row, column in free
    ]
