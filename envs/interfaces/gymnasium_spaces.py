"""The spaces of a Gymnasium environment as rows of numbers.

This module and `gymnasium_copies` do not import torch, so that a worker process starts fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces
from gymnasium.spaces.utils import flatdim, flatten
from numpy.typing import NDArray

from drest_torch.errors import UserError

Array = NDArray[Any]

RESERVED = {"action", "reward", "done", "terminated", "truncated", "next", "level_seed", "_reset", "_step"}


class Entry(NamedTuple):
    """One observation of an environment: its name, where it lies in what the environment returns, and its numbers."""

    name: str
    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    dtype: str
    one_hot: Space[Any] | None = None
    """The Discrete or MultiDiscrete space that is observed as a one-hot vector."""

    def of(self, observation: Any) -> Any:
        """Return the numbers of this entry in an observation of the environment."""
        for key in self.path:
            observation = observation[key]
        return observation if self.one_hot is None else flatten(self.one_hot, observation)


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
        case spaces.Discrete() | spaces.MultiDiscrete():
            yield Entry(full, path, (int(flatdim(space)),), "float32", space)
        case spaces.Box() | spaces.MultiBinary():
            image = isinstance(space, spaces.Box) and space.dtype == np.uint8
            yield Entry(full, path, tuple(space.shape), "uint8" if image else "float32")


def check_actions(space: Space[Any], name: str) -> None:
    """Refuse an action space that is neither Discrete, nor MultiDiscrete, nor a Box of floating-point numbers."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        raise UserError(
            f"{name} has the action space {space}; expected a Discrete or MultiDiscrete space, or a Box of "
            "floating-point numbers: convert it with a wrapper, such as gymnasium.wrappers.TransformAction or "
            "DiscretizeAction"
        )


def action_row(space: Any) -> tuple[int, ...]:
    """Return the shape of one action in the batch: () for one choice, [d] for a box or several choices."""
    return () if isinstance(space, spaces.Discrete) else (int(np.prod(space.shape)),)


def actions_of(space: Any, rows: Array) -> list[Any]:
    """Return one action of the environment for each row of numbers; it may keep the action."""
    if isinstance(space, spaces.Discrete):
        return list((rows + space.start).tolist())
    rows = rows.reshape(len(rows), *space.shape)
    return list(rows + space.start if isinstance(space, spaces.MultiDiscrete) else rows.copy())
