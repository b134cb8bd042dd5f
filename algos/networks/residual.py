"""A residual MLP: ``depth`` blocks of two layers, whose output is added to their input so that depth does no harm.

Each block, and the last layer, normalises its input first (Xiong et al. 2020).
"""

from __future__ import annotations

from torch import Tensor, nn

from drest_torch.algos.networks.base import Flat, NetworkSize, Requirements, Signature, linear

REQUIRES = Requirements(min_depth=1)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    blocks = [Block(size) for _ in range(size.depth)]
    first = linear(signature.inputs, size.width, 1.0)
    last = linear(size.width, signature.outputs, signature.last_gain)
    return Flat(signature, nn.Sequential(first, *blocks, nn.LayerNorm(size.width), last))


class Block(nn.Module):
    """A residual block on rows [n, width]: the input plus the output of two layers."""

    def __init__(self, size: NetworkSize) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(size.width),
            linear(size.width, size.width, 2**0.5),
            size.new_activation(),
            # All blocks together add about as much as the input of the first.
            linear(size.width, size.width, size.depth**-0.5),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        added: Tensor = self.layers(inputs)
        return inputs + added
