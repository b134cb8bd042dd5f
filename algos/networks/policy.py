"""Policies and critics. A policy sees an observation and its private bits, and nothing else.

The inputs of a policy limit what it can depend on. The paper's argument rests on mini-episodes that the policy cannot
tell apart, so only the critic sees the counts of the meta-episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import Flat, NetworkSize, Shape, Signature, Symmetries, requirements
from drest_torch.algos.networks.convolutional import Kept, MapEncoder

PRIVATE_SCALE = 4.0
"""Networks see private bits, from 0 to 1, as numbers from -LOUD to LOUD. A policy can act on a bit only if the bit
changes its logits. Acting differently on 0 and 1 pays from the start, but little while the actions hardly differ."""


class _Network(nn.Module):
    """A network of the kind that ``size`` names; on top of a policy's, if one is given and the kind can be built so."""

    def __init__(self, signature: Signature, size: NetworkSize, policy: Policy | None = None) -> None:
        super().__init__()
        required, kind = requirements(size.network), NETWORKS[size.network]
        if (signature.symmetries is None) != (required.symmetries is None):
            raise ValueError(f"the network '{size.network}' is built with symmetries of: {required.symmetries}")
        self.net: Any
        if policy is not None and hasattr(kind, "build_critic"):
            self.net = kind.build_critic(signature, size, policy.net)
        else:
            self.net = kind.build(signature, size)
        self.memory, self.reads_maps = memory_of(self.net), required.reads_maps


class Policy(_Network):
    """A policy from observations [n, *shape] and, if it has any, private bits [n, noise] to outputs [n, A].

    The outputs are the logits of actions, or what another distribution of `drest_torch.algos.distributions` has as its
    parameters.

    ``scale`` broadcasts to ``shape`` and brings observations to a magnitude of about 1. ``symmetries`` are those that
    the network of ``size`` requires (`Requirements`). The outputs of an untrained policy are about 0, or about the
    ``offset`` [A].
    """

    offset: Tensor | None

    def __init__(
        self,
        shape: Sequence[int],
        num_actions: int,
        size: NetworkSize,
        *,
        scale: Tensor,
        private_bits: int = 0,
        symmetries: Symmetries | None = None,
        offset: Tensor | None = None,
        entries: Sequence[Shape] = (),
    ) -> None:
        super().__init__(Signature(shape, scale, private_bits, num_actions, 0.01, symmetries, entries), size)
        self.register_buffer("offset", offset, persistent=False)
        self.private_bits = private_bits

    def forward(self, observation: Tensor, private_bits: Tensor | None = None) -> Tensor:
        """Return the outputs; if there is a memory, what was read, for `recall`."""
        further = scale_private_bits(private_bits) if private_bits is not None and self.private_bits else None
        outputs: Tensor = self.net(observation, further)
        return outputs if self.offset is None or self.memory else outputs + self.offset

    def recall(self, *read: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs and the memory that follow from what was read, as the network does."""
        outputs, memory = self.net.recall(*read)
        return outputs if self.offset is None else outputs + self.offset, memory


class Critic(_Network):
    """A critic from observations, the policy's private bits, and features of the meta-episode [n, context] to values
    [n].

    A network with a function ``build_critic`` builds it on top of the ``policy``, if one is given.
    """

    def __init__(
        self,
        shape: Sequence[int],
        size: NetworkSize,
        *,
        scale: Tensor,
        private_bits: int = 0,
        context: int = 0,
        symmetries: Symmetries | None = None,
        policy: Policy | None = None,
        entries: Sequence[Shape] = (),
    ) -> None:
        of_a_value = None if symmetries is None else symmetries.of_a_value()
        super().__init__(Signature(shape, scale, private_bits + context, 1, 1.0, of_a_value, entries), size, policy)

    def forward(
        self,
        observation: Tensor,
        private_bits: Tensor | None = None,
        context: Tensor | None = None,
        seen: Tensor | None = None,
    ) -> Tensor:
        """Return the values [n]; if there is a memory, what was read, for `recall`.

        With ``seen`` [n], observation and private bits of n are those of this index.
        """
        private = None if private_bits is None else scale_private_bits(private_bits)
        if seen is not None and context is not None and isinstance(self.net, Flat):
            values = self.net.at_steps(observation, private, context, seen)
        else:
            if seen is not None:
                observation, private = observation[seen], None if private is None else private[seen]
            further = [part for part in (private, context) if part is not None]
            values = self.net(observation, torch.cat(further, dim=-1) if further else None)
        return values if self.memory else values.squeeze(-1)

    def recall(self, *read: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values [n] and the memory that follow from what was read, as the network does."""
        values, memory = self.net.recall(*read)
        return values.squeeze(-1), memory


def memory_of(network: Any) -> int:
    """Return how many numbers a network remembers from step to step: 0 unless it is recurrent."""
    return getattr(network, "memory", 0)


@contextmanager
def weights_unchanged(*networks: nn.Module | None) -> Iterator[None]:
    """Keep the encodings of maps, so that each map is encoded once; the weights must not change meanwhile."""
    reading = [network for network in networks if network is not None and getattr(network, "reads_maps", True)]
    parts = {part for network in reading for part in network.modules() if isinstance(part, MapEncoder)}
    encoders = [encoder for encoder in parts if encoder.kept is None]
    for encoder in encoders:
        encoder.kept = Kept()
    try:
        yield
    finally:
        for encoder in encoders:
            encoder.kept = None


def scale_private_bits(private_bits: Tensor) -> Tensor:
    """Return private bits scaled as networks see them."""
    return PRIVATE_SCALE * (2 * private_bits - 1)


def private_settings(bits: int) -> Tensor:
    """Return every setting of the private bits: [2^bits, bits]."""
    return settings_of(torch.arange(1 << bits), bits)


def settings_of(number: Tensor, bits: int) -> Tensor:
    """Return the settings of the private bits with these numbers [n]: [n, bits]."""
    return (number.unsqueeze(-1) >> torch.arange(bits, device=number.device) & 1).float()


def number_of(setting: Tensor) -> Tensor:
    """Return the numbers [...] of settings of the private bits [..., bits]."""
    return (setting.long() << torch.arange(setting.shape[-1], device=setting.device)).sum(-1)
