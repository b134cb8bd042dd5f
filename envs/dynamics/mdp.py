"""The rules of the worlds: a level set compiled to tensors, and one step on them.

All rules are here: the environment, the solver and the propagator move with :meth:`Mdp.advance`, and no other module
implements walls, coins or buttons.

A *spot* is the number of a cell in the whole set: ``spot = level * cells + row * width + column``, on maps padded to
the largest of the set. ``taken`` holds one bit for each coin and button of the level, coins first; a bit is set when
the agent first enters the cell. The numbers of the objects on a cell are in *layers*: see
:mod:`drest_torch.envs.objects`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.actions import ACTIONS, NUM_ACTIONS, STEPS
from drest_torch.envs.levels import LazyLevels, Level, LevelError, features_of
from drest_torch.envs.levels.lazy import maps_of
from drest_torch.envs.objects import KINDS, Layers, kinds_in
from drest_torch.envs.objects.lottery import SpotOutcomes, outcomes_of

__all__ = ["ACTIONS", "NUM_ACTIONS", "STEPS", "Arrival", "Mdp", "compile_levels"]


class Arrival(NamedTuple):
    """The result of one action; all tensors have the shape of the action."""

    spot: Tensor
    taken: Tensor
    coin: Tensor
    """Value of the collected coin, or coins of the lottery's outcome; 0 for neither."""
    delay: Tensor
    """Time added by the pressed button or by the lottery's outcome; 0 for neither."""
    ticks: Tensor | int
    """Time that the action takes: 1, or 0 for a bump on a clock that counts moves."""


class StateNumbering(NamedTuple):
    """The numbering of the states of a level set: spot, taken objects and time left as one integer."""

    bits: int
    times: int

    def number(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        """Return the number of each state."""
        return ((spot * self.times + time_left) << self.bits) | taken

    def decode(self, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return spot, taken objects and time left of the states with these numbers."""
        first = number >> self.bits
        spot = torch.div(first, self.times, rounding_mode="floor")
        return spot, number - (first << self.bits), first - spot * self.times


@dataclass(frozen=True)
class Mdp:
    """A level set as tensors: S spots, B levels, 4 actions."""

    levels: Sequence[Level]
    height: int
    width: int
    goto: Tensor
    """[S * 4] the spot after each action; a bump leads to the spot itself."""
    object_bit: Tensor
    """[S] the bit of the coin or button on the spot; 0 where there is none."""
    layers: Layers
    """[S] the numbers of the objects on the spot, by the name of the layer."""
    outcomes: SpotOutcomes
    """The outcomes of entering each spot for the first time."""
    wall: Tensor
    """[S] True for wall and padding."""
    start: Tensor
    """[B] the spot where the agent starts."""
    shutdown: Tensor
    """[B] the time left at the start."""
    free_bumps: Tensor
    """[B] True if the clock counts moves only, so that a bump takes no time."""
    features: frozenset[str]
    """The optional features of the set that observations include (keys of `drest_torch.envs.objects.FEATURES`)."""
    any_free_bumps: bool
    """True if a bump takes no time in some level."""

    @property
    def has_lotteries(self) -> bool:
        """True if the set has lotteries."""
        return "lottery" in self.layers

    @property
    def num_outcomes(self) -> int:
        """J, the largest number of outcomes of an action."""
        return self.outcomes.chance.shape[1]

    @property
    def any_chance(self) -> bool:
        """True if the result of an action can depend on luck."""
        return self.num_outcomes > 1

    @cached_property
    def any_luck(self) -> bool:
        """True if there are lotteries, or buttons that can fail."""
        return self.has_lotteries or bool(self.by_luck.any())

    @cached_property
    def by_luck(self) -> Tensor:
        """[B] True for levels with random outcomes."""
        return (self.outcomes.number > 1).reshape(self.num_levels, -1).any(-1)

    @cached_property
    def coins_by_chance(self) -> bool:
        """True if the coins of an action can depend on luck: the outcomes of some lottery differ in coins."""
        coins = self.outcomes.coins.reshape(self.num_outcomes, -1)
        return bool(((coins != coins[0]).T & (self.outcomes.chance > 0)).any())

    @property
    def coin(self) -> Tensor:
        """[S] The value of the coin on each spot."""
        return self.layers["coin"]

    @property
    def delay(self) -> Tensor:
        """[S] The delay of the button on each spot."""
        return self.layers["delay"]

    @property
    def chance(self) -> Tensor:
        """[S] The chance that the button on each spot works, 1 where there is none."""
        return self.layers["chance"]

    @property
    def num_levels(self) -> int:
        """B, the number of levels."""
        return len(self.levels)

    @property
    def num_cells(self) -> int:
        """The number of cells of each padded map."""
        return self.height * self.width

    @cached_property
    def num_objects(self) -> int:
        """The number of bits of a state: the largest number of coins and buttons in a level."""
        return int(self.object_bit.max()).bit_length()

    @cached_property
    def states(self) -> StateNumbering:
        """The numbering of the states."""
        return StateNumbering(self.num_objects, self.max_time + 1)

    @cached_property
    def max_time(self) -> int:
        """The largest trajectory-length of any level."""
        added = self.outcomes.delay.reshape(self.num_outcomes, -1).amax(0).clamp_min(0)
        return int((self.shutdown + added.reshape(self.num_levels, -1).sum(-1)).max())

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.goto.device

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Mdp:
        """Return the set on another device, or with its coin values and chances in another precision."""

        def moved(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: moved(layer) for name, layer in value.items()}
            if isinstance(value, SpotOutcomes):
                return SpotOutcomes(*map(moved, value))
            if not isinstance(value, Tensor):
                return value
            return value.to(device, dtype if value.is_floating_point() else None)

        return Mdp(**{field.name: moved(getattr(self, field.name)) for field in fields(self)})

    def with_coins(self, value: Tensor) -> Mdp:
        """Return the set with other values [S] of the coins on its maps."""
        layers = {**self.layers, "coin": value}
        return replace(self, layers=layers, outcomes=outcomes_of(layers, self.features))

    def ending_at(self, time: Tensor) -> Mdp:
        """Return the set in which shutdown comes at this time [B], whatever is pressed; its maps stay the same."""
        outcomes = self.outcomes._replace(delay=torch.zeros_like(self.outcomes.delay))
        return replace(self, shutdown=time.to(self.shutdown), outcomes=outcomes)

    def level_of(self, spot: Tensor) -> Tensor:
        """Return the index of the level of each spot."""
        return torch.div(spot, self.num_cells, rounding_mode="floor")

    def stays(self) -> Tensor:
        """Return [S], True where no action leaves the spot."""
        goto = self.goto.reshape(-1, NUM_ACTIONS)
        return (goto == torch.arange(len(goto), device=goto.device).unsqueeze(-1)).all(-1)

    def is_fresh(self, spot: Tensor, taken: Tensor) -> Tensor:
        """Return whether the spot has a coin or button that is not taken yet."""
        return (self.object_bit[spot] & ~taken) != 0

    def advance(self, spot: Tensor, taken: Tensor, action: Tensor, luck: Tensor | None = None) -> Arrival:
        """Apply one action to each state.

        ``luck`` is a random number in [0, 1). The outcomes of a lottery divide this range in their order, and a button
        works if the number is below its chance. Without luck, every button works, and every lottery has its first
        outcome. The time left becomes time − ticks + delay, and at least 0 (`time_after`): a button entered on the last
        tick still extends the mini-episode, and a coin entered on the last tick counts.
        """
        target = _look_up(self.goto, spot * NUM_ACTIONS + action)
        bit = _look_up(self.object_bit, target)
        fresh = (bit & ~taken) != 0
        outcome = target
        if luck is not None:
            for until in self.outcomes.until:
                outcome = torch.add(outcome, luck >= _look_up(until, target), alpha=len(self.object_bit))
        coin = _look_up(self.outcomes.coins, outcome) * fresh
        delay = _look_up(self.outcomes.delay, outcome) * fresh
        ticks: Tensor | int = 1
        if self.any_free_bumps:
            ticks = ((target != spot) | ~self.free_bumps[self.level_of(spot)]).to(spot.dtype)
        return Arrival(target, taken | bit, coin, delay, ticks)

    def time_after(self, time_left: Tensor, arrival: Arrival) -> Tensor:
        """Return the time left after the arrival, given the time left before it."""
        after = time_left - arrival.ticks + arrival.delay
        return after.clamp_min(0) if self.has_lotteries else after


def _look_up(table: Tensor, index: Tensor) -> Tensor:
    """Return ``table[index]`` by `index_select`, three times as fast on a CPU as indexing."""
    return table.index_select(0, index.reshape(-1)).reshape(index.shape)


def compile_levels(
    levels: Sequence[Level],
    device: torch.device | str = "cpu",
    *,
    at_least: tuple[int, int] = (1, 1),
    features: Collection[str] = (),
) -> Mdp:
    """Compile a level set to tensors.

    Maps are padded with wall to the size of the largest map, and to ``at_least`` this many rows and columns.
    ``features`` extend the features of the levels, so that a sample of a larger set is observed like the larger set.
    """
    if not levels:
        raise LevelError("no levels; expected at least one")
    maps = maps_of(levels)
    height, width = map(max, at_least, maps.largest())
    maps = maps.sized(height, width)
    features = features_of(levels).union(features)
    layers = {
        name: maps.layer(name).reshape(-1)
        for kind in KINDS
        if not kind.is_optional or features.intersection(kind.features)
        for name in kind.layers
    }
    mdp = assembled(
        levels,
        maps.walls,
        layers,
        features,
        start=maps.start + torch.arange(len(maps)) * height * width,
        shutdown=maps.shutdown,
        free_bumps=maps.free_bumps,
    )
    _check_free_to_move(mdp)
    return mdp.to(device)


def assembled(
    levels: Sequence[Level],
    wall: Tensor,
    layers: Layers,
    features: frozenset[str],
    *,
    start: Tensor,
    shutdown: Tensor,
    free_bumps: Tensor,
) -> Mdp:
    """Return the level set with these walls [B, H, W] and the other tensors of `Mdp`."""
    if not isinstance(levels, LazyLevels):
        levels = tuple(levels)
    goto = _goto(wall)
    for kind in kinds_in(layers):
        if kind.is_on(layers).any():
            goto = kind.redirect(goto, layers, wall.shape)
    return Mdp(
        levels=levels,
        height=wall.shape[1],
        width=wall.shape[2],
        goto=goto.reshape(-1),
        object_bit=_bits(layers, len(wall)),
        layers=layers,
        outcomes=outcomes_of(layers, features),
        wall=wall.reshape(-1),
        start=start,
        shutdown=shutdown,
        free_bumps=free_bumps,
        features=features,
        any_free_bumps=bool(free_bumps.any()),
    )


def _bits(layers: Layers, num_levels: int) -> Tensor:
    """Return the bit of the object on each spot [S]; bits follow the kinds, and reading order within a kind."""
    bit = before = torch.zeros(num_levels, 1, dtype=torch.int64)
    for kind in kinds_in(layers):
        if kind.is_taken:
            is_here = kind.is_on(layers).reshape(num_levels, -1)
            bit = bit + (1 << (before + is_here.cumsum(-1) - 1).clamp_min(0)) * is_here
            before = before + is_here.sum(-1, keepdim=True)
    return bit.reshape(-1)


def _goto(wall: Tensor) -> Tensor:
    """Return the spot after each action from each spot [S, 4], from the walls [B, H, W]."""
    num_levels, height, width = wall.shape
    spot = torch.arange(wall.numel()).reshape(wall.shape)
    # Everything outside a map is wall: add a frame of wall.
    framed = torch.ones(num_levels, height + 2, width + 2, dtype=torch.bool)
    framed[:, 1:-1, 1:-1] = wall
    moves = []
    for down, right in STEPS:
        blocked = framed[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]
        moves.append(torch.where(blocked, spot, spot + down * width + right))
    return torch.stack(moves, dim=-1).reshape(-1, NUM_ACTIONS)


def _check_free_to_move(mdp: Mdp) -> None:
    """Refuse a level in which the agent cannot leave its start."""
    stuck = mdp.stays()[mdp.start]
    if stuck.any():
        level = mdp.levels[int(stuck.nonzero()[0])]
        row, column = level.start
        raise LevelError(
            f"{level.place}: the agent in map row {row + 1}, column {column + 1} is walled in; "
            "expected a free cell beside it"
        )
