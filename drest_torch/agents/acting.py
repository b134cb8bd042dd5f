"""The state of an agent that acts: its random numbers, the private bits of a mini-episode, and its memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Acting:
    """A policy between one observation and the next."""

    def __init__(self, policy: Any, device: torch.device) -> None:
        self.policy, self.device = policy, device
        self.generator = torch.Generator(device)
        self.private_bits: Tensor | None = None
        self.memory: Tensor | None = None

    def seed(self, seed: int) -> None:
        """Begin anew with the random numbers of a seed."""
        self.generator.manual_seed(seed)
        self.private_bits = self.memory = None

    @torch.no_grad()
    def outputs(self, observations: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the outputs of the policy for observations [n, …], and what it remembers after them, if anything."""
        count = len(observations)
        outputs = self.policy(observations, self.bits_of(count))
        if not self.policy.memory:
            return outputs, self.memory
        memory = self.memory
        if memory is None or len(memory) != count:
            memory = outputs.new_zeros(count, 1, self.policy.memory)
        begins = torch.zeros(count, 1, dtype=torch.bool, device=self.device)
        outputs, memory = self.policy.recall(outputs, begins, memory)
        return outputs, memory

    def bits_of(self, count: int) -> Tensor | None:
        """Return the private bits of each observation [count, bits]; sample them if there are none yet."""
        if not self.policy.private_bits:
            return None
        if self.private_bits is None or len(self.private_bits) != count:
            numbers = torch.rand(count, self.policy.private_bits, generator=self.generator, device=self.device)
            self.private_bits = (numbers < 0.5).float()
        return self.private_bits
