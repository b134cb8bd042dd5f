"""Policies and critics. A policy sees an observation and its private noise, and nothing else.

What it is given decides what it can depend on: the paper's argument rests on mini-episodes that look
alike, so the meta-episode's counts go to the critic alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from algos.networks import NETWORKS, requirements
from algos.networks.base import Signature, Size, Symmetries

LOUD = 4.0
"""Private noise from 0 to 1 reaches a network as numbers from -LOUD to LOUD. Only who hears a coin can act on it: to
do one thing on heads and another on tails pays from the start, but the more, the more it is done."""


class Policy(nn.Module):
    """Logits of the actions [n, A] from observations [n, *shape] and, if it has any, private noise [n, noise].

    ``scale`` broadcasts to ``shape`` and brings an observation to about 1. ``symmetries`` are those that the network
    of ``size`` requires (`algos.networks.base.Requirements`). At first all actions are about equally likely.
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
        self.noise, self.reads_maps = noise, requirements(size.network).reads_maps
        self.net = _network(Signature(shape, scale, noise, num_actions, 0.01, symmetries), size)

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
        of_a_value = None if symmetries is None else symmetries.of_a_value()
        self.net = _network(Signature(shape, scale, noise + context, 1, 1.0, of_a_value), size)

    def forward(self, observation: Tensor, noise: Tensor | None = None, context: Tensor | None = None) -> Tensor:
        further = [part for part in (None if noise is None else loud(noise), context) if part is not None]
        return self.net(observation, torch.cat(further, dim=-1) if further else None).squeeze(-1)


def _network(signature: Signature, size: Size) -> nn.Module:
    """Build a network that is given what it requires."""
    required = requirements(size.network).symmetries
    if (signature.symmetries is None) != (required is None):
        raise ValueError(f"the network '{size.network}' is built with symmetries of: {required}")
    network: nn.Module = NETWORKS[size.network].build(signature, size)
    return network


def loud(noise: Tensor) -> Tensor:
    """Return private noise as networks are given it."""
    return LOUD * (2 * noise - 1)


def settings(bits: int) -> Tensor:
    """Return [2^bits, bits] every setting of the bits of private noise."""
    return (torch.arange(1 << bits).unsqueeze(-1) >> torch.arange(bits) & 1).float()
