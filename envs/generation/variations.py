"""Random variations of levels, for training on unlimited levels from a few designs.

A *design* is a level whose variations keep its objects. Coin values, times, walls, the places of objects, the start and
the place on a larger map can change, and coins can be added. A variation is returned only if it has as many
trajectory-lengths as its design, and at least as many with a coin: usefulness and neutrality are defined on it as on
the design.

What lotteries and doors do stays as it is, except that `Variations.scale` also multiplies the coins of lotteries. Each
draft depends only on a seed and its number, so the stream of variations resumes from a number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from drest_torch.envs.counter_rng import mix
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.changes import (
    PREFIX,
    VariationDraws,
    compiled_maps,
    from_cell,
    from_state,
    placed,
    scaled,
    with_coins,
    with_layers,
    with_moved_objects,
    with_walls,
)
from drest_torch.envs.levels import MAX_OBJECTS, MAX_SIDE, MAX_TIME, LazyLevels, Level, LevelError
from drest_torch.envs.levels.lazy import maps_of
from drest_torch.envs.levels.maps import Maps, joined
from drest_torch.envs.objects import kinds_in
from drest_torch.limits import limited

STARTS = CELL, STATE = ("cell", "state")
"""Kinds of other starts: another free cell, or a state that random play reaches."""
MOST_DRAFTS = 16
"""The maximum number of drafts of a variation; if all are refused, the design itself takes its place."""
LARGEST_VALUE = 1_000_000
"""The largest coin value of a variation."""


@dataclass
class Variations:
    """The kinds of variations and their extent; each number is sampled uniformly, and null switches a kind off."""

    values: list[int] | None = limited(at_least=1, at_most=LARGEST_VALUE, default=None)
    """[lowest,highest] value of each coin, drawn anew; lotteries stay as they are."""
    scale: int | None = limited(at_least=2, at_most=1000, default=None)
    """Largest whole factor of all coins of a level, which leaves all shares of m(l) unchanged."""
    coins: int | None = limited(at_least=1, at_most=MAX_OBJECTS, default=None)
    """Largest number of coins that are added on free cells within reach, with values from `values`, or as others."""
    delay: int | None = limited(at_least=1, at_most=MAX_TIME, default=None)
    """Most ticks that are added to the delay of each button."""
    shutdown: int | None = limited(at_least=1, at_most=MAX_TIME, default=None)
    """Most ticks that are added to the shutdown time."""
    size: int | None = limited(at_least=2, at_most=MAX_SIDE, default=None)
    """Side of the square in which smaller maps get a random place and size; each added side is floor or wall. The
    network reads maps of at least this size."""
    walls: int | None = limited(at_least=1, at_most=MAX_SIDE**2, default=None)
    """Most cells that change between floor and wall. The start, objects and cells beside doors stay."""
    moves: int | None = limited(at_least=1, at_most=MAX_OBJECTS, default=None)
    """Most coins, buttons and lotteries that move to other free cells within reach."""
    start: str | None = limited(choices=STARTS, default=None)
    """Another start: cell (another free cell, with all objects and the whole time), or state (a state of random play,
    without the objects that it took and with the rest of the time)."""

    def extents(self) -> dict[str, Any]:
        """Return the extent of each kind of variation that is switched on."""
        extents = {}
        for entry in fields(self):
            extent = getattr(self, entry.name)
            if extent is not None:
                extents[entry.name] = extent
        return extents

    def check(self) -> None:
        """Refuse a range of values that is not one."""
        if self.values is None:
            return
        if len(self.values) != 2 or self.values[0] > self.values[1]:
            raise LevelError(f"levels.vary.values={self.values}; expected the lowest and the highest value, as [1,9]")


def vary_levels(
    levels: Sequence[Level],
    variations: Variations,
    *,
    seed: int,
    first: int = 0,
    without: Collection[str] = frozenset(),
) -> LazyLevels:
    """Return a variation of each level; they have the numbers ``first``, ``first + 1``, … of the seed's stream.

    Variations whose canonical key is in ``without`` are refused, so that training levels are never held-out levels.
    """
    variations.check()
    designs = maps_of(levels)
    least = variations.size or 1
    height, width = designs.largest()
    designs = designs.sized(max(height, least), max(width, least))
    refusals = _Refusals(designs, without)
    number = first + torch.arange(len(designs))
    of_seed = mix(torch.tensor(seed), torch.tensor(0))
    key = mix(of_seed, number)
    waiting = torch.arange(len(designs))
    parts = list[Maps]()
    places = list[Tensor]()
    for attempt in range(MOST_DRAFTS):
        of_attempt = mix(key[waiting], torch.tensor(attempt))
        drafts = draft(designs.at(waiting), variations, of_attempt)
        accepted = refusals.accept(drafts, waiting)
        parts.append(drafts.at(_indices(accepted)))
        places.append(waiting[accepted])
        waiting = waiting[~accepted]
        if len(waiting) == 0:
            break
    parts.append(designs.at(waiting))
    places.append(waiting)
    order = torch.cat(places).argsort()
    return LazyLevels(joined(parts).at(order), number, PREFIX)


def draft(designs: Maps, variations: Variations, key: Tensor) -> Maps:
    """Return a draft of a variation of each design, from the keys [n] of their random numbers."""
    draws = VariationDraws(key)
    drafts = designs
    if variations.size is not None:
        drafts = placed(drafts, variations.size, draws)
    if variations.shutdown is not None:
        later = draws.up_to("shutdown", variations.shutdown)
        drafts = replace(drafts, shutdown=drafts.shutdown + later)
    if variations.delay is not None:
        delay = drafts.layers["delay"]
        later = draws.within("delay", (0, variations.delay), delay)
        drafts = with_layers(drafts, delay=delay + later * (delay > 0))
    if variations.values is not None:
        coin = drafts.layers["coin"]
        values = draws.within("values", variations.values, coin)
        drafts = with_layers(drafts, coin=values * (coin > 0).to(coin))
    if variations.walls is not None:
        drafts = with_walls(drafts, variations.walls, draws)
    if variations.moves is not None:
        drafts = with_moved_objects(drafts, variations.moves, draws)
    if variations.start == CELL:
        drafts = from_cell(drafts, draws)
    if variations.start == STATE:
        drafts = from_state(drafts, draws)
    if variations.coins is not None:
        drafts = with_coins(drafts, variations.coins, variations.values, draws)
    if variations.scale is not None:
        factor = 1 + draws.up_to("scale", variations.scale - 1)
        drafts = scaled(drafts, factor)
    return drafts


# ------------------------------------------------------------------------------------------- refusals


class _Refusals:
    """The conditions on drafts of variations of these designs."""

    def __init__(self, designs: Maps, without: Collection[str]) -> None:
        self._without = without
        self._lengths, self._with_coin = _choices(designs)

    def accept(self, drafts: Maps, design: Tensor) -> Tensor:
        """Return whether each draft [n] is a variation of its ``design`` [n]."""
        accepted = (_longest(drafts) <= MAX_TIME) & (_num_objects(drafts) <= MAX_OBJECTS)
        accepted = self._where(accepted, drafts, self._has_choice, design)
        return self._where(accepted, drafts, self._is_allowed, design)

    def _where(self, accepted: Tensor, drafts: Maps, condition: Condition, design: Tensor) -> Tensor:
        """Return whether each draft [n] is accepted and meets a further condition."""
        index = _indices(accepted)
        if len(index) == 0:
            return accepted
        meets = condition(drafts.at(index), design[index])
        return accepted.index_put((index,), meets)

    def _has_choice(self, drafts: Maps, design: Tensor) -> Tensor:
        """Return whether each draft has the lengths of its design, and as many of them with a coin."""
        lengths, with_coin = _choices(drafts)
        return (lengths == self._lengths[design]) & (with_coin >= self._with_coin[design])

    def _is_allowed(self, drafts: Maps, design: Tensor) -> Tensor:
        """Return whether each draft is none of the held-out levels."""
        if not self._without:
            return torch.ones_like(design, dtype=torch.bool)
        keys = LazyLevels(drafts, design, PREFIX).keys
        allowed = [key not in self._without for key in keys]
        return torch.tensor(allowed)


Condition = Callable[[Maps, Tensor], Tensor]
"""A condition on drafts, given the indices of their designs."""


def _choices(maps: Maps) -> tuple[Tensor, Tensor]:
    """Return the number of lengths of each level [n], and of lengths with a coin."""
    optima = solve(compiled_maps(maps), allow_barren=True)
    with_coin = optima.best_return > 0
    return optima.num_lengths, with_coin.sum(-1)


def _num_objects(maps: Maps) -> Tensor:
    """Return the number of coins, buttons and lotteries [n]."""
    number = torch.zeros_like(maps.start)
    for kind in kinds_in(maps.layers):
        if kind.is_taken:
            number = number + kind.is_on(maps.layers).sum((1, 2))
    return number


def _longest(maps: Maps) -> Tensor:
    """Return a bound on the trajectory-lengths [n]."""
    added = torch.zeros_like(maps.layers["delay"])
    for name, values in maps.layers.items():
        if name.endswith("delay"):
            added = added.maximum(values)
    return maps.shutdown + added.sum((1, 2))


def _indices(mask: Tensor) -> Tensor:
    """Return the indices where a mask [n] is true."""
    return mask.nonzero().squeeze(-1)
