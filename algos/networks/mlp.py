"""A multi-layer perceptron: ``depth`` hidden layers of ``width`` units."""

from __future__ import annotations

from torch import nn

from drest_torch.algos.networks.base import Flat, NetworkSize, Signature, linear


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    """Build the network."""
    layers: list[nn.Module] = []
    inputs = signature.inputs
    for _ in range(size.depth):
        layers += [linear(inputs, size.width, 2**0.5), size.new_activation()]
        inputs = size.width
    return Flat(signature, nn.Sequential(*layers, linear(inputs, signature.outputs, signature.last_gain)))
