"""A convolutional network that encodes each map once for all of its states.

The map of a state consists of the walls and the remaining objects, without the position of the agent and the time left.
Residual layers of 3 × 3 convolutions encode the surroundings of every cell, with a receptive field that grows with each
layer. To act, an MLP, the *head*, reads the encoding at the agent's cell and the time left. Knowledge about a local
pattern therefore transfers to every map that contains it; an MLP on whole observations learns it again for each place.

The symmetries are built in as in `SymmetricMLP`: a layer has a block of channels for each element g of the group, and
the weights from block h to block g depend on g⁻¹h alone, with their kernels rotated and reflected by g.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from drest_torch.algos.networks.base import (
    CachedWeights,
    MapLayout,
    NetworkSize,
    RepeatedWeight,
    Requirements,
    Signature,
    SymmetricMLP,
    Symmetries,
    columns_of,
    orthogonal,
    to_all_blocks,
)
from drest_torch.algos.networks.precision import padded_rows, precision_in_use

NOT_OF_THE_MAP = ("agent", "time")
"""Planes that differ between the states of a map."""
SMALL = 1e-5

REQUIRES = Requirements(
    observations=("grid", "grid_start", "grid_faint", "grid_alike"),
    symmetries="cells",
    width_multiple=8,
    min_depth=1,
    reads_maps=True,
)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network: ``size.depth`` layers of ``size.width`` channels."""
    return MapNet(signature, size, MapEncoder(*map_symmetries(signature), size))


def build_critic(signature: Signature, size: NetworkSize, policy: nn.Module) -> nn.Module:
    """Build a critic on the encoder of the policy's network, which it does not train."""
    assert isinstance(policy, MapNet)
    return MapNet(signature, size, policy.read, learns_to_read=False)


def map_symmetries(signature: Signature) -> tuple[MapLayout, Symmetries]:
    """Return the layout of the observations, and the symmetries of three by three cells."""
    symmetries = signature.symmetries
    assert symmetries is not None
    assert symmetries.layout is not None
    return symmetries.layout, symmetries


class MapNet(nn.Module):
    """A network from observations [n, P, H, W] and further numbers [n, F] to outputs [n, O].

    The symmetries are those of three by three cells and contain the layout of the observations. Equal maps are encoded
    once. With ``learns_to_read=False`` the encoder of another network is used without being trained.
    """

    def __init__(
        self, signature: Signature, size: NetworkSize, encoder: MapEncoder, *, learns_to_read: bool = True
    ) -> None:
        super().__init__()
        layout, symmetries = map_symmetries(signature)
        self.time_steps = layout.time_steps
        self.agent, self.time = layout.planes.index("agent"), layout.planes.index("time")
        self.map = [index for index, name in enumerate(layout.planes) if name not in NOT_OF_THE_MAP]
        self.learns_to_read = learns_to_read
        self.read = encoder
        fixed = self.time_steps + 1 + signature.further
        channels = Symmetries(self.read.rotated(), symmetries.outputs)
        self.ask = SymmetricMLP(channels, fixed, size.head(), last_gain=signature.last_gain)

    def forward(self, observation: Tensor, further: Tensor | None = None) -> Tensor:
        maps = torch.stack([observation[:, index] for index in self.map], dim=1)
        place, time = observation[:, self.agent].flatten(1).argmax(-1), observation[:, self.time, 0, :1]
        steps = (time - torch.arange(self.time_steps, device=time.device)).clamp(0, 1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.learns_to_read):
            encodings, index = self.read.once(maps)
        cells = cells_of(encodings, index, place)
        inputs = [cells, steps, time / self.time_steps]
        return self.ask(torch.cat(inputs if further is None else [*inputs, further], dim=-1))


def cells_of(encodings: Tensor, index: Tensor, place: Tensor) -> Tensor:
    """Return the channels [n, C] at these places [n] of the encodings [M, C, H · W] with these indices [n].

    The channels are picked one by one, so that the gradient has the layout of the encoding and sums are fast. The
    gradient is the same for any number of threads.
    """
    _, channels, cells = encodings.shape
    first = index * (channels * cells) + place
    picked = first.unsqueeze(-1) + torch.arange(channels, device=index.device) * cells
    return encodings.reshape(-1).index_select(0, picked.reshape(-1)).reshape(-1, channels)


def map_hashes(maps: Tensor) -> Tensor:
    """Return a hash of each map [n], a sum with fixed random weights: only equal maps have the same."""
    weights = torch.rand(maps.shape[1:].numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return maps.flatten(1).double() @ weights.to(maps.device)


class MapEncoder(CachedWeights):
    """An encoder of the planes of maps [M, P, H, W] (walls, coins, …) as channels of cells [M, width, H · W]."""

    between: Tensor
    cells: Tensor
    patches: Tensor

    def __init__(self, layout: MapLayout, symmetries: Symmetries, size: NetworkSize) -> None:
        super().__init__()
        order = len(symmetries.inputs)
        self.units = size.width // order
        self.register_buffer("between", symmetries.between(), persistent=False)
        self.register_buffer("cells", symmetries.inputs, persistent=False)
        names = [name for name in layout.planes if name not in NOT_OF_THE_MAP]
        self.delay_unit = layout.delay_unit
        # Walls, coins and delays come first. An additional input marks the cells with a button.
        inputs = [*names[:3], "button", *names[3:]]
        rows = layout.rotated.tolist()
        channels = []
        for row in rows:
            source = {name: layout.planes[plane] for name, plane in zip(layout.planes, row, strict=True)}
            channels.append([inputs.index(source.get(name, name)) for name in inputs])
        patches = torch.tensor(channels).unsqueeze(-1) * 9 + symmetries.inputs.cpu().unsqueeze(1)
        self.register_buffer("patches", patches.to(symmetries.inputs.device), persistent=False)
        self.first = nn.Parameter(orthogonal(self.units, len(inputs) * 9, 1.0))
        self.first_bias = nn.Parameter(torch.zeros(self.units))
        self.layers = nn.ModuleList([ResidualLayer(symmetries, self.units, size) for _ in range(size.depth)])
        self.map_cache: Any = None
        """The hashes of encoded maps in ascending order with their encodings, or () before; None: not cached."""

    def once(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Encode equal maps once; return the encodings, and the index of the encoding of each map [n]."""
        hashes, group = map_hashes(maps).unique(return_inverse=True)
        rows = torch.arange(len(group), device=group.device)
        distinct = torch.empty_like(rows[: len(hashes)]).scatter_(0, group, rows)  # one row of each map
        if self.map_cache is None:
            return self.encode(maps, distinct), group
        earlier: tuple[Tensor, Any] = self.map_cache or (hashes[:0], None)
        cached, cache = earlier
        new = ~torch.isin(hashes, cached)
        encodings = self.encode(maps, distinct) if torch.is_grad_enabled() else None
        if new.any():
            added = self.encode(maps, distinct[new]) if encodings is None else encodings[new].detach()
            cached, order = torch.cat((cached, hashes[new])).sort()
            cache = added if cache is None else torch.cat((cache, added))[order]
            self.map_cache = cached, cache
        if encodings is not None:
            return encodings, group
        return cache, torch.searchsorted(cached, hashes)[group]

    def keep(self) -> None:
        super().keep()
        self.map_cache = ()

    def forget(self) -> None:
        super().forget()
        self.map_cache = None

    def encode(self, maps: Tensor, index: Tensor) -> Tensor:
        """Return the encodings of the maps with these indices [m]."""
        rows = padded_rows(index, precision_in_use(maps.device), by=16)
        return self(maps[rows])[: len(index)]

    def rotated(self) -> Tensor:
        """Return the permutations [|G|, width] of a cell's encoding: element h maps block h⁻¹g to block g."""
        return (self.between.unsqueeze(-1) * self.units + torch.arange(self.units)).flatten(1)

    def build(self) -> tuple[Tensor, Tensor]:
        """Return the kernels and biases of the first layer."""
        kernels = self._all_first(self.first).unflatten(-1, (-1, 3, 3))  # [width, inputs, 3, 3]
        return kernels, self.first_bias.repeat(len(self.cells))

    def repeated(self) -> Iterator[RepeatedWeight]:
        yield RepeatedWeight(self.first, self._all_first, self.between)

    def _all_first(self, weight: Tensor) -> Tensor:
        """Expand the weights [units, inputs · 9] of the identity's block to the weights [width, inputs · 9]."""
        return columns_of(weight, self.patches).movedim(1, 0).flatten(0, 1).flatten(1)

    def forward(self, maps: Tensor) -> Tensor:
        encoding, _ = self.surroundings(maps)
        return (encoding * rms_factors(encoding)).flatten(2)

    def surroundings(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of the residual layers [M, width, H, W], and 1 for each free cell [M, 1, H, W]."""
        wall, coin, delay, *others = maps.unbind(1)
        free = 1 - wall
        coin = coin / coin.amax((-2, -1), keepdim=True).clamp_min(SMALL)
        inputs = torch.stack((free, coin, delay / self.delay_unit, (delay > 0).to(delay), *others), 1)
        kernels, bias = self.built()
        encoding = conv2d(inputs, kernels, bias, padding=1)
        free = free.unsqueeze(1).to(encoding)
        for layer in self.layers:
            encoding = encoding + layer(encoding * (rms_factors(encoding) * free))
        return encoding, free


class ResidualLayer(CachedWeights):
    """A residual layer: the contribution of 3 × 3 cells to the encoding of the central one [M, C, H, W]."""

    between: Tensor
    cells: Tensor

    def __init__(self, symmetries: Symmetries, units: int, size: NetworkSize) -> None:
        super().__init__()
        order = len(symmetries.inputs)
        without_norm = replace(size, norm=None)
        self.after = nn.Sequential(*without_norm.after_linear(units, order))
        self.register_buffer("between", symmetries.between(), persistent=False)
        self.register_buffer("cells", symmetries.inputs, persistent=False)
        self.gain = nn.Parameter(torch.ones(units))
        self.around = nn.Parameter(orthogonal(units, order * units * 9, 1.0))
        self.bias = nn.Parameter(torch.zeros(units))
        self.mixed = nn.Parameter(orthogonal(units, order * units, 0.5))

    def build(self) -> tuple[Tensor, ...]:
        """Return the kernels and biases of the 3 × 3 convolution, and the kernels of the 1 × 1 convolution."""
        order, units = len(self.between), len(self.gain)
        gained = self.around.unflatten(-1, (order, units, 9)) * self.gain.unsqueeze(-1)
        kernels = self._all_around(gained.flatten(1)).unflatten(-1, (-1, 3, 3))  # [width, width, 3, 3]
        mixed = to_all_blocks(self.mixed, self.between).unflatten(-1, (-1, 1, 1))
        return kernels, self.bias.repeat(order), mixed

    def repeated(self) -> Iterator[RepeatedWeight]:
        yield RepeatedWeight(self.around, self._all_around, self.between)
        yield RepeatedWeight(self.mixed, partial(to_all_blocks, between=self.between), self.between)

    def _all_around(self, weight: Tensor) -> Tensor:
        """Expand the weights [units, width · 9] of the identity's block to the weights [width, width · 9].

        From block h to block g these are the weights of g⁻¹h, rotated and reflected by g.
        """
        order = len(self.between)
        blocks = columns_of(weight.unflatten(-1, (order, -1, 9)), self.between)
        cells = self.cells.reshape(1, order, 1, 1, 9).expand_as(blocks)
        return blocks.gather(-1, cells).movedim(1, 0).flatten(2).flatten(0, 1)

    def forward(self, encoding: Tensor) -> Tensor:
        kernels, bias, mixed = self.built()
        return conv2d(self.after(conv2d(encoding, kernels, bias, padding=1)), mixed)


def rms_factors(encoding: Tensor) -> Tensor:
    """Return the factors [M, 1, H, W] that normalise the mean square over the channels of each cell to 1."""
    return torch.rsqrt(encoding.square().mean(1, keepdim=True) + SMALL)
