"""A network that plans: one layer of 3 × 3 convolutions, iterated more often on larger maps.

As in value iteration networks (Tamar et al. 2016), each iteration passes information from every cell to its neighbours
with the same weights, so the number of iterations grows with the map, and the number of weights does not. The
surroundings of each cell, encoded by the first layers, are an input of every iteration ("recall", Bansal et al. 2022),
because many iterations would forget them. In all other respects this is the convolutional network, with its symmetries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from drest_torch.algos.networks.base import (
    MapLayout,
    NetworkSize,
    RepeatedWeight,
    Signature,
    Symmetries,
    orthogonal,
    to_all_blocks,
)
from drest_torch.algos.networks.convolutional import (
    REQUIRES,
    MapEncoder,
    MapNet,
    ResidualLayer,
    build_critic,
    map_symmetries,
    rms_factors,
)
from drest_torch.algos.networks.precision import widened

__all__ = ["REQUIRES", "build", "build_critic"]

FIRST_LAYERS = 2
"""The residual layers before the iterations, each with its own weights."""


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network: ``size.width`` channels, and at least ``size.depth`` iterations for each cell of the side."""
    return MapNet(signature, size, IteratedEncoder(*map_symmetries(signature), size))


class IteratedEncoder(MapEncoder):
    """An encoder of maps [M, P, H, W] whose last layer is iterated in proportion to the side of the map.

    The side is the larger of the numbers of rows and columns between free cells, so walls around a map change nothing.
    """

    def __init__(self, layout: MapLayout, symmetries: Symmetries, size: NetworkSize) -> None:
        super().__init__(layout, symmetries, replace(size, depth=FIRST_LAYERS))
        self.per_cell = size.depth
        self.iterated = IteratedLayer(symmetries, self.units, size)

    def forward(self, maps: Tensor) -> Tensor:
        state, free = self.surroundings(maps)
        counts, order = self.iterations(free).sort(descending=True, stable=True)
        state = widened(state).index_select(0, order)
        free = free.index_select(0, order)
        weights = self.iterated.built()
        recalled = conv2d(state * rms_factors(state), weights[-1])
        finished = []
        for running in numbers_running(counts):
            finished.append(state[running:])
            state = state[:running]
            recalled = recalled[:running]
            inputs = state * (rms_factors(state) * free[:running])
            state = state + self.iterated.iterate(inputs, recalled, weights)
        encoding = torch.cat([state, *reversed(finished)]).index_select(0, order.argsort())
        return (encoding * rms_factors(encoding)).flatten(2)

    def iterations(self, free: Tensor) -> Tensor:
        """Return the number of iterations of each map [M], for its free cells [M, 1, H, W].

        It is between one and two times ``per_cell`` times the side. The number of free cells decides where in this
        range, so a network learns to act after different numbers of iterations, and does not depend on one of them.
        Rotated maps, and the states of a level, have the same number.
        """
        least = self.per_cell * sides_of(free)
        free_cells = (free > 0).flatten(1).sum(-1)
        return least + free_cells % (least + 1)


def sides_of(free: Tensor) -> Tensor:
    """Return the larger number of rows or columns from the first to the last free cell of each map [M, 1, H, W]."""
    sides = [_extent(free.amax(dim).flatten(1)) for dim in (-1, -2)]
    return torch.maximum(*sides)


def _extent(line: Tensor) -> Tensor:
    """Return the number of places from the first to the last 1 of each row [M, N] of zeros and ones; 0 without any."""
    ahead = line.cummax(-1).values
    behind = line.flip(-1).cummax(-1).values.flip(-1)
    return (ahead * behind).sum(-1).long()


def numbers_running(counts: Tensor) -> list[int]:
    """Return how many maps run each iteration; ``counts`` are the iterations of each map, in descending order."""
    most = int(counts[:1].sum())
    iterations = torch.arange(most, device=counts.device)
    return (counts > iterations.unsqueeze(-1)).sum(-1).tolist()


class IteratedLayer(ResidualLayer):
    """A residual layer that also reads the encoding of the map before the first iteration."""

    def __init__(self, symmetries: Symmetries, units: int, size: NetworkSize) -> None:
        super().__init__(symmetries, units, size)
        self.recalling = nn.Parameter(orthogonal(units, len(symmetries.inputs) * units, 1.0))

    def build(self) -> tuple[Tensor, ...]:
        """Return the weights of `ResidualLayer`, and the kernels with which an iteration reads the first encoding."""
        return *super().build(), to_all_blocks(self.recalling, self.between).unflatten(-1, (-1, 1, 1))

    def repeated(self) -> Iterator[RepeatedWeight]:
        yield from super().repeated()
        yield RepeatedWeight(self.recalling, partial(to_all_blocks, between=self.between), self.between)

    def iterate(self, encoding: Tensor, recalled: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        """Return the contribution of an iteration to the encoding [M, C, H, W], with built weights."""
        kernels, bias, mixed, _ = weights
        around = conv2d(encoding, kernels, bias, padding=1)
        return conv2d(self.after(around + recalled), mixed)
