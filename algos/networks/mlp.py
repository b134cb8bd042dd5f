"""Policies and critics. A policy sees an observation and its private noise, and nothing else.

What it is given decides what it can depend on: the paper's argument rests on mini-episodes that look
alike, so the meta-episode's counts go to the critic alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from algos.networks.convolutional import MapNet
from algos.networks.symmetric import SymmetricMLP, Symmetries

LOUD = 4.0
"""Private noise from 0 to 1 reaches a network as numbers from -LOUD to LOUD. Only who hears a coin can act on it: to
do one thing on heads and another on tails pays from the start, but the more, the more it is done."""

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "gelu": nn.GELU}


@dataclass(frozen=True)
class Size:
    """Hidden layers of an MLP, or what corresponds to them."""

    width: int = 256
    depth: int = 3
    activation: str = "relu"
    reads_maps: bool = False
    """With channels for units, and for layers 3 × 3 convolutions."""
    once: bool = True
    """Whether a network that reads maps looks for those that are alike, and reads each once."""


def mlp(inputs: int, outputs: int, size: Size, *, last_gain: float) -> nn.Sequential:
    """Orthogonal weights, the last ones scaled by ``last_gain``."""
    layers: list[nn.Module] = []
    for _ in range(size.depth):
        layers += [_linear(inputs, size.width, 2**0.5), _activation(size)]
        inputs = size.width
    return nn.Sequential(*layers, _linear(inputs, outputs, last_gain))


def _activation(size: Size) -> nn.Module:
    if size.activation not in ACTIVATIONS:
        raise ValueError(f"no activation '{size.activation}'; expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[size.activation]()


def _linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class _Flat(nn.Module):
    """A body that is given a flattened, scaled observation and some further numbers."""

    scale: Tensor

    def __init__(self, shape: Sequence[int], scale: Tensor, body: nn.Module) -> None:
        super().__init__()
        self.register_buffer("scale", scale.expand(*shape).reshape(-1).clone(), persistent=False)
        self.body = body

    def forward(self, observation: Tensor, further: Tensor | None = None) -> Tensor:
        seen = observation.flatten(1) * self.scale
        return self.body(seen if further is None else torch.cat((seen, further), dim=-1))


def _net(
    shape: Sequence[int],
    scale: Tensor,
    further: int,
    outputs: int,
    size: Size,
    symmetries: Symmetries | None,
    *,
    last_gain: float,
) -> nn.Module:
    """Outputs [n, O] from observations and further numbers [n, F]."""
    if symmetries is None:
        return _Flat(shape, scale, mlp(math.prod(shape) + further, outputs, size, last_gain=last_gain))
    layers = size.width, size.depth, _activation(size)
    if size.reads_maps:
        return MapNet(shape[0], further, symmetries, *layers, once=size.once, last_gain=last_gain)
    return _Flat(shape, scale, SymmetricMLP(symmetries, further, *layers, last_gain=last_gain))


class Policy(nn.Module):
    """Logits of the actions [n, A] from observations [n, *shape] and, if it has any, private noise [n, noise].

    ``scale`` broadcasts to ``shape`` and brings an observation to about 1. ``symmetries`` are those of observations,
    for networks that read maps those of three by three cells. At first all actions are about equally likely.
    """

    def __init__(
        self,
        shape: Sequence[int],
        num_actions: int,
        size: Size,
        *,
        scale: Tensor,
        noise: int = 0,
        symmetries: Symmetries | None = None,
    ) -> None:
        super().__init__()
        self.noise, self.reads_maps = noise, size.reads_maps
        self.net = _net(shape, scale, noise, num_actions, size, symmetries, last_gain=0.01)

    def forward(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        return self.net(observation, loud(noise) if noise is not None and self.noise else None)


class Critic(nn.Module):
    """Values [n] from observations, the policy's noise, and what is known of the meta-episode [n, context]."""

    def __init__(
        self,
        shape: Sequence[int],
        size: Size,
        *,
        scale: Tensor,
        noise: int = 0,
        context: int = 0,
        symmetries: Symmetries | None = None,
    ) -> None:
        super().__init__()
        turned = None if symmetries is None else symmetries.of_a_value()
        self.net = _net(shape, scale, noise + context, 1, size, turned, last_gain=1.0)

    def forward(self, observation: Tensor, noise: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        given = [each for each in (None if noise is None else loud(noise), context) if each is not None]
        return self.net(observation, torch.cat(given, dim=-1) if given else None).squeeze(-1)


def loud(noise: Tensor) -> Tensor:
    """Private noise as networks are given it."""
    return LOUD * (2 * noise - 1)


def settings(bits: int) -> Tensor:
    """[2^bits, bits] every setting of the bits of private noise."""
    return (torch.arange(1 << bits).unsqueeze(-1) >> torch.arange(bits) & 1).float()
