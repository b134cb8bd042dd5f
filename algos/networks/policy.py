"""Policies and critics. A policy sees only an observation and its private bits.

The paper's argument rests on mini-episodes that the policy cannot tell apart, so only the critic sees the counts of the
meta-episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from drest_torch.algos.networks import NETWORKS
from drest_torch.algos.networks.base import CachedWeights, Flat, NetworkSize, Signature, Symmetries, requirements

PRIVATE_SCALE = 4.0
"""Networks see private bits, 0 or 1, as numbers -PRIVATE_SCALE or PRIVATE_SCALE. A policy can act on a bit only if the
bit changes its logits. Acting differently on 0 and 1 pays from the start, but little while the actions hardly
differ."""


class _Network(nn.Module):
    """A network of the kind in ``size``, built on the network of a ``policy`` if the kind supports this."""

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
        self.builds = [part for part in self.net.modules() if isinstance(part, CachedWeights)]
        """The parts with a cache of weights."""
        self.rounds_inputs = getattr(self.net, "rounds_inputs", False)
        """True if the first operation on observations is a matrix product, so that they may be rounded before it."""
        self.memory, self.reads_maps = memory_of(self.net), requirements(size.network).reads_maps

    def forward(
        self,
        observation: Tensor,
        private_bits: Tensor | None = None,
        context: Tensor | None = None,
        index: Tensor | None = None,
    ) -> Tensor:
        """Return the outputs, or, for a network with a memory, the encodings for `recall`.

        An ``index`` [n] selects the rows of observation and private bits for n steps, but not those of ``context``.
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
        """Return the outputs and the memory after these encodings."""
        outputs, memory = self.net.recall(*read)
        return self.finished(outputs), memory

    def finished(self, outputs: Tensor) -> Tensor:
        """Return the final outputs for outputs of the network."""
        raise NotImplementedError


class Policy(_Network):
    """A policy from observations [n, *shape] and any private bits [n, bits] to outputs [n, A].

    The outputs are the logits of actions, or the parameters of another distribution of
    `drest_torch.algos.distributions`. An untrained policy's outputs are about 0, or about the ``offset`` [A]. Other
    keyword arguments are passed to `Signature`.
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
        **inputs: Any,
    ) -> None:
        signature = Signature(shape, further=private_bits, outputs=num_actions, last_gain=0.01, **inputs)
        super().__init__(signature, size, private_bits)
        self.register_buffer("offset", offset, persistent=False)

    def finished(self, outputs: Tensor) -> Tensor:
        return outputs if self.offset is None else outputs + self.offset


class Critic(_Network):
    """A critic from observations, the policy's private bits, and features of the meta-episode [n, context] to values.

    A network with a function ``build_critic`` builds it on the network of the ``policy``. Other keyword arguments are
    passed to `Signature`.
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
        **inputs: Any,
    ) -> None:
        inputs["symmetries"] = None if symmetries is None else symmetries.of_a_value()
        signature = Signature(shape, further=private_bits + context, outputs=1, last_gain=1.0, **inputs)
        super().__init__(signature, size, private_bits, policy)

    def finished(self, outputs: Tensor) -> Tensor:
        return outputs.squeeze(-1)


def memory_of(network: Any) -> int:
    """Return the size of a network's memory: 0 unless it is recurrent."""
    return getattr(network, "memory", 0)


@contextmanager
def weights_unchanged(*networks: nn.Module | None) -> Iterator[None]:
    """Cache the encodings of maps and built weights; within the context no parameter may change."""
    caching = []
    for network in networks:
        for part in getattr(network, "builds", ()):
            if part.cache is None:
                part.keep()
                caching.append(part)
    try:
        yield
    finally:
        for part in caching:
            part.forget()


def scale_private_bits(private_bits: Tensor) -> Tensor:
    """Return private bits, scaled as inputs of networks."""
    return PRIVATE_SCALE * (2 * private_bits - 1)


def private_settings(bits: int) -> Tensor:
    """Return every setting of the private bits: [2^bits, bits]."""
    return settings_of(torch.arange(1 << bits), bits)


def settings_of(number: Tensor, bits: int) -> Tensor:
    """Return the settings [n, bits] of the private bits with these numbers [n]."""
    return (number.unsqueeze(-1) >> torch.arange(bits, device=number.device) & 1).float()


def number_of(setting: Tensor) -> Tensor:
    """Return the numbers [...] of settings of the private bits [..., bits]."""
    return (setting.long() << torch.arange(setting.shape[-1], device=setting.device)).sum(-1)
