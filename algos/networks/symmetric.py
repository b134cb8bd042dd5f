"""An MLP with the eight symmetries of the map built in.

If its input is rotated or reflected, its output is rotated or reflected in the same way.

A hidden layer has a block of units for each element g of the group, and the block of g sees the input transformed by
g⁻¹. The weights from block h to block g depend on g⁻¹h alone (Cohen and Welling 2016), so a layer costs as much as
one of an MLP of the same width and has |G| times fewer weights to learn.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from drest_torch.algos.networks.base import Flat, NetworkSize, Requirements, Signature, Symmetries

REQUIRES = Requirements(
    observations=(
        *(f"{kind}{more}" for kind in ("centred", "grid") for more in ("", "_start", "_faint", "_alike")),
        *("centred_elapsed", "centred_start_elapsed"),
    ),
    because="which shows no map that could be rotated",
    symmetries="observation",
    width_multiple=8,
    min_depth=1,
)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network: ``size.depth`` hidden layers of ``size.width`` units."""
    assert signature.symmetries is not None
    layers = size.width, size.depth, size.new_activation()
    body = SymmetricMLP(signature.symmetries, signature.further, *layers, last_gain=signature.last_gain)
    return Flat(signature, body)


class SymmetricMLP(nn.Module):
    """An equivariant MLP from inputs [n, F] to outputs [n, O]; symmetries do not change the last ``further`` inputs."""

    inputs: Tensor
    between: Tensor
    towards: Tensor

    def __init__(
        self, symmetries: Symmetries, further: int, width: int, depth: int, activation: nn.Module, *, last_gain: float
    ) -> None:
        super().__init__()
        order, permuted = symmetries.inputs.shape
        if depth < 1 or width % order:
            raise ValueError(
                f"depth {depth} and width {width}; expected at least one hidden layer of a multiple of {order} units"
            )
        same = torch.arange(permuted, permuted + further).expand(order, -1).to(symmetries.inputs)
        outputs = symmetries.outputs
        self.register_buffer("inputs", torch.cat((symmetries.inputs, same), dim=-1), persistent=False)
        self.register_buffer("between", symmetries.between(), persistent=False)
        # An output is the mean over the blocks of the elements that map the first output to it.
        towards = nn.functional.one_hot(outputs[:, 0], outputs.shape[1]).float().T
        self.register_buffer("towards", towards / towards.sum(-1, keepdim=True), persistent=False)
        units = width // order
        self.activation = activation
        self.first = nn.Parameter(orthogonal(units, permuted + further, 2**0.5))
        # The weights from all blocks to the block of the identity; the others follow from them.
        self.hidden = nn.ParameterList(
            [nn.Parameter(orthogonal(units, order * units, 2**0.5)) for _ in range(depth - 1)]
        )
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(units)) for _ in range(depth)])
        self.last = nn.Parameter(orthogonal(1, order * units, last_gain))
        self.last_bias = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        order = len(self.between)
        first = self.first[:, self.inputs].movedim(1, 0).flatten(0, 1)
        hidden = self.activation(nn.functional.linear(inputs, first, self.biases[0].repeat(order)))
        for weight, bias in zip(self.hidden, list(self.biases)[1:], strict=True):
            hidden = self.activation(
                nn.functional.linear(hidden, to_all_blocks(weight, self.between), bias.repeat(order))
            )
        last = self.towards @ to_all_blocks(self.last, self.between)
        return nn.functional.linear(hidden, last, self.last_bias.expand(len(last)))


def to_all_blocks(weight: Tensor, between: Tensor) -> Tensor:
    """Return the weights to all blocks [|G| · out, |G| · in], from those to the identity's block [out, |G| · in]."""
    blocks = weight.unflatten(-1, (len(between), -1))
    return blocks[:, between].movedim(1, 0).flatten(2).flatten(0, 1)


def orthogonal(outputs: int, inputs: int, gain: float) -> Tensor:
    """Return a random orthogonal matrix [outputs, inputs], times ``gain``."""
    return nn.init.orthogonal_(torch.empty(outputs, inputs), gain)
