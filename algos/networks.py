"""MLP policies and critics. A policy sees an observation and its private noise, and nothing else.

What it is given decides what it can depend on: the paper's argument rests on mini-episodes that look
alike, so the meta-episode's counts go to the critic alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from algos.symmetric import SymmetricMLP, Symmetries

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "gelu": nn.GELU}


@dataclass(frozen=True)
class Size:
    """Hidden layers of an MLP."""

    width: int = 256
    depth: int = 3
    activation: str = "relu"


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


class _Head(nn.Module):
    """An MLP on a flattened, scaled observation and some further numbers, with symmetries built in or not."""

    scale: Tensor

    def __init__(
        self,
        shape: Sequence[int],
        scale: Tensor,
        further: int,
        outputs: int,
        size: Size,
        symmetries: Symmetries | None,
        *,
        last_gain: float,
    ) -> None:
        super().__init__()
        self.register_buffer("scale", scale.expand(*shape).reshape(-1).clone(), persistent=False)
        self.body: nn.Module
        if symmetries is None:
            self.body = mlp(len(self.scale) + further, outputs, size, last_gain=last_gain)
        else:
            self.body = SymmetricMLP(
                symmetries, further, size.width, size.depth, _activation(size), last_gain=last_gain
            )

    def forward(self, observation: Tensor, further: Tensor | None = None) -> Tensor:
        seen = observation.flatten(1) * self.scale
        return self.body(seen if further is None else torch.cat((seen, further), dim=-1))


class Policy(nn.Module):
    """Logits of the actions [n, A] from observations [n, *shape] and, if it has any, private noise [n, noise].

    ``scale`` broadcasts to ``shape`` and brings an observation to about 1. At first every action is about
    as likely as any other.
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
        self.noise = noise
        self.net = _Head(shape, scale, noise, num_actions, size, symmetries, last_gain=0.01)

    def forward(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        return self.net(observation, noise)


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
        self.net = _Head(shape, scale, noise + context, 1, size, turned, last_gain=1.0)

    def forward(self, observation: Tensor, noise: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        given = [each for each in (noise, context) if each is not None]
        return self.net(observation, torch.cat(given, dim=-1) if given else None).squeeze(-1)
