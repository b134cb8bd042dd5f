"""Random numbers for agents that train side by side: each draws its own, as it would alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor


class Draws:
    """One generator for each of A agents; results are those of the first agent, then those of the second, and so on."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = list(generators)
        self.device = self.generators[0].device

    @classmethod
    def of(cls, source: Draws | torch.Generator) -> Draws:
        return source if isinstance(source, Draws) else cls([source])

    @property
    def agents(self) -> int:
        return len(self.generators)

    def uniform(self, count: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """[count, *shape] numbers from 0 to 1; ``count`` is of all agents together."""
        each = count // self.agents

        def draw(generator: torch.Generator) -> Tensor:
            return torch.rand(each, *shape, generator=generator, device=self.device, dtype=dtype)

        return self._joined(draw)

    def order(self, count: int) -> Tensor:
        """[A, count] for each agent the numbers below ``count`` in random order."""
        return self._joined(lambda each: torch.randperm(count, generator=each, device=self.device)).unflatten(
            0, (self.agents, count)
        )

    def tensors(self) -> dict[str, Tensor]:
        """Where the generators stand."""
        states = [generator.get_state() for generator in self.generators]
        return {"generator": states[0] if self.agents == 1 else torch.stack(states)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        states = tensors["generator"].reshape(self.agents, -1)
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state.clone())  # it reads from the beginning of a tensor's storage

    def _joined(self, draw: Callable[[torch.Generator], Tensor]) -> Tensor:
        drawn = [draw(generator) for generator in self.generators]
        return drawn[0] if len(drawn) == 1 else torch.cat(drawn)
