"""The rules of the worlds, once: a level set compiled to tensors, and one step on them.

The environment, the solver and the propagator all move through :meth:`Mdp.advance`; nothing else in
the project knows what a wall, a coin or a button does.

A *spot* is a cell of a level of the set, counted through: ``spot = level * cells + row * width + column``
on maps padded to the largest of the set. ``taken`` holds one bit for each coin and button of the level,
coins first, set once the agent has entered its cell. What the objects of a cell come to is in *layers*: see
:mod:`envs.objects`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from envs.actions import ACTIONS, NUM_ACTIONS, STEPS
from envs.levels import Level, LevelError, features_of
from envs.objects import LAYERS, WorldObject, redirected

__all__ = ["ACTIONS", "NUM_ACTIONS", "STEPS", "Arrival", "Mdp", "compile_levels"]


class Arrival(NamedTuple):
    """What one action leads to; all of the shape of the action."""

    spot: Tensor
    taken: Tensor
    coin: Tensor
    """Value of the coin collected, 0 for none."""
    delay: Tensor
    """Time added by the button pressed, 0 for none."""
    ticks: Tensor | int
    """Time taken: 1, or 0 for a bump on a clock that counts moves."""


@dataclass(frozen=True)
class Mdp:
    """A level set as tensors. S spots, B levels, 4 actions."""

    levels: tuple[Level, ...]
    height: int
    width: int
    goto: Tensor
    """[S * 4] the spot that an action leads to; a bump leads to the spot itself."""
    found: Tensor
    """[S] the bit of the coin or button of the spot, 0 where there is none."""
    layers: Mapping[str, Tensor]
    """[S] by name, the numbers of the objects of the spot."""
    wall: Tensor
    """[S] whether the spot is wall (or padding)."""
    start: Tensor
    """[B] the spot where the agent starts."""
    shutdown: Tensor
    """[B] the time that is left at the start."""
    free_bumps: Tensor
    """[B] whether the clock counts moves only, so that a bump takes no time."""
    features: frozenset[str]
    """What is shown only of a set that has it (the keys of `envs.objects.FEATURES`)."""
    any_free_bumps: bool

    @property
    def any_chance(self) -> bool:
        """Whether what an action leads to can depend on luck."""
        return "chance" in self.features

    @property
    def coin(self) -> Tensor:
        """[S] the value of the coin of the spot."""
        return self.layers["coin"]

    @property
    def delay(self) -> Tensor:
        """[S] the delay of the button of the spot."""
        return self.layers["delay"]

    @property
    def chance(self) -> Tensor:
        """[S] the chance with which that button works, 1 where there is none."""
        return self.layers["chance"]

    @property
    def num_levels(self) -> int:
        return len(self.levels)

    @property
    def num_cells(self) -> int:
        return self.height * self.width

    @cached_property
    def num_objects(self) -> int:
        """Bits of a state: coins and buttons of the level that has the most."""
        return max(level.num_objects for level in self.levels)

    @cached_property
    def max_time(self) -> int:
        return max(level.max_time for level in self.levels)

    @property
    def device(self) -> torch.device:
        return self.goto.device

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Mdp:
        """The same set on another device, or with its coin values and chances in another precision."""

        def moved(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: moved(layer) for name, layer in value.items()}
            if not isinstance(value, Tensor):
                return value
            return value.to(device, dtype if value.is_floating_point() else None)

        return Mdp(**{each.name: moved(getattr(self, each.name)) for each in fields(self)})

    def level_of(self, spot: Tensor) -> Tensor:
        return torch.div(spot, self.num_cells, rounding_mode="floor")

    def is_fresh(self, spot: Tensor, taken: Tensor) -> Tensor:
        """Whether the spot holds a coin or button that is still there."""
        return (self.found[spot] & ~taken) != 0

    def advance(self, spot: Tensor, taken: Tensor, action: Tensor, luck: Tensor | None = None) -> Arrival:
        """One action from each state.

        A button works if ``luck``, a number in [0, 1), is below its chance; without luck, every button
        works. The time that is left afterwards is the time before − ticks + delay: a button entered on
        the last tick still saves the mini-episode, and a coin entered on the last tick counts.
        """
        there = _look_up(self.goto, spot * NUM_ACTIONS + action)
        found = _look_up(self.found, there)
        fresh = (found & ~taken) != 0
        delay = _look_up(self.delay, there) * fresh
        if luck is not None:
            delay = delay * (luck < _look_up(self.chance, there))
        ticks: Tensor | int = 1
        if self.any_free_bumps:
            ticks = ((there != spot) | ~self.free_bumps[self.level_of(spot)]).to(spot.dtype)
        return Arrival(there, taken | found, _look_up(self.coin, there) * fresh, delay, ticks)


def _look_up(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]``, which on CPU takes three times as long."""
    return table.index_select(0, index.reshape(-1)).reshape(index.shape)


def compile_levels(
    levels: Sequence[Level],
    device: torch.device | str = "cpu",
    *,
    at_least: tuple[int, int] = (1, 1),
    features: Collection[str] = (),
) -> Mdp:
    """Compile a level set to tensors; the only loop over levels and objects is this one.

    Maps are padded with wall to the largest of the set, or to ``at_least`` so many rows and columns. The set counts as
    one that has these ``features`` too, as the larger set that it is sampled from may have them.
    """
    if not levels:
        raise LevelError("no levels; expected at least one")
    height = max(at_least[0], *(level.height for level in levels))
    width = max(at_least[1], *(level.width for level in levels))
    wall = torch.ones(len(levels), height, width, dtype=torch.bool)
    objects: list[tuple[int, int]] = []
    numbers: dict[type[WorldObject], list[tuple[float, ...]]] = {}
    starts = []
    for index, level in enumerate(levels):
        wall[index, : level.height, : level.width] = torch.tensor(level.walls)
        first = index * height * width
        for bit, thing in enumerate(level.objects):
            objects.append((first + thing.row * width + thing.column, 1 << bit))
        for thing in (*level.objects, *level.fixtures):
            numbers.setdefault(type(thing), []).append((first + thing.row * width + thing.column, *thing.numbers))
        starts.append(first + level.start[0] * width + level.start[1])
    found = torch.zeros(wall.numel(), dtype=torch.int64)
    where, bits = zip(*objects, strict=True)
    found[torch.tensor(where)] = torch.tensor(bits)
    layers = {name: torch.full((wall.numel(),), layer.nothing, dtype=layer.dtype) for name, layer in LAYERS.items()}
    for kind, rows in numbers.items():
        where, *columns = zip(*rows, strict=True)
        for name, values in zip(kind.layers, columns, strict=True):
            layers[name][torch.tensor(where)] = torch.tensor(values, dtype=layers[name].dtype)
    start = torch.tensor(starts)
    goto = redirected(_goto(wall), layers)
    _check_free_to_move(levels, goto, start)
    return Mdp(
        levels=tuple(levels),
        height=height,
        width=width,
        goto=goto.reshape(-1),
        found=found,
        layers=layers,
        wall=wall.reshape(-1),
        start=start,
        shutdown=torch.tensor([level.shutdown for level in levels]),
        free_bumps=torch.tensor([level.clock == "moves" for level in levels]),
        features=features_of(levels).union(features),
        any_free_bumps=any(level.clock == "moves" for level in levels),
    ).to(device)


def _goto(wall: Tensor) -> Tensor:
    """[S, 4] where each action leads from each spot, given the walls [B, H, W]."""
    num_levels, height, width = wall.shape
    spot = torch.arange(wall.numel()).reshape(wall.shape)
    # A frame of wall around every map makes the outside of it wall.
    framed = torch.ones(num_levels, height + 2, width + 2, dtype=torch.bool)
    framed[:, 1:-1, 1:-1] = wall
    moves = []
    for down, right in STEPS:
        blocked = framed[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]
        moves.append(torch.where(blocked, spot, spot + down * width + right))
    return torch.stack(moves, dim=-1).reshape(-1, NUM_ACTIONS)


def _check_free_to_move(levels: Sequence[Level], goto: Tensor, start: Tensor) -> None:
    stuck = (goto[start] == start.unsqueeze(-1)).all(-1)
    if stuck.any():
        level = levels[int(stuck.nonzero()[0])]
        row, column = level.start
        raise LevelError(
            f"{level.place}: the agent in map row {row + 1}, column {column + 1} is walled in; "
            "expected a free cell beside it"
        )
