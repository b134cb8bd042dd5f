"""Random variations of levels, for training on unlimited levels from a few designs.

A *design* is a level whose variations keep its walls and its objects. Coin values, times, the start and the place on a
larger map can change, and coins can be added. A variation is returned only if it has as many trajectory-lengths as its
design, and at least as many with a coin: usefulness and neutrality are defined on it as on the design.

Lotteries and doors stay as they are, except that `Variations.scale` also multiplies the coins of lotteries. Each draft
depends only on a seed and its number, so the stream of variations resumes from a number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from drest_torch.envs.actions import NUM_ACTIONS, STEPS
from drest_torch.envs.counter_rng import mix, uniform
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.levels import MAX_OBJECTS, MAX_SIDE, MAX_TIME, LazyLevels, Level, LevelError
from drest_torch.envs.levels.lazy import maps_of
from drest_torch.envs.levels.maps import LAYERS, Maps, joined
from drest_torch.envs.objects import kinds_in
from drest_torch.limits import limited

STARTS = CELL, STATE = ("cell", "state")
"""Kinds of other starts: another free cell, or a state that random play reaches."""
MOST_DRAFTS = 16
"""The maximum number of drafts of a variation; if all are refused, the design itself takes its place."""
LARGEST_VALUE = 1_000_000
"""The largest coin value of a variation."""
_PURPOSES = (
    *("height", "width", "top", "left", "floor", "shutdown", "delay", "values", "start", "ticks", "actions", "luck"),
    *("coins", "cells", "new_values", "scale"),
)
"""The names of the random numbers, in the order of their keys."""


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
    start: str | None = limited(choices=STARTS, default=None)
    """Another start: cell (another free cell, with all objects and the whole time), or state (a state of random play,
    without the objects that it took and with the rest of the time)."""

    def __post_init__(self) -> None:
        if self.values is not None and (len(self.values) != 2 or self.values[0] > self.values[1]):
            raise LevelError(f"levels.vary.values={self.values}; expected the lowest and the highest value, as [1,9]")

    def extents(self) -> dict[str, Any]:
        """Return the extent of each kind of variation that is switched on."""
        extents = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {kind: extent for kind, extent in extents.items() if extent is not None}


class _Draws:
    """The random numbers of n drafts, with one key [n] for each draft and purpose."""

    def __init__(self, key: Tensor) -> None:
        self._key = key

    def real(self, purpose: str, *shape: int) -> Tensor:
        """Sample numbers in [0, 1) of shape [n, *shape]."""
        key = mix(self._key, torch.tensor(_PURPOSES.index(purpose)))
        counter = torch.arange(math.prod(shape)).reshape(shape)
        return uniform(key.reshape(-1, *[1] * len(shape)), counter)

    def up_to(self, purpose: str, most: Tensor | int, *shape: int) -> Tensor:
        """Sample whole numbers from 0 to ``most``, which broadcasts to [n, *shape]."""
        return (self.real(purpose, *shape) * (most + 1)).long()


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
    designs = maps_of(levels)
    side = variations.size or 1
    height, width = designs.largest()
    designs = designs.sized(max(height, side), max(width, side))
    optima = solve(_compiled(designs), allow_barren=True)
    number = torch.arange(first, first + len(designs))
    key = mix(mix(torch.tensor(seed), torch.tensor(0)), number)
    waiting = torch.arange(len(designs))
    parts, places = list[Maps](), list[Tensor]()
    for attempt in range(MOST_DRAFTS):
        drafts = draft(designs.at(waiting), variations, mix(key[waiting], torch.tensor(attempt)))
        accepted = _has_choice(drafts, optima, waiting)
        accepted &= _is_allowed(drafts, accepted, without)
        parts.append(drafts.at(accepted.nonzero().squeeze(-1)))
        places.append(waiting[accepted])
        waiting = waiting[~accepted]
        if len(waiting) == 0:
            break
    parts.append(designs.at(waiting))
    places.append(waiting)
    order = torch.cat(places).argsort()
    return LazyLevels(joined(parts).at(order), number, "varied-")


def draft(designs: Maps, variations: Variations, key: Tensor) -> Maps:
    """Return a draft of a variation of each design, from the keys [n] of their random numbers."""
    draws, drafts = _Draws(key), designs
    if variations.size is not None:
        drafts = _placed(drafts, variations.size, draws)
    if variations.shutdown is not None:
        drafts = replace(drafts, shutdown=drafts.shutdown + draws.up_to("shutdown", variations.shutdown))
    if variations.delay is not None:
        drafts = _delayed(drafts, variations.delay, draws)
    if variations.values is not None:
        coin = drafts.layers["coin"]
        values = _coin_values("values", variations.values, coin, draws)
        drafts = _with_layers(drafts, coin=torch.where(coin > 0, values, coin))
    if variations.start == CELL:
        drafts = _from_cell(drafts, draws)
    if variations.start == STATE:
        drafts = _from_state(drafts, draws)
    if variations.coins is not None:
        drafts = _with_coins(drafts, variations, draws)
    if variations.scale is not None:
        drafts = _scaled(drafts, 1 + draws.up_to("scale", variations.scale - 1))
    return drafts


# ------------------------------------------------------------------------------------------- refusals


def _has_choice(drafts: Maps, optima: Optima, design: Tensor) -> Tensor:
    """Return whether each draft [n] is a level with the lengths and the coins of its ``design`` [n]."""
    is_level = (_longest(drafts) <= MAX_TIME) & (_num_objects(drafts) <= MAX_OBJECTS)
    index = is_level.nonzero().squeeze(-1)
    if len(index) == 0:
        return is_level
    varied = solve(_compiled(drafts.at(index)), allow_barren=True)
    design = design[index]
    has_choice = varied.num_lengths == optima.num_lengths[design]
    has_choice &= _with_coin(varied) >= _with_coin(optima)[design]
    return is_level.index_put((index,), has_choice)


def _is_allowed(drafts: Maps, where: Tensor, without: Collection[str]) -> Tensor:
    """Return False for drafts among ``where`` [n] with a key in ``without``; True for the others."""
    allowed = torch.ones_like(where)
    if without:
        index = where.nonzero().squeeze(-1)
        keys = LazyLevels(drafts.at(index), index, "").keys if len(index) else []
        allowed[index] = torch.tensor([key not in without for key in keys], dtype=torch.bool)
    return allowed


def _with_coin(optima: Optima) -> Tensor:
    """Return the number of lengths with a coin [n]."""
    return (optima.best_return > 0).sum(-1)


def _num_objects(maps: Maps) -> Tensor:
    """Return the number of coins, buttons and lotteries [n]."""
    taken = [kind.is_on(maps.layers) for kind in kinds_in(maps.layers) if kind.is_taken]
    return torch.stack(taken).sum((0, 2, 3))


def _longest(maps: Maps) -> Tensor:
    """Return a bound on the trajectory-lengths [n]."""
    names = ["delay", *(name for name in maps.layers if name.startswith("lottery") and name.endswith("delay"))]
    added = torch.stack([maps.layers[name].clamp_min(0) for name in names])
    return maps.shutdown + added.amax(0).sum((1, 2))


def _compiled(maps: Maps) -> Mdp:
    """Return the compiled level set, on maps of the size of the tensors."""
    _, rows, columns = maps.walls.shape
    return compile_levels(LazyLevels(maps, torch.arange(len(maps)), "varied-"), at_least=(rows, columns))


# ------------------------------------------------------------------------------------------- kinds of variations


def _with_layers(maps: Maps, **layers: Tensor) -> Maps:
    return replace(maps, layers={**maps.layers, **layers})


def _delayed(maps: Maps, most: int, draws: _Draws) -> Maps:
    """Return the levels with up to ``most`` further ticks of delay for each button."""
    delay = maps.layers["delay"]
    further = draws.up_to("delay", most, *delay.shape[1:])
    return _with_layers(maps, delay=delay + further * (delay > 0))


def _coin_values(purpose: str, bounds: Sequence[int], coin: Tensor, draws: _Draws) -> Tensor:
    """Sample a value for each cell [n, H, W]."""
    low, high = bounds
    return (low + draws.up_to(purpose, high - low, *coin.shape[1:])).to(coin)


def _scaled(maps: Maps, factor: Tensor) -> Maps:
    """Return the levels with all coins, on the map and in lotteries, multiplied by a factor [n]."""
    factor = factor.reshape(-1, 1, 1)
    names = ["coin", *(name for name in maps.layers if name.endswith(" coins"))]
    return replace(maps, layers={**maps.layers, **{name: maps.layers[name] * factor for name in names}})


def _placed(maps: Maps, side: int, draws: _Draws) -> Maps:
    """Return maps of a random size up to ``side``, with the design at a random place; added sides are floor or wall."""
    _, rows, columns = maps.walls.shape
    floor = draws.real("floor", 4) < 0.5
    height = maps.height + draws.up_to("height", (side - maps.height).clamp_min(0))
    width = maps.width + draws.up_to("width", (side - maps.width).clamp_min(0))
    top = draws.up_to("top", height - maps.height)
    left = draws.up_to("left", width - maps.width)
    above, below, row = _sides(torch.arange(rows), top, maps.height)
    before, after, column = _sides(torch.arange(columns), left, maps.width)
    vertical = _is_floor(above, below, height, floor[:, :2])
    horizontal = _is_floor(before, after, width, floor[:, 2:])
    is_floor = vertical.unsqueeze(2) & horizontal.unsqueeze(1)
    inside = ~(above | below).unsqueeze(2) & ~(before | after).unsqueeze(1)  # the design
    source = (row.unsqueeze(2) * columns + column.unsqueeze(1)).flatten(1)

    def moved(values: Tensor, outside: Tensor | float) -> Tensor:
        picked = values.flatten(1).gather(1, source).reshape(values.shape)
        return torch.where(inside, picked, torch.as_tensor(outside, dtype=values.dtype))

    start = (maps.start // columns + top) * columns + maps.start % columns + left
    return replace(
        maps,
        height=height,
        width=width,
        start=start,
        walls=moved(maps.walls, ~is_floor),
        layers={name: moved(values, LAYERS[name].nothing) for name, values in maps.layers.items()},
    )


def _sides(line: Tensor, first: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return masks of the lines before and after the design [n, L], and the design's line at each line."""
    place = line - first.unsqueeze(-1)
    before, after = place < 0, place >= count.unsqueeze(-1)
    return before, after, place.clamp(0, len(line) - 1)


def _is_floor(before: Tensor, after: Tensor, size: Tensor, floor: Tensor) -> Tensor:
    """Return the lines [n, L] that can be floor: those of the design, and of added sides that are ``floor`` [n, 2]."""
    within = torch.arange(before.shape[-1]) < size.unsqueeze(-1)
    design = ~(before | after)
    return within & (design | (before & floor[:, :1]) | (after & floor[:, 1:]))


def _from_cell(maps: Maps, draws: _Draws) -> Maps:
    """Return the levels with another start: an empty cell within reach, if there is one."""
    empty = _empty_cells(maps)
    preference = torch.where(empty, draws.real("start", *empty.shape[1:]), -1.0).flatten(1)
    start = torch.where(empty.flatten(1).any(-1), preference.argmax(-1), maps.start)
    return replace(maps, start=start)


def _from_state(maps: Maps, draws: _Draws) -> Maps:
    """Return the levels from a state of random play with time left; a door cannot be a start."""
    mdp = _compiled(maps)
    count, rows, columns = maps.walls.shape
    spot, time_left = mdp.start, mdp.shutdown
    taken = torch.zeros_like(spot)
    ticks = draws.up_to("ticks", maps.shutdown - 1)
    most = int(ticks.max())
    actions = draws.up_to("actions", NUM_ACTIONS - 1, most)
    luck = draws.real("luck", most)
    for tick in range(most):
        arrival = mdp.advance(spot, taken, actions[:, tick], luck[:, tick])
        after = mdp.time_after(time_left, arrival)
        plays = (tick < ticks) & (after > 0)
        spot = torch.where(plays, arrival.spot, spot)
        taken = torch.where(plays, arrival.taken, taken)
        time_left = torch.where(plays, after, time_left)
    start = spot - torch.arange(count) * rows * columns
    fixed = [kind.is_on(maps.layers).flatten(1) for kind in kinds_in(maps.layers) if not kind.is_taken]
    is_start = torch.ones_like(start, dtype=torch.bool)
    for is_fixed in fixed:
        is_start &= ~is_fixed.gather(1, start.unsqueeze(-1)).squeeze(-1)
    bit = mdp.object_bit.reshape(count, -1)
    gone = (bit & torch.where(is_start, taken, 0).unsqueeze(-1)) != 0
    return replace(
        maps,
        start=torch.where(is_start, start, maps.start),
        shutdown=torch.where(is_start, time_left, maps.shutdown),
        layers=_without(maps, gone.reshape(maps.walls.shape)),
    )


def _without(maps: Maps, gone: Tensor) -> dict[str, Tensor]:
    """Return the layers without the objects of the mask ``gone`` [n, H, W] that can be taken."""
    layers = dict(maps.layers)
    for kind in kinds_in(maps.layers):
        if not kind.is_taken:
            continue
        for name, layer in kind.layers.items():
            layers[name] = torch.where(gone, torch.as_tensor(layer.nothing, dtype=layer.dtype), layers[name])
    return layers


def _with_coins(maps: Maps, variations: Variations, draws: _Draws) -> Maps:
    """Return the levels with further coins on empty cells within reach."""
    assert variations.coins is not None
    coin, empty = maps.layers["coin"], _empty_cells(maps)
    noise = torch.where(empty, draws.real("cells", *empty.shape[1:]), 2.0).flatten(1)
    rank = noise.argsort(dim=-1, stable=True).argsort(dim=-1).reshape(empty.shape)
    count = draws.up_to("coins", variations.coins).reshape(-1, 1, 1)
    is_new = empty & (rank < count)
    if variations.values is not None:
        values = _coin_values("new_values", variations.values, coin, draws)
    else:
        values = _values_of_others(coin, draws)
    return _with_layers(maps, coin=torch.where(is_new, values, coin))


def _values_of_others(coin: Tensor, draws: _Draws) -> Tensor:
    """Sample the value of one of the level's coins for each cell [n, H, W]; 1 in a level without a coin."""
    values, order = coin.flatten(1).sort(dim=-1, descending=True)
    number = (coin > 0).sum((1, 2))
    index = draws.up_to("new_values", (number - 1).clamp_min(0).reshape(-1, 1), order.shape[1])
    picked = values.gather(1, index).reshape(coin.shape)
    return torch.where(picked > 0, picked, 1.0)


def _empty_cells(maps: Maps) -> Tensor:
    """Return a mask of the cells [n, H, W] within reach of the start, which is excluded, without an object."""
    empty = _within_reach(maps)
    for kind in kinds_in(maps.layers):
        empty = empty & ~kind.is_on(maps.layers)
    start = torch.zeros_like(empty).flatten(1).scatter_(1, maps.start.unsqueeze(-1), True)
    return empty & ~start.reshape(empty.shape)


def _within_reach(maps: Maps) -> Tensor:
    """Return a mask of the cells [n, H, W] that are connected with the start; doors count as open on all sides."""
    free = ~maps.walls
    reached = torch.zeros_like(free).flatten(1).scatter_(1, maps.start.unsqueeze(-1), True).reshape(free.shape)
    rows, columns = free.shape[1:]
    while True:
        framed = pad(reached, (1, 1, 1, 1))
        beside = [framed[:, 1 + down : 1 + down + rows, 1 + right : 1 + right + columns] for down, right in STEPS]
        more = (reached | torch.stack(beside).any(0)) & free
        if torch.equal(more, reached):
            return reached
        reached = more
