"""An MLP on an environment's observation, with convolutions for its images.

Without an image it is the MLP, weight for weight. An image is an entry with three dimensions, [height, width, channels]
or [channels, height, width]; the smaller one of the first and the last dimension is taken to be the channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from drest_torch.algos.networks import mlp
from drest_torch.algos.networks.base import Flat, NetworkSize, Shape, Signature, perceptron

CHANNELS = (16, 32)
LARGE = 24
"""Images with more rows or columns are convolved with a stride of two."""


class Entries(nn.Module):
    """An MLP on the features of images, from convolutions, and on all other entries."""

    def __init__(self, signature: Signature, size: NetworkSize) -> None:
        super().__init__()
        self.sizes = [math.prod(shape) for shape in signature.entries]
        images = {str(i): _Image(shape, size) for i, shape in enumerate(signature.entries) if len(shape) == 3}
        self.images = nn.ModuleDict(images)
        with torch.no_grad():
            features = self._features(torch.zeros(1, signature.inputs)).shape[1]
        self.mlp = perceptron(features, size, signature)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs of rows [n, F]: the entries one after the other, then the further numbers."""
        return self.mlp(self._features(inputs))

    def _features(self, inputs: Tensor) -> Tensor:
        parts = list(inputs.split([*self.sizes, inputs.shape[1] - sum(self.sizes)], dim=-1))
        for name, image in self.images.items():
            parts[int(name)] = image(parts[int(name)])
        return torch.cat(parts, -1)


class _Image(nn.Module):
    """Two layers of 3 × 3 convolutions."""

    def __init__(self, shape: Shape, size: NetworkSize) -> None:
        super().__init__()
        self.shape, self.last = shape, shape[2] <= shape[0]
        channels, *sides = (shape[2], shape[0], shape[1]) if self.last else shape
        step = 2 if max(sides) > LARGE else 1
        layers: list[nn.Module] = []
        for outputs in CHANNELS:
            layers += [nn.Conv2d(channels, outputs, 3, stride=step, padding=1), size.new_activation()]
            channels = outputs
        self.layers = nn.Sequential(*layers, nn.Flatten())

    def forward(self, rows: Tensor) -> Tensor:
        image = rows.reshape(len(rows), *self.shape)
        return self.layers(image.permute(0, 3, 1, 2) if self.last else image)


def build(signature: Signature, size: NetworkSize) -> nn.Module:
    if all(len(shape) != 3 for shape in signature.entries):
        return mlp.build(signature, size)
    return Flat(signature, Entries(signature, size))
