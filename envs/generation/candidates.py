"""Drafts of levels, many at once as tensors: drawn, made ready for an exact search, and turned into levels.

What a draft is follows from the seed and its own number alone, whatever else is drawn beside it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from envs import counter_rng as streams
from envs.dynamics.mdp import NUM_ACTIONS, STEPS, Mdp, compile_levels
from envs.generation.config import MAX_BUTTONS, PER_CENT, THINNED, WALL_SHAPES, GeneratorConfig
from envs.levels import Button, Coin, Level


class Drafts(NamedTuple):
    """n drafts on maps of S cells, those of the largest map. Cells are counted row by row."""

    number: Tensor
    """[n] which draft it is."""
    height: Tensor
    """[n]"""
    width: Tensor
    """[n]"""
    shutdown: Tensor
    """[n]"""
    start: Tensor
    """[n] the agent's cell."""
    coins: Tensor
    """[n, S] the value of the coin on each cell, 0 for none."""
    delay: Tensor
    """[n, S] the delay of the button on each cell, 0 for none."""
    chance: Tensor
    """[n, S] the chance of that button in hundredths."""
    walls: Tensor
    """[n, S] whether the cell is wall, or outside of the map."""
    luck: Tensor
    """[n, len(THINNED)] a number from [0, 1) for each filter that may have weights."""

    def to(self, device: torch.device | str) -> Drafts:
        return Drafts(*(values.to(device) for values in self))

    def where(self, chosen: Tensor) -> Drafts:
        """The chosen drafts of [n]."""
        index = chosen.nonzero().squeeze(-1)
        return Drafts(*(values.index_select(0, index) for values in self))


# ------------------------------------------------------------------------------------------- drawn


class _Draws:
    """The random numbers of each draft.

    The first of them are those of the first distribution there was, in its order, so that its levels stay what
    they were. For whatever came later each name, counted on from there, gives a key of its own.
    """

    LATER = (
        *(
            "height",
            "width",
            "buttons",
            "delay",
            "chance",
            "wall_share",
            "wall_shape",
            "wall_length",
            "pieces",
            "corner",
        ),
        *THINNED,
    )

    def __init__(self, config: GeneratorConfig, seed: int, number: Tensor) -> None:
        self._config = config
        self._key = streams.mix(streams.mix(torch.tensor(seed), torch.tensor(0)), number).unsqueeze(-1)
        cells = config.map_cells
        self._first = iter(torch.arange(4 + 2 * cells).split((1, 1, 1, 1, cells, cells)))
        self._used = 4 + 2 * cells

    def first(self, name: str) -> Tensor:
        """Whole numbers from the range of this name, by the next of the first draws."""
        return self._from_range(name, self._key, next(self._first))

    def bits(self) -> Tensor:
        """[n, S] random bits for each cell, by the next of the first draws."""
        return streams.mix(self._key, next(self._first))

    def later(self, name: str, *shape: int) -> Tensor:
        """[n, *shape] whole numbers from the range of this name."""
        return self._from_range(name, self._key_of(name, len(shape)), _counters(shape))

    def real(self, name: str, *shape: int) -> Tensor:
        """[n, *shape] numbers from [0, 1)."""
        return streams.uniform(self._key_of(name, len(shape)), _counters(shape))

    def _key_of(self, name: str, dims: int) -> Tensor:
        key = streams.mix(self._key, torch.tensor(self._used + self.LATER.index(name)))
        return key.reshape(-1, *[1] * dims)

    def _from_range(self, name: str, key: Tensor, counter: Tensor) -> Tensor:
        low, high = getattr(self._config, name)
        weights = self._config.weights_of(name)
        if weights is None:
            return low + streams.integer(key, counter, high - low + 1)
        # Each whole number has a part of [0, 1) of the size of its weight; one of weight 0 has none.
        ends = torch.tensor(weights, dtype=torch.float64).cumsum(0)
        last = max(index for index, weight in enumerate(weights) if weight > 0)
        index = torch.searchsorted(ends / ends[-1], streams.uniform(key, counter), right=True)
        return low + index.clamp_max(last)


def _counters(shape: tuple[int, ...]) -> Tensor:
    return torch.arange(math.prod(shape)).reshape(shape)


def draw(config: GeneratorConfig, seed: int, number: Tensor) -> Drafts:
    """The drafts of the given numbers [n]."""
    draws = _Draws(config, seed, number)
    cells = config.map_cells
    shutdown, first_delay, coins, walls, value = map(
        draws.first, ("shutdown", "delay", "coins", "walls", "coin_values")
    )
    # The order of random numbers is a random permutation. Read as the rank of each cell, it hands the cells out:
    # the first to the agent, the next to the buttons, the next to the coins, and so on.
    rank = draws.bits().argsort(dim=-1, stable=True)
    height, width = draws.later("height", 1), draws.later("width", 1)
    cell = torch.arange(cells)
    inside = (cell // config.width[1] < height) & (cell % config.width[1] < width)
    if config.height[0] * config.width[0] < cells:  # cells outside of the map come last
        rank = _rank(torch.where(inside, rank, cells))
    buttons = draws.later("buttons", 1)
    is_button = (rank >= 1) & (rank < 1 + buttons)
    which = (rank - 1).clamp(0, MAX_BUTTONS - 1)
    delay = torch.cat((first_delay, draws.later("delay", MAX_BUTTONS - 1)), -1)
    lowest, highest = (round(bound * PER_CENT) for bound in config.chance)
    chance = lowest + (draws.real("chance", MAX_BUTTONS) * (highest - lowest + 1)).long()
    if config.wall_share is not None:
        low, high = config.wall_share
        walls = ((low + (high - low) * draws.real("wall_share", 1)) * (height * width)).long()
    objects = 1 + buttons + coins
    wall = (rank >= objects) & (rank < objects + walls)
    if config.wall_shape != "scattered":
        wall = _shaped(config, draws, wall, walls, rank.masked_fill(rank < objects, 2 * cells), height, width)
    return Drafts(
        number=number,
        height=height.squeeze(-1),
        width=width.squeeze(-1),
        shutdown=shutdown.squeeze(-1),
        start=(rank == 0).int().argmax(-1),
        coins=value * ((rank >= 1 + buttons) & (rank < objects)),
        delay=delay.gather(-1, which) * is_button,
        chance=chance.gather(-1, which),
        walls=wall | ~inside,
        luck=torch.cat([draws.real(name, 1) for name in THINNED], -1),
    )


def _rank(values: Tensor) -> Tensor:
    """[n, S] how many values of the row come before each."""
    return values.argsort(dim=-1, stable=True).argsort(dim=-1)


def _shaped(
    config: GeneratorConfig,
    draws: _Draws,
    scattered: Tensor,
    walls: Tensor,
    rank: Tensor,
    height: Tensor,
    width: Tensor,
) -> Tensor:
    """[n, S] as many walls in lines or in blocks, or scattered as they are, as the configuration says.

    Cells become wall piece by piece, and within a piece row by row or column by column, from any of its corners;
    behind all pieces come the other cells in their random order, and last those with an object (of which ``rank``
    is larger than the number of cells).
    """
    rows, columns, cells = config.height[1], config.width[1], config.map_cells
    pieces = max(1, config.most_walls(cells))
    shape = (draws.real("wall_shape", 1) * 3).long()  # 0: scattered, 1: lines, 2: blocks
    if config.wall_shape != "mixed":
        shape = torch.full_like(shape, WALL_SHAPES.index(config.wall_shape))
    stands, down, right = draws.real("pieces", 3, pieces).unbind(1)  # each [n, pieces]
    tall, wide = draws.later("wall_length", 2, pieces).unbind(1)
    tall = tall.masked_fill((shape == 1) & (stands < 0.5), 1).minimum(height)
    wide = wide.masked_fill((shape == 1) & (stands >= 0.5), 1).minimum(width)
    top, left = (down * (height - tall + 1)).long(), (right * (width - wide + 1)).long()
    row, column = torch.arange(rows).reshape(-1, 1, 1), torch.arange(columns).reshape(-1, 1, 1)
    in_row = (row >= top) & (row < top + tall)  # [rows, n, pieces]
    in_column = (column >= left) & (column < left + wide)
    covered = (in_row.unsqueeze(1) & in_column).reshape(cells, -1, pieces).transpose(0, 1)  # [n, S, pieces]
    first_piece = covered.int().argmax(-1)
    upwards, leftwards, by_columns = (draws.real("corner", 3) < 0.5).unsqueeze(-1).unbind(1)  # each [n, 1]
    row, column = torch.arange(cells) // columns, torch.arange(cells) % columns
    row, column = torch.where(upwards, rows - 1 - row, row), torch.where(leftwards, columns - 1 - column, column)
    within = torch.where(by_columns, column * rows + row, row * columns + column)
    order = torch.where(covered.any(-1), first_piece * cells + within, pieces * cells + rank)
    order = torch.where(rank < cells, order, (pieces + 1) * cells + rank)
    return torch.where(shape == 0, scattered, _rank(order) < walls)


# ------------------------------------------------------------------------------------------- searched


def walled_in(drafts: Drafts, config: GeneratorConfig) -> Tensor:
    """[n] whether the agent has wall on all four sides, in which case `compile_levels` refuses the level."""
    rows, columns = config.height[1], config.width[1]
    framed = pad(drafts.walls.reshape(-1, rows, columns), (1, 1, 1, 1), value=True)
    row, column = drafts.start // columns, drafts.start % columns
    draft = torch.arange(len(row))
    return torch.stack([framed[draft, row + 1 + down, column + 1 + right] for down, right in STEPS]).all(0)


def compiled(drafts: Drafts, config: GeneratorConfig) -> Mdp:
    """The drafts as `compile_levels` makes a level set of them, which goes level by level; without the levels."""
    count, cells = drafts.walls.shape
    first_spot = (torch.arange(count) * cells).unsqueeze(-1)
    ways = _open_ways(config.height[1], config.width[1]).to(drafts.walls.device)
    blocked = drafts.walls.index_select(1, ways).reshape(count, cells, NUM_ACTIONS)
    goto = torch.where(blocked, torch.arange(cells).unsqueeze(-1), ways.reshape(cells, NUM_ACTIONS))
    is_coin, is_button = drafts.coins > 0, drafts.delay > 0
    bit = torch.where(is_coin, is_coin.cumsum(-1), is_coin.sum(-1, keepdim=True) + is_button.cumsum(-1)) - 1
    chance = torch.where(is_button, drafts.chance.double() / PER_CENT, 1.0)
    return Mdp(
        levels=(),
        height=config.height[1],
        width=config.width[1],
        goto=(goto + first_spot.unsqueeze(-1)).reshape(-1),
        found=((1 << bit.clamp_min(0)) * (is_coin | is_button)).reshape(-1),
        coin=drafts.coins.double().reshape(-1),
        delay=drafts.delay.reshape(-1),
        chance=chance.reshape(-1),
        wall=drafts.walls.reshape(-1),
        start=drafts.start + first_spot.squeeze(-1),
        shutdown=drafts.shutdown,
        free_bumps=torch.full((count,), config.clock == "moves"),
        any_chance=bool((chance < 1).any()),
        any_free_bumps=config.clock == "moves",
    )


@lru_cache
def _open_ways(height: int, width: int) -> Tensor:
    """[S * 4] where each action leads from each cell of a map without walls."""
    level = Level("open", 1, ((False,) * width,) * height, (0, 0), (Coin(0, 0, 1.0),), ())
    return compile_levels([level]).goto


# ------------------------------------------------------------------------------------------- levels


def to_levels(drafts: Drafts, config: GeneratorConfig, seed: int) -> list[Level]:
    """The drafts as levels, all that is done for each level alone; equal parts of levels are one object."""
    columns, cells = config.width[1], config.map_cells
    levels = []
    num_coins, coins = _things(drafts.coins, columns)
    num_buttons, buttons = _things(drafts.delay, columns, drafts.chance)
    coin, button = map(_coin, *coins), map(_button, *buttons)
    walls = drafts.walls.numpy().tobytes()
    numbers = _lists(drafts.number, drafts.height, drafts.width, drafts.shutdown, drafts.start, num_coins, num_buttons)
    for index, (number, height, width, shutdown, start, with_coins, with_buttons) in enumerate(
        zip(*numbers, strict=True)
    ):
        rows = range(index * cells, index * cells + height * columns, columns)
        levels.append(
            Level(
                name=f"gen-{seed}-{number:06}",
                shutdown=shutdown,
                walls=tuple([_row(walls[first : first + width]) for first in rows]),
                start=_place(start, columns),
                coins=tuple(islice(coin, with_coins)),
                buttons=tuple(islice(button, with_buttons)),
                clock=config.clock,
            )
        )
    return levels


def _things(values: Tensor, columns: int, *more: Tensor) -> tuple[Tensor, list[list[Any]]]:
    """How many things each draft has [n], given values [n, S] of which 0 is none; then, thing by thing in reading
    order, lists of its row, its column, its value and whatever more there is."""
    draft, cell = values.nonzero(as_tuple=True)
    return (values > 0).sum(-1), _lists(
        cell // columns, cell % columns, *(each[draft, cell] for each in (values, *more))
    )


def _lists(*tensors: Tensor) -> list[list[Any]]:
    return [tensor.tolist() for tensor in tensors]


@lru_cache(1 << 16)
def _coin(row: int, column: int, value: int) -> Coin:
    return Coin(row, column, float(value))


@lru_cache(1 << 16)
def _button(row: int, column: int, delay: int, chance: int) -> Button:
    return Button(row, column, delay, chance / PER_CENT)


@lru_cache(1 << 16)
def _row(cells: bytes) -> tuple[bool, ...]:
    return tuple(map(bool, cells))


_place = lru_cache(1 << 16)(divmod)
