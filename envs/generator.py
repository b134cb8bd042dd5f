"""Random levels with one button, in any number, from a seed.

A *draft* is drawn as :class:`GeneratorConfig` says, each draft from the seed and its own number alone.
Drafts are solved exactly, many at once, and those are levels in which

* the agent is not walled in,
* the button can be pressed in time, so that there are two trajectory-lengths (``lengths=1``: it cannot), and
* each of the lengths has a coin: m(l) > 0, so that usefulness is defined for each.

What comes out is therefore the distribution of the drafts given that they are accepted: maps on which little
can be reached are rarer than among the drafts, for example those of many walls, small shutdown times, or few coins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from envs import streams
from envs.levels import CLOCKS, MAX_OBJECTS, MAX_SIDE, MAX_TIME, Button, Coin, Level, LevelError
from envs.mdp import STEPS, compile_levels
from envs.solver import solve

DRAFTS_AT_ONCE = 1024
"""Which levels come out does not depend on it."""
MAX_REFUSED = 100_000
"""Drafts in a row that may be refused before the ranges are blamed."""

Range = tuple[int, int]
"""Lowest and highest, both included."""


@dataclass(frozen=True)
class GeneratorConfig:
    """How drafts are drawn: every number uniformly from its range, one independent of the other.

    The agent, the button, the coins and the walls then take distinct cells, each choice of cells as likely
    as any other. Coin values are drawn for each coin alone.
    """

    height: int = 5
    width: int = 5
    walls: Range = (0, 10)
    coins: Range = (1, 4)
    coin_values: Range = (1, 7)
    shutdown: Range = (1, 7)
    delay: Range = (1, 8)
    lengths: int = 2
    """Trajectory-lengths that a level has."""
    clock: str = "steps"

    def __post_init__(self) -> None:
        self._check("height", (self.height, self.height), 1, MAX_SIDE)
        self._check("width", (self.width, self.width), 1, MAX_SIDE)
        cells = self.height * self.width
        self._check("walls", self.walls, 0, cells)
        self._check("coins", self.coins, 1, MAX_OBJECTS - 1)
        self._check("coin_values", self.coin_values, 1, 1_000_000)
        self._check("shutdown", self.shutdown, 1, MAX_TIME - 1)
        self._check("delay", self.delay, 1, MAX_TIME - self.shutdown[1])
        self._check("lengths", (self.lengths, self.lengths), 1, 2)
        if self.clock not in CLOCKS:
            raise LevelError(f"generator: unknown clock {self.clock!r:.40}; expected 'steps' or 'moves'")
        taken = 2 + self.coins[1] + self.walls[1]
        if taken > cells:
            raise LevelError(
                f"generator: the agent, the button, {self.coins[1]} coins and {self.walls[1]} walls take {taken} "
                f"cells; expected at most {cells}, those of a map of {self.height} by {self.width}"
            )

    @staticmethod
    def _check(name: str, values: Range, least: int, most: int) -> None:
        whole = len(values) == 2 and all(type(value) is int for value in values)
        if not whole or not least <= values[0] <= values[1] <= most:
            raise LevelError(
                f"generator: {name} from {' to '.join(map(str, values))}; "
                f"expected whole numbers from {least} to {most}, the lowest first"
            )


def generate(config: GeneratorConfig, count: int, *, seed: int) -> list[Level]:
    """The first ``count`` levels of :func:`stream`."""
    return list(islice(stream(config, seed), count))


def stream(config: GeneratorConfig, seed: int) -> Iterator[Level]:
    """Levels without end, always the same ones for a seed; a level may come twice.

    The name of a level, such as ``gen-7-000123``, says the seed and which draft it was.
    """
    if not 0 <= seed < 1 << 62:
        raise LevelError(f"generator: seed {seed}; expected a whole number from 0 to 2^62 - 1")
    first, last_accepted = 0, -1
    while True:
        drafts = _draft(config, seed, torch.arange(first, first + DRAFTS_AT_ONCE))
        drafts = drafts.where(~_walled_in(drafts, config))
        levels = _levels(drafts, config, seed)
        for index in _accepted(levels, config).tolist():
            yield levels[index]
            last_accepted = int(drafts.number[index])
        first += DRAFTS_AT_ONCE
        if first - last_accepted > MAX_REFUSED:
            raise LevelError(
                f"generator: none of the last {MAX_REFUSED:,} drafts has {config.lengths} lengths with a coin each; "
                f"expected other ranges than those of {config}"
            )


class _Drafts(NamedTuple):
    """n drafts on maps of S cells. Cells are counted row by row."""

    number: Tensor
    """[n] which draft it is."""
    shutdown: Tensor
    """[n]"""
    delay: Tensor
    """[n]"""
    start: Tensor
    """[n] the agent's cell."""
    button: Tensor
    """[n] the button's cell."""
    coins: Tensor
    """[n, S] the value of the coin on each cell, 0 for none."""
    walls: Tensor
    """[n, S] whether the cell is wall."""

    def where(self, chosen: Tensor) -> _Drafts:
        """The chosen drafts of [n]."""
        return _Drafts(*(values[chosen] for values in self))


def _draft(config: GeneratorConfig, seed: int, number: Tensor) -> _Drafts:
    """The drafts of the given numbers [n]."""
    key = streams.mix(streams.mix(torch.tensor(seed), torch.tensor(0)), number).unsqueeze(-1)
    cells = config.height * config.width
    draws = iter(torch.arange(4 + 2 * cells).split((1, 1, 1, 1, cells, cells)))

    def between(bounds: Range) -> Tensor:
        return bounds[0] + streams.integer(key, next(draws), bounds[1] - bounds[0] + 1)

    shutdown, delay, coins, walls = map(between, (config.shutdown, config.delay, config.coins, config.walls))
    value = between(config.coin_values)
    # The order of random numbers is a random permutation. Read as the rank of each cell, it hands the cells out:
    # the first to the agent, the second to the button, the next to the coins, and so on.
    rank = streams.mix(key, next(draws)).argsort(dim=-1, stable=True)
    return _Drafts(
        number=number,
        shutdown=shutdown.squeeze(-1),
        delay=delay.squeeze(-1),
        start=(rank == 0).int().argmax(-1),
        button=(rank == 1).int().argmax(-1),
        coins=value * ((rank >= 2) & (rank < 2 + coins)),
        walls=(rank >= 2 + coins) & (rank < 2 + coins + walls),
    )


def _walled_in(drafts: _Drafts, config: GeneratorConfig) -> Tensor:
    """[n] whether the agent has wall on all four sides, in which case `compile_levels` refuses the level."""
    framed = pad(drafts.walls.reshape(-1, config.height, config.width), (1, 1, 1, 1), value=True)
    row, column = drafts.start // config.width, drafts.start % config.width
    draft = torch.arange(len(row))
    return torch.stack([framed[draft, row + 1 + down, column + 1 + right] for down, right in STEPS]).all(0)


def _levels(drafts: _Drafts, config: GeneratorConfig, seed: int) -> list[Level]:
    """The drafts as levels: all that is done for each level alone."""

    def place(cell: Tensor) -> tuple[Tensor, Tensor]:
        return cell // config.width, cell % config.width

    draft, cell = drafts.coins.nonzero(as_tuple=True)  # draft by draft, in reading order
    coins = map(Coin, *_lists(*place(cell), drafts.coins[draft, cell].double()))
    buttons = map(Button, *_lists(*place(drafts.button), drafts.delay))
    starts = zip(*_lists(*place(drafts.start)), strict=True)
    walls = drafts.walls.reshape(-1, config.height, config.width)
    numbers = _lists(drafts.number, drafts.shutdown, (drafts.coins > 0).sum(-1), walls)
    return [
        Level(
            name=f"gen-{seed}-{number:06}",
            shutdown=shutdown,
            walls=tuple(map(tuple, rows)),
            start=start,
            coins=tuple(islice(coins, num_coins)),
            buttons=(button,),
            clock=config.clock,
        )
        for number, shutdown, num_coins, rows, start, button in zip(*numbers, starts, buttons, strict=True)
    ]


def _lists(*tensors: Tensor) -> list[list[Any]]:
    return [tensor.tolist() for tensor in tensors]


def _accepted(levels: list[Level], config: GeneratorConfig) -> Tensor:
    """The indices of the levels that have as many lengths as they should, each with a coin."""
    if not levels:
        return torch.zeros(0, dtype=torch.int64)
    optima = solve(compile_levels(levels), allow_barren=True)
    with_coin = (optima.best_return > 0).sum(-1)
    return ((optima.num_lengths == config.lengths) & (with_coin == config.lengths)).nonzero().squeeze(-1)
