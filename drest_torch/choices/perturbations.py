"""Perturbations: all levels that differ from a level in one object, one wall or one tick."""

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
    """A level with a single change."""

    kind: str
    """The noun of an object, such as coin or button; or wall, or shutdown."""
    of: int
    """The index of the original level."""
    level: Level


def perturb(levels: Sequence[Level]) -> list[Perturbation]:
    """Return all single changes that keep the number of lengths and leave a coin within reach in each of them.

    A coin, a button or another object moves to another free cell. A free cell becomes wall, or a wall is cleared.
    Shutdown comes one tick earlier or later. The map keeps its size.
    """
    drafts = []
    for index, original in enumerate(levels):
        for kind, change, level in _changes(original):
            drafts.append(Perturbation(kind, index, replace(level, name=f"{original.name}: {change}")))
    before = solve(compile_levels(levels), allow_barren=True)
    after = solve(compile_levels([draft.level for draft in drafts]), allow_barren=True)
    columns = torch.arange(after.lengths.shape[1])
    padding = columns >= after.num_lengths.unsqueeze(-1)
    keeps_lengths = after.num_lengths == before.num_lengths[torch.tensor([draft.of for draft in drafts])]
    has_coins = ((after.best_return > 0) | padding).all(-1)
    valid = (keeps_lengths & has_coins).tolist()
    return [draft for draft, is_valid in zip(drafts, valid, strict=True) if is_valid]


def _changes(level: Level) -> Iterator[tuple[str, str, Level]]:
    """Yield the kind and the description of each single change of a level, and the changed level."""
    cells = [(row, column) for row in range(level.height) for column in range(level.width)]
    occupied = {level.start, *((thing.row, thing.column) for thing in (*level.objects, *level.fixtures))}
    unoccupied = [cell for cell in cells if cell not in occupied]
    yield from _moved_objects(level, [(row, column) for row, column in unoccupied if not level.walls[row][column]])
    for row, column in unoccupied:
        walls = [list(line) for line in level.walls]
        walls[row][column] = not walls[row][column]
        change = "wall at" if walls[row][column] else "no wall at"
        if level.fixtures and not _fixtures_fit(level, walls):
            continue
        floor = [cell for cell in cells if not walls[cell[0]][cell[1]]]
        if any((level.start[0] + down, level.start[1] + right) in floor for down, right in STEPS):
            yield "wall", f"{change} {row + 1}, {column + 1}", replace(level, walls=tuple(map(tuple, walls)))
    for change_of_time in (-1, 1):
        shutdown = level.shutdown + change_of_time
        if shutdown >= 1:
            yield "shutdown", f"shutdown {change_of_time:+d}", replace(level, shutdown=shutdown)


def _moved_objects(level: Level, cells: Sequence[tuple[int, int]]) -> Iterator[tuple[str, str, Level]]:
    """Yield the changes that move one object to one of these free cells."""
    for index, thing in enumerate(level.objects):
        others = [*level.objects[:index], *level.objects[index + 1 :]]
        for row, column in cells:
            moved = replace(thing, row=row, column=column)
            objects = sorted([*others, moved], key=lambda item: (KINDS.index(type(item)), item.row, item.column))
            change = f"{thing.text} {index} to {row + 1}, {column + 1}"
            yield thing.noun, change, replace(level, objects=tuple(objects))


def _fixtures_fit(level: Level, walls: list[list[bool]]) -> bool:
    """Return whether fixtures, such as doors, keep a valid place with these walls."""
    try:
        for thing in level.fixtures:
            thing.check(walls, (*level.objects, *level.fixtures), level.place)
    except LevelError:
        return False
    return True


def with_values(level: Level, name: str, values: Mapping[float, float]) -> Level:
    """Return a level under another name, in which ``values`` maps the value of each coin to a new one."""
    objects = []
    for thing in level.objects:
        if isinstance(thing, Coin):
            thing = replace(thing, value=values[thing.value])
        objects.append(thing)
    return replace(level, name=name, objects=tuple(objects))
