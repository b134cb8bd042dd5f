"""The eight symmetries of a level, and a canonical key that is equal for symmetric levels.

A rotation, a reflection, or a translation within a frame of wall leaves the task unchanged: the level has the same
lengths and the same optima. A rotated training level is therefore not an unseen level, and useless as a test level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar

import torch
from torch import Tensor

from drest_torch.envs.actions import STEPS
from drest_torch.envs.levels.level import Level
from drest_torch.envs.objects import KINDS, WorldObject

NUM_SYMMETRIES = 8

Cell = TypeVar("Cell")
Grid = Sequence[Sequence[Cell]]


def symmetries(level: Level) -> list[Level]:
    """Return the level under all eight symmetries; some are equal if the map is symmetric."""
    return [transform(level, index) for index in range(NUM_SYMMETRIES)]


def transform(level: Level, index: int) -> Level:
    """Return the level rotated clockwise by ``index % 4`` quarters, for index 4 to 7 after a left-right reflection.

    Index 0 is the level itself. The others get new names, such as ``example~3``, because the names of a level set must
    differ.
    """
    if index == 0:
        return level
    cells = [[(row, column) for column in range(level.width)] for row in range(level.height)]
    place = {
        before: (row, column) for row, line in enumerate(_rotated(cells, index)) for column, before in enumerate(line)
    }
    return replace(
        level,
        name=f"{level.name}~{index}",
        walls=tuple(tuple(row) for row in _rotated(level.walls, index)),
        start=place[level.start],
        objects=_placed(level.objects, place, index),
        fixtures=_placed(level.fixtures, place, index),
    )


def rotated_cells(size: int) -> Tensor:
    """Return the source cell of each cell of a square map under `transform` [8, size · size]."""
    cells = [[row * size + column for column in range(size)] for row in range(size)]
    maps = [_rotated(cells, index) for index in range(NUM_SYMMETRIES)]
    return torch.tensor([[cell for row in rows for cell in row] for rows in maps])


def rotated_actions() -> Tensor:
    """Return the actions of the transformed level that correspond to the actions of the level [8, 4]."""
    # On a map of three rows and columns, the neighbours of the centre stand for the four actions.
    beside = torch.tensor([3 * (1 + down) + 1 + right for down, right in STEPS])
    place_of = rotated_cells(3).argsort(-1)[:, beside]
    return (place_of.unsqueeze(-1) == beside).int().argmax(-1)


@lru_cache
def moved_actions() -> list[list[int]]:
    """Return `rotated_actions` as lists."""
    return rotated_actions().tolist()


def canonical_key(level: Level) -> str:
    """Return a text that is equal for two levels if and only if they are equal up to symmetry and translation.

    Outer rows and columns of wall are cropped, because everything outside a map is wall. Walls, objects, shutdown and
    clock count; the name and the study do not. Unreachable cells count, too, because an agent that sees the whole map
    can tell them apart.

    `drest_torch.envs.levels.keys` computes the same for many levels at once.
    """
    rows = _cropped(level.cells(attrgetter("key")))
    directed = [thing for thing in (*level.objects, *level.fixtures) if thing.is_directed]
    texts = []
    for index, actions in enumerate(moved_actions()):
        rotated = {thing.key: thing.moved(thing.row, thing.column, actions).key for thing in directed}
        cells = [[rotated.get(cell, cell) for cell in row] for row in rows] if rotated else rows
        texts.append("/".join(map(" ".join, _rotated(cells, index))))
    return f"{level.shutdown} {level.clock} {min(texts)}"


def _rotated(rows: Grid[Cell], index: int) -> Grid[Cell]:
    """Return the rows of a map under a symmetry (see `transform`)."""
    if index >= 4:
        rows = [row[::-1] for row in rows]
    for _ in range(index % 4):
        rows = list(zip(*rows[::-1], strict=True))
    return rows


def _placed(
    objects: Sequence[WorldObject], place: dict[tuple[int, int], tuple[int, int]], index: int
) -> tuple[WorldObject, ...]:
    """Return objects at their new places, in reading order within each kind."""
    moved = [thing.moved(*place[thing.row, thing.column], moved_actions()[index]) for thing in objects]
    return tuple(sorted(moved, key=lambda thing: (KINDS.index(type(thing)), thing.row, thing.column)))


def _cropped(cells: list[list[str]]) -> list[list[str]]:
    """Return the map without its outer rows and columns of wall."""
    free = [row for row, line in enumerate(cells) if line.count("#") < len(line)]
    cells = cells[free[0] : free[-1] + 1]
    free = [column for column, line in enumerate(zip(*cells, strict=True)) if line.count("#") < len(line)]
    return [line[free[0] : free[-1] + 1] for line in cells]
