"""What networks are built from, and what they have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from algos.networks.layout import MapLayout

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU, "gelu": nn.GELU}


@dataclass(frozen=True)
class Size:
    """Kind and size of a network; each kind says what width and depth count."""

    width: int = 256
    depth: int = 3
    activation: str = "relu"
    network: str = "mlp"
    """A name in `algos.networks.NETWORKS`"""
    once: bool = True
    """Whether a network that reads maps looks for those that are alike, and reads each once."""

    def new_activation(self) -> nn.Module:
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"no activation '{self.activation}'; expected one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[self.activation]()


@dataclass(frozen=True)
class Symmetries:
    """A group of |G| elements, by what each does to inputs and to outputs."""

    inputs: Tensor
    """[|G|, F] turned by g, an input x is ``x[..., inputs[g]]``; no two elements are alike"""
    outputs: Tensor
    """[|G|, O] turned by g, output o is output ``outputs[g, o]``; each can be turned into any other"""
    layout: MapLayout | None = None
    """For networks that read maps, whose inputs are three by three cells"""

    def of_a_value(self) -> Symmetries:
        """Return the same inputs, and a single output that does not change when they are turned."""
        return replace(self, outputs=torch.zeros_like(self.outputs[:, :1]))

    def between(self) -> Tensor:
        """Return [|G|, |G|] which element g⁻¹h is: turned by h and then by g⁻¹, x is ``x[inputs[h]][inputs[g⁻¹]]``."""
        back = self.inputs.argsort(-1)
        both = torch.stack([self.inputs[:, places] for places in back])
        return (both.unsqueeze(2) == self.inputs).all(-1).int().argmax(-1)


@dataclass(frozen=True)
class Signature:
    """What goes into a network, [n, *shape] observations and [n, further] numbers, and the [n, outputs] that come out.

    The further numbers are private noise and, for a critic, what is known of the meta-episode.
    """

    shape: Sequence[int]
    scale: Tensor
    """Broadcasts to ``shape``: observations times this are about 1"""
    further: int
    outputs: int
    last_gain: float
    """Gain of the last layer's weights: small for a policy, whose actions are to be about equally likely at first"""
    symmetries: Symmetries | None = None
    """If the network requires any"""

    @property
    def inputs(self) -> int:
        """How many numbers an observation and the further numbers are together."""
        return math.prod(self.shape) + self.further


@dataclass(frozen=True)
class Requirements:
    """What a network needs of the configuration; anything goes unless it is stated here."""

    observations: tuple[str, ...] = ()
    """The observations that it can read, the usual one first; none stated: any"""
    because: str = ""
    """What is wrong with another observation: "which …" """
    symmetries: Literal["observation", "cells"] | None = None
    """The symmetries that it is given: of the whole observation, whose maps are then padded to squares, or of three by
    three cells"""
    width_multiple: int = 1
    min_depth: int = 0
    reads_maps: bool = False
    """Whether it reads a map once for all states on it, so that to ask it in every state costs little more"""


class Flat(nn.Module):
    """A network whose ``body`` is given each observation, scaled, and the further numbers as one row."""

    scale: Tensor

    def __init__(self, signature: Signature, body: nn.Module) -> None:
        super().__init__()
        scale = signature.scale.expand(*signature.shape).reshape(-1).clone()
        self.register_buffer("scale", scale, persistent=False)
        self.body = body

    def forward(self, observation: Tensor, further: Tensor | None = None) -> Tensor:
        inputs = observation.flatten(1) * self.scale
        return self.body(inputs if further is None else torch.cat((inputs, further), dim=-1))


def linear(inputs: int, outputs: int, gain: float) -> nn.Linear:
    """Return a layer with orthogonal weights and no biases yet."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
