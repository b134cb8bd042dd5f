"""An MLP in which the symmetries of its input are built in: turn what it sees, and what it says turns as well.

A hidden layer has a block of units for each element g of the group, and the block of g sees the input as g⁻¹
turns it. The weights from block h to block g depend on g⁻¹h alone (Cohen and Welling 2016), so a layer costs as
much as one of an MLP of the same width and has |G| times fewer weights to learn.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from algos.networks.base import Flat, Requirements, Signature, Size, Symmetries

REQUIRES = Requirements(
    observations=("centred", "grid"),
    because="which shows no map that could be rotated",
    symmetries="observation",
    width_multiple=8,
    min_depth=1,
)


def build(signature: Signature, size: Size) -> nn.Module:
    assert signature.symmetries is not None
    layers = size.width, size.depth, size.new_activation()
    body = SymmetricMLP(signature.symmetries, signature.further, *layers, last_gain=signature.last_gain)
    return Flat(signature, body)


class SymmetricMLP(nn.Module):
    """Outputs [n, O] from inputs [n, F], of which the last ``further`` are no part of what is turned."""

    inputs: Tensor
    between: Tensor
    towards: Tensor

    def __init__(
        self,
        symmetries: Symmetries,
        further: int,
        width: int,
        depth: int,
        activation: nn.Module,
        *,
        last_gain: float,
    ) -> None:
        super().__init__()
        order, turned = symmetries.inputs.shape
        if depth < 1 or width % order:
            raise ValueError(
                f"depth {depth} and width {width}; expected at least one hidden layer of a multiple of {order} units"
            )
        same = torch.arange(turned, turned + further).expand(order, -1).to(symmetries.inputs)
        outputs = symmetries.outputs
        self.register_buffer("inputs", torch.cat((symmetries.inputs, same), dim=-1), persistent=False)
        self.register_buffer("between", symmetries.between(), persistent=False)
        # An output is the mean of the blocks that turn the first output into it.
        towards = nn.functional.one_hot(outputs[:, 0], outputs.shape[1]).float().T
        self.register_buffer("towards", towards / towards.sum(-1, keepdim=True), persistent=False)
        units = width // order
        self.activation = activation
        self.first = nn.Parameter(orthogonal(units, turned + further, 2**0.5))
        # From the inputs of all blocks to the outputs of one, which is that of the identity.
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
    """Return [|G| · out, |G| · in] the weights to all blocks from those to the identity's [out, |G| · in]."""
    blocks = weight.unflatten(-1, (len(between), -1))
    return blocks[:, between].movedim(1, 0).flatten(2).flatten(0, 1)


def orthogonal(outputs: int, inputs: int, gain: float) -> Tensor:
    return nn.init.orthogonal_(torch.empty(outputs, inputs), gain)
