"""A network that reads a map by convolutions, once for all states on it.

Of a state, walls and what is still there to be taken are the map; where the agent stands and how much time is left
are not. Layers of 3 × 3 convolutions, each added to what came before, tell every cell what is around it, further away
with each layer. A state then asks at its cell: a small MLP is given what is known there, and the time. What has been
learned about a place on one map holds wherever the like of it is found, on any map; an MLP learns it for each anew.

The symmetries are built in as in `algos.networks.symmetric`: a layer has a block of channels for each element g of
the group, and the weights from block h to block g, turned around as well, depend on g⁻¹h alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from algos.networks.base import Requirements, Signature, Size, Symmetries
from algos.networks.layout import MapLayout
from algos.networks.symmetric import SymmetricMLP, orthogonal, to_all_blocks

NOT_OF_THE_MAP = ("agent", "time")
"""Planes that differ between the states on a map."""
ASKING = 128, 2
"""Units and hidden layers of the MLP that a state asks."""
SMALL = 1e-5

REQUIRES = Requirements(
    observations=("grid",),
    because="which is no planes of a map",
    symmetries="cells",
    width_multiple=8,
    min_depth=1,
    reads_maps=True,
)


def build(signature: Signature, size: Size) -> nn.Module:
    assert signature.symmetries is not None
    layers = size.width, size.depth, size.new_activation()
    return MapNet(
        signature.shape[0],
        signature.further,
        signature.symmetries,
        *layers,
        once=size.once,
        last_gain=signature.last_gain,
    )


class MapNet(nn.Module):
    """Outputs [n, O] from observations [n, P, H, W] and further numbers [n, F].

    ``symmetries`` are those of three by three cells, and say how observations show a map. With ``once``, maps that are
    alike are read once; without, all shapes follow from those of the inputs.
    """

    def __init__(
        self,
        planes: int,
        further: int,
        symmetries: Symmetries,
        width: int,
        depth: int,
        activation: nn.Module,
        *,
        once: bool,
        last_gain: float,
    ) -> None:
        super().__init__()
        layout = symmetries.layout
        if layout is None or len(layout.planes) != planes:
            raise ValueError(f"observations of {planes} planes, and a layout of {layout and len(layout.planes)}")
        self.once, self.time_steps = once, layout.time_steps
        self.agent, self.time = layout.planes.index("agent"), layout.planes.index("time")
        self.map = [index for index, name in enumerate(layout.planes) if name not in NOT_OF_THE_MAP]
        self.read = Reader(layout, symmetries, width, depth, activation)
        asked = self.time_steps + 1 + further
        turned = Symmetries(self.read.turned(), symmetries.outputs)
        self.ask = SymmetricMLP(turned, asked, *ASKING, activation, last_gain=last_gain)

    def forward(self, observation: Tensor, further: Tensor | None = None) -> Tensor:
        maps = torch.stack([observation[:, index] for index in self.map], dim=1)
        place, time = observation[:, self.agent].flatten(1).argmax(-1), observation[:, self.time, 0, :1]
        steps = (time - torch.arange(self.time_steps, device=time.device)).clamp(0, 1)
        one_of_each, which = alike(maps) if self.once else (slice(None), torch.arange(len(maps), device=maps.device))
        given = [self.read(maps[one_of_each])[which, place], steps, time / self.time_steps]
        return self.ask(torch.cat(given if further is None else [*given, further], dim=-1))


def alike(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The index of one of each kind of rows [n, …], and [n] which kind each row is of."""
    weights = torch.rand(rows.shape[1:].numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sums = rows.flatten(1).double() @ weights.to(rows.device)
    kinds, which = sums.unique(return_inverse=True)
    index = torch.arange(len(rows), device=rows.device)
    return torch.empty(len(kinds), dtype=torch.long, device=rows.device).scatter_(0, which, index), which


class Reader(nn.Module):
    """What is known in each cell [M, H · W, width] of maps [M, P, H, W] of walls, coins, delays and more."""

    between: Tensor
    cells: Tensor
    patches: Tensor

    def __init__(
        self,
        layout: MapLayout,
        symmetries: Symmetries,
        width: int,
        depth: int,
        activation: nn.Module,
    ) -> None:
        super().__init__()
        order = len(symmetries.inputs)
        if width % order:
            raise ValueError(f"width {width}; expected a multiple of {order} channels")
        self.units = width // order
        self.register_buffer("between", symmetries.between(), persistent=False)
        self.register_buffer("cells", symmetries.inputs, persistent=False)
        names = [name for name in layout.planes if name not in NOT_OF_THE_MAP]
        self.wall, self.coin, self.delay = (names.index(name) for name in ("wall", "coin", "delay"))
        self.others = [index for index in range(len(names)) if index not in (self.wall, self.coin, self.delay)]
        self.delay_unit = layout.delay_unit
        # Which of the cells holds a button is shown besides.
        shown = ["wall", "coin", "delay", "button", *(names[index] for index in self.others)]
        channels = [[shown.index(turned.get(name, name)) for name in shown] for turned in layout.turned_names()]
        patches = torch.tensor(channels).unsqueeze(-1) * 9 + symmetries.inputs.cpu().unsqueeze(1)
        self.register_buffer("patches", patches.to(symmetries.inputs.device), persistent=False)
        self.first = nn.Parameter(orthogonal(self.units, len(shown) * 9, 1.0))
        self.first_bias = nn.Parameter(torch.zeros(self.units))
        self.layers = nn.ModuleList([_Layer(order, self.units, activation) for _ in range(depth)])

    def turned(self) -> Tensor:
        """[|G|, width] where what is known in a cell goes when the map is turned: block g comes from block h⁻¹g."""
        return (self.between.unsqueeze(-1) * self.units + torch.arange(self.units)).flatten(1)

    def forward(self, maps: Tensor) -> Tensor:
        free, coin, delay = 1 - maps[:, self.wall], maps[:, self.coin], maps[:, self.delay]
        coin = coin / coin.amax((-2, -1), keepdim=True).clamp_min(SMALL)
        others = [maps[:, index] for index in self.others]
        seen = torch.stack((free, coin, delay / self.delay_unit, (delay > 0).to(delay), *others), 1)
        kernels = self.first[:, self.patches].movedim(1, 0).flatten(0, 1).unflatten(-1, (3, 3))
        known = conv2d(seen, kernels, self.first_bias.repeat(len(self.cells)), padding=1)
        for layer in self.layers:
            known = known + layer(_levelled(known) * free.unsqueeze(1), self.between, self.cells)
        return _levelled(known).flatten(2).mT


class _Layer(nn.Module):
    """What a cell learns from the cells around it [M, C, H, W]."""

    def __init__(self, order: int, units: int, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.gain = nn.Parameter(torch.ones(units))
        self.around = nn.Parameter(orthogonal(units, order * units * 9, 1.0))
        self.bias = nn.Parameter(torch.zeros(units))
        self.mixed = nn.Parameter(orthogonal(units, order * units, 0.5))

    def forward(self, known: Tensor, between: Tensor, cells: Tensor) -> Tensor:
        order = len(between)
        # From block h to block g: the weights of g⁻¹h, turned by g.
        blocks = self.around.unflatten(-1, (order, -1, 9))[:, between]
        kernels = blocks.gather(-1, cells.reshape(1, order, 1, 1, 9).expand_as(blocks)).movedim(1, 0)
        kernels = kernels.reshape(known.shape[1], known.shape[1], 3, 3)
        known = known * self.gain.repeat(order).reshape(-1, 1, 1)
        found = self.activation(conv2d(known, kernels, self.bias.repeat(order), padding=1))
        return conv2d(found, to_all_blocks(self.mixed, between).unflatten(-1, (-1, 1, 1)))


def _levelled(known: Tensor) -> Tensor:
    """The channels [M, C, H, W] of each cell, brought to a mean square of 1."""
    return known * torch.rsqrt(known.square().mean(1, keepdim=True) + SMALL)
