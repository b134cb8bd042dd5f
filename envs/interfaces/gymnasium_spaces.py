"""The spaces of a Gymnasium environment as rows of numbers.

This module and `gymnasium_copies` do not import torch, so that a worker process starts fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from drest_torch.errors import UserError

Array = NDArray[Any]

RESERVED = {"action", "reward", "done", "terminated", "truncated", "next", "level_seed", "_reset", "_step"}


@dataclass(frozen=True)
class Entry:
    """One observation of an environment: its name, where it lies in what the environment returns, and its numbers."""

    name: str
    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    """Of what is stored for one copy: the numbers of a box, or the index of each category."""
    dtype: str
    categories: tuple[int, ...] = ()
    """The numbers of categories of a Discrete or MultiDiscrete space, which are observed as one-hot vectors."""
    starts: tuple[int, ...] = ()

    @property
    def observed(self) -> tuple[int, ...]:
        """Return the shape of the observation of one copy."""
        return (sum(self.categories),) if self.categories else self.shape

    @property
    def observed_dtype(self) -> str:
        """Return the type of the observation."""
        return "float32" if self.categories else self.dtype


@dataclass(frozen=True)
class ActionRule:
    """How a row of numbers becomes an action of the environment."""

    categories: int
    """The number of actions of a Discrete space; 0 for other spaces."""
    start: Any
    shape: tuple[int, ...]
    dtype: str
    low: Array | None = None
    high: Array | None = None
    parts: tuple[int, ...] = ()
    """The numbers of actions of each part of a MultiDiscrete space."""

    @property
    def row(self) -> tuple[int, ...]:
        """Return the shape of one action in the batch: () for a category, [d] for a box or several categories."""
        return () if self.categories else (int(np.prod(self.shape)),)

    def split(self, rows: Array) -> list[Any]:
        """Return one action for each row; an environment may keep it."""
        if self.categories:
            return list((rows + self.start).tolist())
        if self.parts:
            rows = rows + self.start
        return list(rows.reshape(len(rows), *self.shape).copy())


def observation_entries(space: Space[Any], name: str) -> tuple[Entry, ...]:
    """Return an entry for each part of an observation space that consists of numbers.

    Raises:
        UserError: if nothing consists of numbers, or two entries have the same name.
    """
    entries = tuple(_entries(space, (), ""))
    if not entries:
        raise UserError(
            f"{name} has the observation space {space}; expected a Box, Discrete, MultiDiscrete or MultiBinary space, "
            "or a Dict or Tuple with one of them"
        )
    names = [entry.name for entry in entries]
    for each in names:
        if each in RESERVED or names.count(each) > 1:
            raise UserError(f"{name} has an observation named {each!r}, which is taken; rename it with a wrapper")
    return entries


def _entries(space: Space[Any], path: tuple[str | int, ...], name: str) -> Iterator[Entry]:
    """Yield the entries of a space; what is neither numbers nor a collection of spaces is left out."""
    full = name or "observation"
    match space:
        case spaces.Dict():
            for key, part in space.spaces.items():
                yield from _entries(part, (*path, key), f"{name}_{key}" if name else key)
        case spaces.Tuple():
            for index, part in enumerate(space.spaces):
                yield from _entries(part, (*path, index), f"{full}_{index}")
        case spaces.Discrete():
            yield Entry(full, path, (1,), "int64", (int(space.n),), (int(space.start),))
        case spaces.MultiDiscrete():
            numbers, starts = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
            yield Entry(full, path, space.nvec.shape, "int64", tuple(numbers), tuple(starts))
        case spaces.Box() | spaces.MultiBinary():
            image = isinstance(space, spaces.Box) and space.dtype == np.uint8
            yield Entry(full, path, tuple(space.shape), "uint8" if image else "float32")


def action_rule(space: Space[Any], name: str) -> ActionRule:
    """Return the rule of an action space.

    Raises:
        UserError: if it is neither Discrete, nor MultiDiscrete, nor a Box of floating-point numbers.
    """
    if isinstance(space, spaces.Discrete):
        return ActionRule(int(space.n), int(space.start), (), "int64")
    if isinstance(space, spaces.MultiDiscrete):
        parts, start = (numbers.reshape(-1) for numbers in (space.nvec, space.start))
        return ActionRule(0, start, tuple(space.shape), str(space.dtype), parts=tuple(parts.tolist()))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (bound.reshape(-1).astype(np.float32) for bound in (space.low, space.high))
        return ActionRule(0, 0, tuple(space.shape), str(space.dtype), low, high)
    raise UserError(
        f"{name} has the action space {space}; expected a Discrete or MultiDiscrete space, or a Box of floating-point "
        "numbers: convert it with a wrapper, such as gymnasium.wrappers.TransformAction or DiscretizeAction"
    )
