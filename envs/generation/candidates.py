"""Batches of random drafts as tensors: sampling, compilation for an exact search, conversion to levels.

A draft depends only on the seed and its number, not on the other drafts of its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.counter_rng import Draws
from drest_torch.envs.dynamics.mdp import Mdp, assembled
from drest_torch.envs.generation.config import WALL_SHAPES, WEIGHTED_FILTERS, GeneratorConfig
from drest_torch.envs.levels import LazyLevels
from drest_torch.envs.levels.maps import Maps
from drest_torch.envs.objects import KINDS, Button, Coin, Layers, WorldObject, kinds_in
from drest_torch.envs.objects.lottery import lottery_features

PLACED_BEFORE_WALLS: tuple[type[WorldObject], ...] = (Button, Coin)
"""The kinds that take cells before the walls, in the order of the generator's first version."""


class Drafts(NamedTuple):
    """n drafts on maps with the S cells of the largest map, counted row by row."""

    number: Tensor
    """[n] the number of the draft."""
    height: Tensor
    """[n]"""
    width: Tensor
    """[n]"""
    shutdown: Tensor
    """[n]"""
    start: Tensor
    """[n] the agent's cell."""
    layers: Layers
    """[n, S] the numbers of the objects on each cell, by the name of the layer."""
    walls: Tensor
    """[n, S] True for walls and cells outside the map."""
    luck: Tensor
    """[n, len(WEIGHTED_FILTERS)] a random number in [0, 1) for each filter with optional weights."""

    def to(self, device: torch.device | str) -> Drafts:
        """Return the drafts on another device."""
        return self._map_tensors(lambda values: values.to(device))

    def where(self, chosen: Tensor) -> Drafts:
        """Return the drafts selected by the mask ``chosen`` [n]."""
        index = chosen.nonzero().squeeze(-1)
        return self._map_tensors(lambda values: values.index_select(0, index))

    def _map_tensors(self, change: Callable[[Tensor], Tensor]) -> Drafts:
        """Return the drafts with every tensor changed."""
        tensors = self._asdict()
        layers = {name: change(values) for name, values in tensors.pop("layers").items()}
        return Drafts(**{name: change(values) for name, values in tensors.items()}, layers=layers)


# ------------------------------------------------------------------------------------------- sampling


def _cells_of(kind: type[WorldObject]) -> str:
    """Return the name of the random numbers for the cells of a kind."""
    return f"{kind.noun}_cells"


LATER = (
    *("height", "width", "buttons", "delay", "chance"),
    *("wall_share", "wall_shape", "wall_length", "pieces", "corner"),
    *WEIGHTED_FILTERS,
    *(
        name
        for kind in KINDS
        if kind not in PLACED_BEFORE_WALLS
        for name in (kind.plural(), _cells_of(kind), *kind.draws)
    ),
)
"""The names of random numbers added after the generator's first version, in the order of their keys."""


def sample_drafts(config: GeneratorConfig, seed: int, number: Tensor) -> Drafts:
    """Sample the drafts with these numbers [n]."""
    cells = config.map_cells
    draws = Draws(vars(config), cells, LATER, seed, number)
    shutdown, walls = draws.first("shutdown"), draws.first("walls")
    # The order of random numbers is a random permutation. It gives each cell a rank: the first cell is the agent's, the
    # next ones are for buttons, then for coins, and so on.
    rank = draws.bits().argsort(dim=-1, stable=True)
    height, width = draws.later("height", 1), draws.later("width", 1)
    cell = torch.arange(cells)
    inside = (cell // config.width[1] < height) & (cell % config.width[1] < width)
    if config.height[0] * config.width[0] < cells:  # cells outside the map come last
        rank = _rank(torch.where(inside, rank, cells))
    layers: dict[str, Tensor] = {}
    objects = torch.ones_like(walls)  # the agent
    for kind in PLACED_BEFORE_WALLS:
        count = kind.count(draws)
        is_here = (rank >= objects) & (rank < objects + count)
        layers |= kind.sample(draws, is_here, rank - objects)
        objects = objects + count
    if config.wall_share is not None:
        low, high = config.wall_share
        walls = ((low + (high - low) * draws.real("wall_share", 1)) * (height * width)).long()
    wall = (rank >= objects) & (rank < objects + walls)
    if config.wall_shape != "scattered":
        wall = _shaped(config, draws, wall, walls, rank.masked_fill(rank < objects, 2 * cells), height, width)
    free = ~wall & inside & (rank >= objects)
    for kind in KINDS:
        # The other kinds take free cells, so that the rest of the draft is the same with and without them.
        if kind in PLACED_BEFORE_WALLS:
            continue
        if config.most_of(kind) == 0:
            of_kind = {} if kind.is_optional else kind.layers
            layers |= {
                name: torch.full(rank.shape, layer.nothing, dtype=layer.dtype) for name, layer in of_kind.items()
            }
            continue
        order = _rank(torch.where(free, draws.real(_cells_of(kind), cells), 1.0))
        is_here = free & (order < kind.count(draws))
        layers |= kind.sample(draws, is_here, order)
        free &= ~is_here
    return Drafts(
        number=number,
        height=height.squeeze(-1),
        width=width.squeeze(-1),
        shutdown=shutdown.squeeze(-1),
        start=(rank == 0).int().argmax(-1),
        layers=layers,
        walls=wall | ~inside,
        luck=torch.cat([draws.real(name, 1) for name in WEIGHTED_FILTERS], -1),
    )


def _rank(values: Tensor) -> Tensor:
    """Return the rank of each value within its row [n, S]."""
    return values.argsort(dim=-1, stable=True).argsort(dim=-1)


def _shaped(
    config: GeneratorConfig,
    draws: Draws,
    scattered: Tensor,
    walls: Tensor,
    rank: Tensor,
    height: Tensor,
    width: Tensor,
) -> Tensor:
    """Return the same number of walls [n, S] in the shape of the configuration: lines, blocks or scattered.

    Cells become wall piece by piece, and within a piece row by row or column by column, from one of its corners. The
    other cells follow in their random order. Cells with an object come last; their ``rank`` exceeds the number of
    cells.
    """
    rows, columns, cells = config.height[1], config.width[1], config.map_cells
    pieces = max(1, config.most_walls(cells))
    shape = (draws.real("wall_shape", 1) * 3).long()  # 0: scattered, 1: lines, 2: blocks
    if config.wall_shape != "mixed":
        shape = torch.full_like(shape, WALL_SHAPES.index(config.wall_shape))
    upright, down, right = draws.real("pieces", 3, pieces).unbind(1)  # each [n, pieces]
    piece_height, piece_width = draws.later("wall_length", 2, pieces).unbind(1)
    piece_height = piece_height.masked_fill((shape == 1) & (upright < 0.5), 1).minimum(height)
    piece_width = piece_width.masked_fill((shape == 1) & (upright >= 0.5), 1).minimum(width)
    top, left = (down * (height - piece_height + 1)).long(), (right * (width - piece_width + 1)).long()
    row, column = torch.arange(rows).reshape(-1, 1, 1), torch.arange(columns).reshape(-1, 1, 1)
    in_row = (row >= top) & (row < top + piece_height)  # [rows, n, pieces]
    in_column = (column >= left) & (column < left + piece_width)
    covered = (in_row.unsqueeze(1) & in_column).reshape(cells, -1, pieces).transpose(0, 1)  # [n, S, pieces]
    first_piece = covered.int().argmax(-1)
    upwards, leftwards, by_columns = (draws.real("corner", 3) < 0.5).unsqueeze(-1).unbind(1)  # each [n, 1]
    row, column = torch.arange(cells) // columns, torch.arange(cells) % columns
    row, column = torch.where(upwards, rows - 1 - row, row), torch.where(leftwards, columns - 1 - column, column)
    within = torch.where(by_columns, column * rows + row, row * columns + column)
    order = torch.where(covered.any(-1), first_piece * cells + within, pieces * cells + rank)
    order = torch.where(rank < cells, order, (pieces + 1) * cells + rank)
    return torch.where(shape == 0, scattered, _rank(order) < walls)


# ------------------------------------------------------------------------------------------- compiling


def walled_in(drafts: Drafts, mdp: Mdp) -> Tensor:
    """Return whether the agent is stuck in each draft [n] of a compiled level set.

    The agent is stuck if it has wall on all four sides, where `compile_levels` would refuse the level, or if it could
    never leave a cell with a permanent object.
    """
    stays = mdp.stays()
    stuck = stays[mdp.start]
    for kind in kinds_in(drafts.layers):
        if not kind.is_taken:
            stuck |= (kind.is_on(drafts.layers) & stays.reshape(drafts.walls.shape)).any(-1)
    return stuck


def compiled(drafts: Drafts, config: GeneratorConfig) -> Mdp:
    """Return the result of `compile_levels` for the drafts, without `Level` objects."""
    count, cells = drafts.walls.shape
    layers = {name: values.reshape(-1) for name, values in drafts.layers.items()}
    # Include only features that affect the rules; drafts are not observed.
    features = lottery_features(int(layers["lottery"].max()) if "lottery" in layers else 0)
    if (layers["chance"] < 1).any():
        features |= {"chance"}
    return assembled(
        (),
        drafts.walls.reshape(count, config.height[1], config.width[1]),
        layers,
        features,
        start=drafts.start + torch.arange(count) * cells,
        shutdown=drafts.shutdown,
        free_bumps=torch.full((count,), config.clock == "moves"),
    )


# ------------------------------------------------------------------------------------------- levels


def to_levels(drafts: Drafts, config: GeneratorConfig, seed: int) -> LazyLevels:
    """Return drafts as levels; a name such as ``gen-7-000123`` contains the seed and the number of the draft."""
    grid = (-1, config.height[1], config.width[1])
    maps = Maps(
        height=drafts.height,
        width=drafts.width,
        shutdown=drafts.shutdown,
        start=drafts.start,
        free_bumps=torch.full_like(drafts.start, config.clock == "moves", dtype=torch.bool),
        walls=drafts.walls.reshape(grid),
        layers={name: values.reshape(grid) for name, values in drafts.layers.items()},
    )
    return LazyLevels(maps, drafts.number, f"gen-{seed}-")
