"""A multi-layer perceptron: ``depth`` hidden layers of ``width`` units."""

from __future__ import annotations

from torch import nn

from drest_torch.algos.networks.base import Flat, NetworkSize, Signature, perceptron


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    return Flat(signature, perceptron(signature.inputs, size, signature))
