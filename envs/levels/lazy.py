"""Level sets stored as tensors, whose levels become objects when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import overload

import torch
from torch import Tensor

from drest_torch.envs.levels.keys import canonical_keys
from drest_torch.envs.levels.level import Level
from drest_torch.envs.levels.maps import Maps, joined, maps_of_objects

BLOCK = 256
"""The number of levels that are converted to objects together."""


class LazyLevels(Sequence[Level]):
    """A sequence of levels that equals the list of its levels; slices are lazy, too.

    A generated set has tens of thousands of levels, of which few are read. They are compiled, compared and counted as
    tensors (`maps_of`, `keys_of`, `features_of`, `largest_map`). Levels become objects in blocks, on first access.
    """

    def __init__(self, maps: Maps, number: Tensor, prefix: str, keys: list[str] | None = None) -> None:
        self.maps, self.number, self.prefix = maps, number, prefix
        """The parts of the name of a level are the prefix and its number."""
        if keys is not None:
            self.keys = keys
        self._blocks: dict[int, list[Level]] = {}

    @cached_property
    def keys(self) -> list[str]:
        """The canonical key of each level."""
        return canonical_keys(self.maps)

    @cached_property
    def features(self) -> frozenset[str]:
        """The union of the features of the levels."""
        return frozenset().union(*(thing.shows for thing in self.maps.cells()[1]))

    def at(self, index: Tensor) -> LazyLevels:
        """Return the levels at these positions."""
        keys = None
        if "keys" in self.__dict__:
            keys = [self.keys[place] for place in index.tolist()]
        return LazyLevels(self.maps.at(index), self.number[index], self.prefix, keys)

    def __len__(self) -> int:
        return len(self.maps)

    @overload
    def __getitem__(self, index: int) -> Level: ...
    @overload
    def __getitem__(self, index: slice) -> LazyLevels: ...
    def __getitem__(self, index: int | slice) -> Level | LazyLevels:
        places = range(len(self))[index]
        if isinstance(places, range):
            return self.at(torch.arange(places.start, places.stop, places.step))
        block, place = divmod(places, BLOCK)
        if block not in self._blocks:
            chosen = torch.arange(block * BLOCK, min((block + 1) * BLOCK, len(self)))
            names = [f"{self.prefix}{number:06}" for number in self.number[chosen].tolist()]
            self._blocks[block] = self.maps.at(chosen).levels(names)
        return self._blocks[block][place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(level == twin for level, twin in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # unhashable like a list

    def __repr__(self) -> str:
        return f"<{len(self):,} levels {self.prefix}…>"


def together(parts: Sequence[LazyLevels]) -> LazyLevels:
    """Return the concatenation of sequences with one prefix and maps of one size."""
    first = parts[0]
    if len(parts) == 1:
        return first
    keys = [key for part in parts for key in part.keys]
    number = torch.cat([part.number for part in parts])
    maps = joined([part.maps for part in parts])
    return LazyLevels(maps, number, first.prefix, keys)


# ------------------------------------------------------------------------------------------- lazy or not


def maps_of(levels: Sequence[Level]) -> Maps:
    """Return levels as tensors."""
    if isinstance(levels, LazyLevels):
        return levels.maps
    return maps_of_objects(levels)


def keys_of(levels: Sequence[Level]) -> list[str]:
    """Return the canonical key of each level (`canonical_key`)."""
    if isinstance(levels, LazyLevels):
        return levels.keys
    if not levels:
        return []
    return canonical_keys(maps_of_objects(levels))


def features_of(levels: Iterable[Level]) -> frozenset[str]:
    """Return the union of the features of the levels."""
    if isinstance(levels, LazyLevels):
        return levels.features
    return frozenset().union(*(level.features for level in levels))


def largest_map(levels: Sequence[Level]) -> tuple[int, int]:
    """Return the largest number of rows, and of columns, of the levels."""
    if isinstance(levels, LazyLevels):
        return levels.maps.largest()
    return max(level.height for level in levels), max(level.width for level in levels)
