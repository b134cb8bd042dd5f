"""Random numbers for agents that train side by side: each has its own generator and gets the numbers it gets alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor


class Generators:
    """The generators of A agents; results hold the numbers of the first agent, then those of the second, and so on."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = list(generators)
        self.device = self.generators[0].device

    @classmethod
    def of(cls, source: Generators | torch.Generator) -> Generators:
        """Return ``source`` as `Generators`: a single generator is that of a single agent."""
        return source if isinstance(source, Generators) else cls([source])

    @property
    def agents(self) -> int:
        return len(self.generators)

    def uniform(self, count: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Sample numbers in [0, 1) of shape [count, *shape]; ``count`` is the total over all agents."""
        share = count // self.agents

        def sample(generator: torch.Generator) -> Tensor:
            return torch.rand(share, *shape, generator=generator, device=self.device, dtype=dtype)

        return self._joined(sample)

    def order(self, count: int) -> Tensor:
        """Sample a permutation of the numbers below ``count`` for each agent: [A, count]."""
        orders = self._joined(lambda generator: torch.randperm(count, generator=generator, device=self.device))
        return orders.unflatten(0, (self.agents, count))

    def tensors(self) -> dict[str, Tensor]:
        """Return the states of the generators."""
        states = [generator.get_state() for generator in self.generators]
        return {"generator": states[0] if self.agents == 1 else torch.stack(states)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Set the states of the generators to what `tensors` returned."""
        states = tensors["generator"].reshape(self.agents, -1)
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state.clone())  # set_state reads from the beginning of a tensor's storage

    def _joined(self, sample: Callable[[torch.Generator], Tensor]) -> Tensor:
        samples = [sample(generator) for generator in self.generators]
        return samples[0] if len(samples) == 1 else torch.cat(samples)
