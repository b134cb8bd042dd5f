"""The adversary of one edit: all levels that differ from a level in one object, one wall or one timestep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from drest_torch.envs.actions import STEPS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Coin, Level, LevelError
from drest_torch.envs.objects import KINDS


@dataclass(frozen=True)
class Perturbation:
    """A level that an edit has made."""

    kind: str
    """coin, button or the noun of another object, wall, or shutdown."""
    of: int
    """The index of the original level."""
    level: Level


def perturb(levels: Sequence[Level]) -> list[Perturbation]:
    """Return all edits that keep the number of lengths, and leave a coin within reach in each of them.

    A coin, a button or another object that is taken moves to another free cell; a free cell becomes wall, or a wall is
    cleared; shutdown comes one timestep earlier or later. The map keeps its size.
    """
    made = [
        Perturbation(kind, index, replace(level, name=f"{original.name}: {what}"))
        for index, original in enumerate(levels)
        for kind, what, level in _edits_of(original)
    ]
    before = solve(compile_levels(levels), allow_barren=True)
    after = solve(compile_levels([edit.level for edit in made]), allow_barren=True)
    columns = torch.arange(after.lengths.shape[1])
    padding = columns >= after.num_lengths.unsqueeze(-1)
    same = after.num_lengths == before.num_lengths[torch.tensor([edit.of for edit in made])]
    useful = ((after.best_return > 0) | padding).all(-1)
    return [edit for edit, keep in zip(made, (same & useful).tolist(), strict=True) if keep]


def _edits_of(level: Level) -> Iterator[tuple[str, str, Level]]:
    """Yield the kind of each edit of a level, what it is, and the level that it makes."""
    cells = [(row, column) for row in range(level.height) for column in range(level.width)]
    occupied = {level.start, *((thing.row, thing.column) for thing in (*level.objects, *level.fixtures))}
    free = [cell for cell in cells if cell not in occupied and not level.walls[cell[0]][cell[1]]]
    for index, thing in enumerate(level.objects):
        for row, column in free:
            moved = [*level.objects[:index], replace(thing, row=row, column=column), *level.objects[index + 1 :]]
            objects = tuple(sorted(moved, key=lambda each: (KINDS.index(type(each)), each.row, each.column)))
            yield thing.noun, f"{thing.text} {index} to {row + 1}, {column + 1}", replace(level, objects=objects)
    for row, column in (cell for cell in cells if cell not in occupied):
        walls = [list(line) for line in level.walls]
        walls[row][column] = not walls[row][column]
        what = "wall at" if walls[row][column] else "no wall at"
        if level.fixtures and not _stands(level, walls):
            continue
        floor = [cell for cell in cells if not walls[cell[0]][cell[1]]]
        if any((level.start[0] + down, level.start[1] + right) in floor for down, right in STEPS):
            yield "wall", f"{what} {row + 1}, {column + 1}", replace(level, walls=tuple(map(tuple, walls)))
    for change in (-1, 1):
        if level.shutdown + change >= 1:
            yield "shutdown", f"shutdown {change:+d}", replace(level, shutdown=level.shutdown + change)


def _stands(level: Level, walls: list[list[bool]]) -> bool:
    """Return whether fixtures, such as doors, can be where they are with these walls."""
    try:
        for thing in level.fixtures:
            thing.check(walls, (*level.objects, *level.fixtures), level.place)
    except LevelError:
        return False
    return True


def with_values(level: Level, name: str, values: Mapping[float, float]) -> Level:
    """Return a level under another name, with another value for each coin, by the value that it has."""
    objects = tuple(
        replace(thing, value=values[thing.value]) if isinstance(thing, Coin) else thing for thing in level.objects
    )
    return replace(level, name=name, objects=objects)
