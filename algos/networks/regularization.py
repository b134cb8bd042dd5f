"""Regularisation of hidden layers: normalisation (`policy.norm`) and dropout (`policy.dropout`).

A hidden layer is linear → norm → activation → dropout. An equivariant layer has a block of units for each symmetry;
blocks share gains, biases and dropped units, and statistics are of all blocks, so the layer stays equivariant.

Dropout trains a sub-network in each update: within `sub_network` every layer has one mask, the same for all rows.
Which rows a batch has, how often a state occurs in it, and how it is divided into parts therefore make no difference,
and exact gradients are those of the sub-network. A sampled batch is played with the sub-network that is trained on it.
Elsewhere, as in evaluation, all units are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, rms_norm

from drest_torch.errors import ConfigError

EPSILON = 1e-5
"""Epsilon in the denominators of norms."""


class BlockLayerNorm(nn.LayerNorm):
    """Layer normalisation of units [n, blocks · units], with gains and biases that the blocks share."""

    def __init__(self, units: int, blocks: int = 1) -> None:
        super().__init__(units, eps=EPSILON)
        self.blocks = blocks

    def forward(self, input: Tensor) -> Tensor:
        gain, bias = self.weight.repeat(self.blocks), self.bias.repeat(self.blocks)
        return layer_norm(input, gain.shape, gain, bias, self.eps)


class BlockRMSNorm(nn.RMSNorm):
    """Normalisation of the mean square of units [n, blocks · units], with gains that the blocks share."""

    def __init__(self, units: int, blocks: int = 1) -> None:
        super().__init__(units, eps=EPSILON)
        self.blocks = blocks

    def forward(self, x: Tensor) -> Tensor:
        gain = self.weight.repeat(self.blocks)
        return rms_norm(x, gain.shape, gain.to(x), self.eps)


NORMS: dict[str, type[BlockLayerNorm | BlockRMSNorm]] = {"layer": BlockLayerNorm, "rms": BlockRMSNorm}
"""Norms by the value of `policy.norm`."""


class UnitDropout(nn.Module):
    """Dropout of a ``share`` of units, along dimension 1 of inputs [n, blocks · units, …].

    Within `sub_network` the remaining units are scaled by 1 / (1 - share), so that means are preserved.
    """

    def __init__(self, share: float, units: int, blocks: int = 1) -> None:
        super().__init__()
        self.share, self.units, self.blocks = share, units, blocks
        self.mask: Tensor | None = None
        """The factors [blocks · units] of the units within `sub_network`."""

    def sample(self, rng: torch.Generator) -> None:
        """Sample the units that remain."""
        remains = torch.rand(self.units, generator=rng, device=rng.device) >= self.share
        self.mask = remains.repeat(self.blocks) / (1 - self.share)

    def forward(self, values: Tensor) -> Tensor:
        if self.mask is None:
            return values
        shape = [-1, *[1] * (values.ndim - 2)]
        return values * self.mask.to(values).reshape(shape)  # [n, blocks · units, …]


@contextmanager
def sub_network(network: nn.Module, rng: torch.Generator) -> Iterator[None]:
    """Drop units of a network within the context, sampled from ``rng``.

    Outputs and encodings that are cached before the context belong to the whole network.
    """
    layers = [part for part in network.modules() if isinstance(part, UnitDropout)]
    for layer in layers:
        layer.sample(rng)
    try:
        yield
    finally:
        for layer in layers:
            layer.mask = None


def check_layers(network: nn.Module, policy: Any) -> None:
    """Raise if the network of a configured ``policy`` does not have the norms or the dropout that it asks for."""
    kinds: dict[str, Any] = {"dropout": UnitDropout}
    if policy.norm is not None:
        kinds["norm"] = NORMS[policy.norm]
    for key, kind in kinds.items():
        value = getattr(policy, key)
        if value and not any(isinstance(part, kind) for part in network.modules()):
            raise ConfigError(
                f"policy.{key}={value}, but policy.network={policy.network} with policy.depth={policy.depth} has no "
                f"hidden layer with it; leave policy.{key} out, or choose another network"
            )
