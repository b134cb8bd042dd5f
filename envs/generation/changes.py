"""Random changes of levels as tensors: coins, walls, places of objects, starts, and places on larger maps.

`drest_torch.envs.generation.variations` combines them. A draft depends only on its key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from drest_torch.envs.actions import NUM_ACTIONS, STEPS
from drest_torch.envs.counter_rng import mix, uniform
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.levels import MAX_SIDE, LazyLevels
from drest_torch.envs.levels.maps import LAYERS, Maps
from drest_torch.envs.objects import Layers, WorldObject, kinds_in

PREFIX = "varied-"
"""The beginning of the name of a variation, before its number."""
_PURPOSES = (
    *("height", "width", "top", "left", "floor_above", "floor_below", "floor_left", "floor_right"),
    *("shutdown", "delay", "values", "start", "ticks", "actions", "luck", "coins", "cells", "new_values", "scale"),
    *("walls", "wall_cells", "moves", "moved_objects", "new_cells"),
)
"""The names of the random numbers, in the order of their keys."""


class VariationDraws:
    """The random numbers of n drafts, with one key [n] for each draft and purpose."""

    def __init__(self, key: Tensor) -> None:
        self._key = key

    def real(self, purpose: str, *shape: int) -> Tensor:
        """Sample numbers in [0, 1) of shape [n, *shape]."""
        number = torch.tensor(_PURPOSES.index(purpose))
        key = mix(self._key, number)
        key = key.reshape(-1, *[1] * len(shape))
        counter = torch.arange(math.prod(shape))
        return uniform(key, counter.reshape(shape))

    def up_to(self, purpose: str, most: Tensor | int, *shape: int) -> Tensor:
        """Sample whole numbers from 0 to ``most``, which broadcasts to [n, *shape]."""
        number = self.real(purpose, *shape) * (most + 1)
        return number.long()

    def on_map(self, purpose: str, maps: Tensor) -> Tensor:
        """Sample a number in [0, 1) for each cell [n, H, W]; a larger map has the same numbers and further ones."""
        _, rows, columns = maps.shape
        numbers = self.real(purpose, rows, MAX_SIDE)
        return numbers[..., :columns]

    def within(self, purpose: str, bounds: Sequence[int], maps: Tensor) -> Tensor:
        """Sample a whole number within the bounds for each cell [n, H, W]."""
        low, high = bounds
        numbers = self.on_map(purpose, maps) * (high - low + 1)
        return low + numbers.long()


def compiled_maps(maps: Maps) -> Mdp:
    """Return the compiled level set, on maps of the size of the tensors."""
    _, rows, columns = maps.walls.shape
    number = torch.arange(len(maps))
    return compile_levels(LazyLevels(maps, number, PREFIX), at_least=(rows, columns))


# ------------------------------------------------------------------------------------------- coins


def with_layers(maps: Maps, **layers: Tensor) -> Maps:
    return replace(maps, layers={**maps.layers, **layers})


def scaled(maps: Maps, factor: Tensor) -> Maps:
    """Return the levels with all coins, on the map and in lotteries, multiplied by a factor [n]."""
    factor = factor.reshape(-1, 1, 1)
    layers = dict(maps.layers)
    for name, values in maps.layers.items():
        if name == "coin" or name.endswith(" coins"):
            layers[name] = values * factor
    return replace(maps, layers=layers)


def with_coins(maps: Maps, most: int, bounds: Sequence[int] | None, draws: VariationDraws) -> Maps:
    """Return the levels with up to ``most`` further coins, with values within the bounds or as of other coins."""
    coin = maps.layers["coin"]
    empty = _empty_cells(maps)
    order = _random_order(empty, "cells", draws)
    count = draws.up_to("coins", most)
    is_new = empty & (order < count.reshape(-1, 1, 1))
    values = _values_of_others(coin, draws)
    if bounds is not None:
        values = draws.within("new_values", bounds, coin)
    return with_layers(maps, coin=torch.where(is_new, values.to(coin), coin))


def _random_order(cells: Tensor, purpose: str, draws: VariationDraws) -> Tensor:
    """Return the rank of each cell [n, H, W] in a random order that begins with the cells of a mask."""
    noise = draws.on_map(purpose, cells)
    noise = noise.masked_fill(~cells, 2.0).flatten(1)
    order = noise.argsort(dim=-1, stable=True)
    return order.argsort(dim=-1).reshape(cells.shape)


def _values_of_others(coin: Tensor, draws: VariationDraws) -> Tensor:
    """Sample the value of one of the level's coins for each cell [n, H, W]; 1 in a level without a coin."""
    values = coin.flatten(1)
    values = values.sort(dim=-1, descending=True).values
    number = (values > 0).sum(-1, keepdim=True)
    index = draws.on_map("new_values", coin).flatten(1) * number
    picked = values.gather(1, index.long())
    picked = picked.masked_fill(picked == 0, 1.0)
    return picked.reshape(coin.shape)


def _empty_cells(maps: Maps) -> Tensor:
    """Return a mask of the cells [n, H, W] within reach of the start, which is excluded, without an object."""
    empty = _within_reach(maps) & ~_at_start(maps)
    for kind in kinds_in(maps.layers):
        empty &= ~kind.is_on(maps.layers)
    return empty


def _at_start(maps: Maps) -> Tensor:
    """Return a mask of the start [n, H, W]."""
    mask = torch.zeros_like(maps.walls).flatten(1)
    mask.scatter_(1, maps.start.unsqueeze(-1), True)
    return mask.reshape(maps.walls.shape)


def _within_reach(maps: Maps) -> Tensor:
    """Return a mask of the cells [n, H, W] that are connected with the start; doors count as open on all sides."""
    reached = _at_start(maps)
    while True:
        more = _with_neighbours(reached) & ~maps.walls
        if torch.equal(more, reached):
            return reached
        reached = more


# ------------------------------------------------------------------------------------------- walls and places


def with_walls(maps: Maps, most: int, draws: VariationDraws) -> Maps:
    """Return the levels with up to ``most`` cells changed between floor and wall.

    The start, cells with objects, and cells beside doors stay as they are. So does a level whose start would be walled
    in.
    """
    can_change = _inside(maps) & ~_at_start(maps)
    for kind in kinds_in(maps.layers):
        occupied = kind.is_on(maps.layers)
        can_change &= ~occupied
        if not kind.is_taken:
            can_change &= ~_with_neighbours(occupied)
    order = _random_order(can_change, "wall_cells", draws)
    count = draws.up_to("walls", most)
    changes = can_change & (order < count.reshape(-1, 1, 1))
    walls = maps.walls ^ changes
    around_start = _with_neighbours(_at_start(maps)) & ~walls
    can_leave = around_start.flatten(1).sum(-1) > 1
    return replace(maps, walls=torch.where(can_leave.reshape(-1, 1, 1), walls, maps.walls))


def with_moved_objects(maps: Maps, most: int, draws: VariationDraws) -> Maps:
    """Return the levels with up to ``most`` coins, buttons and lotteries on other free cells within reach."""
    taken = torch.zeros_like(maps.walls)
    for kind in kinds_in(maps.layers):
        if kind.is_taken:
            taken |= kind.is_on(maps.layers)
    empty = _empty_cells(maps)
    count = draws.up_to("moves", most)
    possible = torch.minimum(taken.flatten(1).sum(-1), empty.flatten(1).sum(-1))
    count = count.minimum(possible).unsqueeze(-1)
    old_order = _random_order(taken, "moved_objects", draws).flatten(1)
    new_order = _random_order(empty, "new_cells", draws).flatten(1)
    # Each object that moves changes places with an empty cell of the same rank.
    source = torch.arange(old_order.shape[1]).expand_as(old_order)
    source = torch.where(old_order < count, new_order.argsort(-1).gather(1, old_order), source)
    source = torch.where(new_order < count, old_order.argsort(-1).gather(1, new_order), source)
    layers = dict(maps.layers)
    for kind in kinds_in(maps.layers):
        if kind.is_taken:
            for name in kind.layers:
                values = maps.layers[name]
                layers[name] = values.flatten(1).gather(1, source).reshape(values.shape)
    return replace(maps, layers=layers)


def _inside(maps: Maps) -> Tensor:
    """Return a mask of the cells [n, H, W] of the levels, without the padding."""
    _, rows, columns = maps.walls.shape
    row = torch.arange(rows).reshape(1, -1, 1)
    column = torch.arange(columns).reshape(1, 1, -1)
    return (row < maps.height.reshape(-1, 1, 1)) & (column < maps.width.reshape(-1, 1, 1))


def _with_neighbours(cells: Tensor) -> Tensor:
    """Return a mask of cells [n, H, W] and their neighbours in the four directions."""
    _, rows, columns = cells.shape
    framed = pad(cells, (1, 1, 1, 1))
    result = cells
    for down, right in STEPS:
        top, left = 1 + down, 1 + right
        result = result | framed[:, top : top + rows, left : left + columns]
    return result


# ------------------------------------------------------------------------------------------- starts


def from_cell(maps: Maps, draws: VariationDraws) -> Maps:
    """Return the levels with another start: an empty cell within reach, if there is one."""
    empty = _empty_cells(maps)
    order = _random_order(empty, "start", draws)
    cell = order.flatten(1).argmin(-1)
    has_other = empty.flatten(1).any(-1)
    return replace(maps, start=torch.where(has_other, cell, maps.start))


def from_state(maps: Maps, draws: VariationDraws) -> Maps:
    """Return the levels from a state of random play with time left; a door cannot be a start."""
    mdp = compiled_maps(maps)
    spot, taken, time_left = _random_state(mdp, draws)
    cell = spot - mdp.start + maps.start
    is_start = torch.ones_like(cell, dtype=torch.bool)
    for kind in kinds_in(maps.layers):
        if not kind.is_taken:
            is_start &= ~kind.is_on(maps.layers).reshape(-1)[spot]
    bit = mdp.object_bit.reshape(len(maps), -1)
    gone = (bit & (taken * is_start).unsqueeze(-1)) != 0
    layers = dict(maps.layers)
    for kind in kinds_in(maps.layers):
        if kind.is_taken:
            layers |= _without(gone.reshape(maps.walls.shape), kind, layers)
    return replace(
        maps,
        start=torch.where(is_start, cell, maps.start),
        shutdown=torch.where(is_start, time_left, maps.shutdown),
        layers=layers,
    )


def _random_state(mdp: Mdp, draws: VariationDraws) -> tuple[Tensor, Tensor, Tensor]:
    """Return the spot, the taken objects and the time left after some random actions on each level [n]."""
    spot, time_left = mdp.start, mdp.shutdown
    taken = torch.zeros_like(spot)
    ticks = draws.up_to("ticks", mdp.shutdown - 1)
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
    return spot, taken, time_left


def _without(gone: Tensor, kind: type[WorldObject], layers: Layers) -> dict[str, Tensor]:
    """Return the layers of a kind without the objects on the cells of a mask [n, H, W]."""
    left = {}
    for name, layer in kind.layers.items():
        left[name] = layers[name].masked_fill(gone, layer.nothing)
    return left


# ------------------------------------------------------------------------------------------- places on larger maps


def placed(maps: Maps, side: int, draws: VariationDraws) -> Maps:
    """Return maps of a random size up to ``side``, with the design at a random place; added sides are floor or wall."""
    _, rows, columns = maps.walls.shape
    vertical = _Sides.sample(rows, side, maps.height, ("height", "top", "floor_above", "floor_below"), draws)
    horizontal = _Sides.sample(columns, side, maps.width, ("width", "left", "floor_left", "floor_right"), draws)
    inside = vertical.inside.unsqueeze(2) & horizontal.inside.unsqueeze(1)
    is_floor = vertical.is_floor.unsqueeze(2) & horizontal.is_floor.unsqueeze(1)
    source = vertical.source.unsqueeze(2) * columns + horizontal.source.unsqueeze(1)
    source = source.flatten(1)

    def moved(values: Tensor, nothing: float) -> Tensor:
        picked = values.flatten(1).gather(1, source)
        picked = picked.reshape(values.shape)
        return picked.masked_fill(~inside, nothing)

    layers = {}
    for name, values in maps.layers.items():
        layers[name] = moved(values, LAYERS[name].nothing)
    row = maps.start // columns + vertical.before
    column = maps.start % columns + horizontal.before
    return replace(
        maps,
        height=vertical.size,
        width=horizontal.size,
        start=row * columns + column,
        walls=torch.where(inside, moved(maps.walls, True), ~is_floor),
        layers=layers,
    )


@dataclass(frozen=True)
class _Sides:
    """The rows or the columns of n enlarged maps, on maps with L lines."""

    size: Tensor
    """[n] the number of rows or columns."""
    before: Tensor
    """[n] the number of lines before the design."""
    inside: Tensor
    """[n, L] True for the lines of the design."""
    is_floor: Tensor
    """[n, L] True for lines that can have floor: those of the design, and of an added side of floor."""
    source: Tensor
    """[n, L] the design's line at each line; undefined outside the design."""

    @classmethod
    def sample(cls, lines: int, side: int, count: Tensor, purposes: Sequence[str], draws: VariationDraws) -> _Sides:
        """Sample the sides of designs with ``count`` [n] lines, on maps of up to ``side`` lines."""
        of_size, of_place, of_floor_before, of_floor_after = purposes
        size = count + draws.up_to(of_size, (side - count).clamp_min(0))
        before = draws.up_to(of_place, size - count)
        place = torch.arange(lines) - before.unsqueeze(-1)
        is_before = place < 0
        is_after = place >= count.unsqueeze(-1)
        beyond = torch.arange(lines) >= size.unsqueeze(-1)
        wall_before = is_before & (draws.real(of_floor_before, 1) < 0.5)
        wall_after = is_after & (draws.real(of_floor_after, 1) < 0.5)
        return cls(
            size=size,
            before=before,
            inside=~is_before & ~is_after,
            is_floor=~(wall_before | wall_after | beyond),
            source=place.clamp(0, lines - 1),
        )
