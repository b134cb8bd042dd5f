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
from drest_torch.algos.networks.base import Built, Flat, NetworkSize, Signature, Symmetries, requirements

PRIVATE_SCALE = 4.0
"""Networks see private bits, from 0 to 1, as numbers from -LOUD to LOUD. A policy can act on a bit only if the bit
changes its logits. Acting differently on 0 and 1 pays from the start, but little while the actions hardly differ."""


class _Network(nn.Module):
    """A network of the kind that ``size`` names; on top of a policy's, if one is given and the kind can be built so."""

    def __init__(
        self, signature: Signature, size: NetworkSize, private_bits: int, policy: Policy | None = None
    ) -> None:
        super().__init__()
        kind = NETWORKS[size.network]
        self.net: Any
        if policy is not None and hasattr(kind, "build_critic"):
            self.net = kind.build_critic(signature, size, policy.net)
        else:
            self.net = kind.build(signature, size)
        self.private_bits = private_bits
        self.builds = [part for part in self.net.modules() if isinstance(part, Built)]
        """The parts that can keep what they build while weights do not change."""
        self.rounds_inputs = getattr(self.net, "rounds_inputs", False)
        """Whether observations are first of all factors of a product, which may be rounded before."""
        self.memory, self.reads_maps = memory_of(self.net), requirements(size.network).reads_maps

    def forward(
        self,
        observation: Tensor,
        private_bits: Tensor | None = None,
        context: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Tensor:
        """Return the outputs; if there is a memory, what was read, for `recall`.

        With an ``index`` [n], observation and private bits of n are those that it names; the ``context`` [n, …] is not.
        """
        private = scale_private_bits(private_bits) if private_bits is not None and self.private_bits else None
        if index is not None and context is not None and isinstance(self.net, Flat) and self.net.begins_linear:
            outputs = self.net.at_steps(observation, private, context, index)
        else:
            at = slice(None) if index is None else index
            further = [*([] if private is None else [private[at]]), *([] if context is None else [context])]
            outputs = self.net(observation[at], torch.cat(further, dim=-1) if further else None)
        return outputs if self.memory else self.finished(outputs)

    def recall(self, *read: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs and the memory that follow from what was read, as the network does."""
        outputs, memory = self.net.recall(*read)
        return self.finished(outputs), memory

    def finished(self, outputs: Tensor) -> Tensor:
        """Return the outputs from those of the network."""
        raise NotImplementedError


class Policy(_Network):
    """A policy from observations [n, *shape] and, if it has any, private bits [n, noise] to outputs [n, A].

    The outputs are the logits of actions, or what another distribution of `drest_torch.algos.distributions` has as its
    parameters. Those of an untrained policy are about 0, or about the ``offset`` [A]. What else is ``seen`` is that of
    the `Signature`.
    """

    offset: Tensor | None

    def __init__(
        self,
        shape: Sequence[int],
        num_actions: int,
        size: NetworkSize,
        *,
        private_bits: int = 0,
        offset: Tensor | None = None,
        **seen: Any,
    ) -> None:
        signature = Signature(shape, further=private_bits, outputs=num_actions, last_gain=0.01, **seen)
        super().__init__(signature, size, private_bits)
        self.register_buffer("offset", offset, persistent=False)

    def finished(self, outputs: Tensor) -> Tensor:
        return outputs if self.offset is None else outputs + self.offset


class Critic(_Network):
    """A critic from observations, the policy's private bits, and features of the meta-episode [n, context] to values
    [n].

    A network with a function ``build_critic`` builds it on top of the ``policy``, if one is given. What else is
    ``seen`` is that of the `Signature`.
    """

    def __init__(
        self,
        shape: Sequence[int],
        size: NetworkSize,
        *,
        private_bits: int = 0,
        context: int = 0,
        symmetries: Symmetries | None = None,
        policy: Policy | None = None,
        **seen: Any,
    ) -> None:
        seen["symmetries"] = None if symmetries is None else symmetries.of_a_value()
        signature = Signature(shape, further=private_bits + context, outputs=1, last_gain=1.0, **seen)
        super().__init__(signature, size, private_bits, policy)

    def finished(self, outputs: Tensor) -> Tensor:
        return outputs.squeeze(-1)


def memory_of(network: Any) -> int:
    """Return how many numbers a network remembers from step to step: 0 unless it is recurrent."""
    return getattr(network, "memory", 0)


@contextmanager
def weights_unchanged(*networks: nn.Module | None) -> Iterator[None]:
    """Keep the encodings of maps and the weights that are built from others; no weight must change meanwhile."""
    kept = []
    for network in networks:
        for part in getattr(network, "builds", ()):
            if part.kept is None:
                part.keep()
                kept.append(part)
    try:
        yield
    finally:
        for part in kept:
            part.forget()


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
