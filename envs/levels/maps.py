"""Levels as tensors with maps of one size, for compilation and for generated level sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from drest_torch.envs.levels.level import Level
from drest_torch.envs.objects import KINDS, Layers, WorldObject, kinds_in

LAYERS = {name: layer for kind in KINDS for name, layer in kind.layers.items()}
"""The layers of all kinds of objects, by name."""
CLOCK = {False: "steps", True: "moves"}
"""The clock of a level, with free_bumps False and True."""
WALL, FLOOR, START = range(3)
"""The numbers of cells without objects (`Maps.cells`)."""


@dataclass(frozen=True)
class Maps:
    """n levels without their names, padded with wall to H rows and W columns."""

    height: Tensor
    """[n] the number of rows of the level."""
    width: Tensor
    """[n] the number of columns of the level."""
    shutdown: Tensor
    """[n]"""
    start: Tensor
    """[n] the agent's cell, counted row by row on the padded map."""
    free_bumps: Tensor
    """[n] True if the clock counts moves only."""
    walls: Tensor
    """[n, H, W]"""
    layers: Layers
    """[n, H, W] the numbers of the objects on each cell; walls have none."""

    def __len__(self) -> int:
        return len(self.height)

    def at(self, index: Tensor) -> Maps:
        """Return the levels at these indices."""
        return self._map_tensors(lambda values: values.index_select(0, index))

    def largest(self) -> tuple[int, int]:
        """Return the rows and columns of the largest map."""
        return int(self.height.max()), int(self.width.max())

    def sized(self, height: int, width: int) -> Maps:
        """Return the levels padded to this size, at least the size of the largest map."""
        rows, columns = self.walls.shape[1:]
        sides = (0, width - columns, 0, height - rows)
        if not any(sides):
            return self
        row, column = self.start // columns, self.start % columns
        layers = {}
        for name, values in self.layers.items():
            layers[name] = pad(values, sides, value=LAYERS[name].nothing)
        return replace(
            self,
            start=row * width + column,
            walls=pad(self.walls, sides, value=True),
            layers=layers,
        )

    def layer(self, name: str) -> Tensor:
        """Return a layer [n, H, W], filled with its default value if no level has the kind."""
        if name in self.layers:
            return self.layers[name]
        layer = LAYERS[name]
        return torch.full(self.walls.shape, layer.nothing, dtype=layer.dtype)

    def cells(self) -> tuple[Tensor, list[WorldObject]]:
        """Return the number of the content of each cell [n, H, W], and the objects with the numbers after `START`.

        Equal objects have one number, regardless of their place.
        """
        numbers = torch.where(self.walls, WALL, FLOOR)
        numbers.flatten(1).scatter_(1, self.start.unsqueeze(-1), START)
        objects: list[WorldObject] = []
        for kind in kinds_in(self.layers):
            place = kind.is_on(self.layers).nonzero(as_tuple=True)
            if len(place[0]) == 0:
                continue
            values = [self.layers[name][place] for name in kind.layers]
            number, examples = _numbered(values)
            numbers[place] = 1 + START + len(objects) + number
            columns = [column[examples].tolist() for column in values]
            for row in zip(*columns, strict=True):
                objects.append(kind.of_numbers(0, 0, *row))
        return numbers, objects

    def levels(self, names: Iterable[str]) -> list[Level]:
        """Return the levels as objects, one by one."""
        taken = self._objects(is_taken=True)
        fixed = self._objects(is_taken=False)
        columns = self.walls.shape[-1]
        height = self.height.tolist()
        width = self.width.tolist()
        shutdown = self.shutdown.tolist()
        start = self.start.tolist()
        free_bumps = self.free_bumps.tolist()
        levels = []
        for index, (name, walls) in enumerate(zip(names, self.walls.tolist(), strict=True)):
            rows = walls[: height[index]]
            level = Level(
                name=name,
                shutdown=shutdown[index],
                walls=tuple(tuple(row[: width[index]]) for row in rows),
                start=divmod(start[index], columns),
                objects=taken[index],
                fixtures=fixed[index],
                clock=CLOCK[free_bumps[index]],
            )
            levels.append(level)
        return levels

    def _objects(self, *, is_taken: bool) -> list[tuple[WorldObject, ...]]:
        """Return the objects of each level that can be taken, or those that cannot, kind by kind in reading order."""
        of_kinds = [self._of_kind(kind) for kind in kinds_in(self.layers) if kind.is_taken == is_taken]
        if not of_kinds:
            return [()] * len(self)
        return [tuple(chain.from_iterable(kinds)) for kinds in zip(*of_kinds, strict=True)]

    def _of_kind(self, kind: type[WorldObject]) -> list[tuple[WorldObject, ...]]:
        """Return the objects of a kind in each level, in reading order."""
        is_here = kind.is_on(self.layers)
        place = is_here.nonzero(as_tuple=True)
        columns = [values.tolist() for values in place[1:]]
        for name in kind.layers:
            values = self.layers[name][place]
            columns.append(values.tolist())
        objects = map(partial(_object, kind), *columns)
        counts = is_here.sum((1, 2))
        return [tuple(islice(objects, count)) for count in counts.tolist()]

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> Maps:
        """Return the levels with every tensor changed."""
        layers = {name: change(values) for name, values in self.layers.items()}
        return Maps(**{name: change(getattr(self, name)) for name in COLUMNS}, layers=layers)


COLUMNS = tuple(field.name for field in fields(Maps) if field.name != "layers")
"""The names of the tensors besides the layers."""


def joined(parts: Sequence[Maps]) -> Maps:
    """Return the concatenation of level sets with one map size and the same layers."""
    columns = {name: torch.cat([getattr(part, name) for part in parts]) for name in COLUMNS}
    layers = {name: torch.cat([part.layers[name] for part in parts]) for name in parts[0].layers}
    return Maps(**columns, layers=layers)


def maps_of_objects(levels: Sequence[Level]) -> Maps:
    """Return levels as tensors, by a loop over levels and their objects."""
    height = max(level.height for level in levels)
    width = max(level.width for level in levels)
    walls = torch.ones(len(levels), height, width, dtype=torch.bool)
    numbers: dict[type[WorldObject], list[tuple[float, ...]]] = {}
    for kind in KINDS:
        if not kind.is_optional:
            numbers[kind] = []
    start = []
    for index, level in enumerate(levels):
        row, column = level.start
        start.append(row * width + column)
        walls[index, : level.height, : level.width] = torch.tensor(level.walls)
        for thing in (*level.objects, *level.fixtures):
            of_kind = numbers.setdefault(type(thing), [])
            of_kind.append((index, thing.row, thing.column, *thing.numbers))
    layers: dict[str, Tensor] = {}
    for kind, rows in numbers.items():
        for name, layer in kind.layers.items():
            layers[name] = torch.full(walls.shape, layer.nothing, dtype=layer.dtype)
        if not rows:
            continue
        columns = list(zip(*rows, strict=True))
        place = tuple(map(torch.tensor, columns[:3]))
        for name, values in zip(kind.layers, columns[3:], strict=True):
            of_cells = layers[name]
            of_cells[place] = torch.tensor(values, dtype=of_cells.dtype)
    return Maps(
        height=torch.tensor([level.height for level in levels]),
        width=torch.tensor([level.width for level in levels]),
        shutdown=torch.tensor([level.shutdown for level in levels]),
        start=torch.tensor(start),
        free_bumps=torch.tensor([level.clock == "moves" for level in levels]),
        walls=walls,
        layers=layers,
    )


def _numbered(values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the number of each combination of values [m], and one example index of each combination."""
    number = torch.zeros(len(values[0]), dtype=torch.int64)
    for column in values:
        unique, inverse = column.unique(return_inverse=True)
        number = (number * len(unique) + inverse).unique(return_inverse=True)[1]
    index = torch.arange(len(number))
    return number, torch.zeros(int(number.max()) + 1, dtype=torch.int64).scatter_reduce_(0, number, index, "amax")


@lru_cache(1 << 16)
def _object(kind: type[WorldObject], *values: Any) -> WorldObject:
    """Return an object from a cache; most objects occur in many levels."""
    return kind.of_numbers(*values)
