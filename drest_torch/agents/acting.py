"""The state of an acting agent: random generator, private bits of the mini-episode, and memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ActingState:
    """A policy and its state between two observations."""

    def __init__(self, policy: Any, device: torch.device) -> None:
        self.policy, self.device = policy, device
        self.generator = torch.Generator(device)
        self.private_bits: Tensor | None = None
        self.memory: Tensor | None = None

    def seed(self, seed: int) -> None:
        """Seed the generator, and forget private bits and memory."""
        self.generator.manual_seed(seed)
        self.private_bits = self.memory = None

    @torch.no_grad()
    def outputs(self, observations: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the outputs of the policy for observations [n, …] and its new memory, if it has one."""
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
        """Return the private bits of the observations [count, bits]; sample them if there are none yet."""
        if not self.policy.private_bits:
            return None
        if self.private_bits is None or len(self.private_bits) != count:
            numbers = torch.rand(count, self.policy.private_bits, generator=self.generator, device=self.device)
            self.private_bits = (numbers < 0.5).float()
        return self.private_bits
