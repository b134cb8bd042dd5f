"""A sampler of random variations of the training levels that another sampler chooses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import cycle, islice

import torch
from torch import Tensor

from drest_torch.envs.generation.variations import Variations, vary_levels
from drest_torch.envs.levels import Level
from drest_torch.tasks.sampling import LevelSampler

EXAMPLES = 256
"""The number of examples for estimates of memory."""


class VariedLevels(LevelSampler):
    """An endless stream of variations, each of a level of the sampler ``designs``.

    The random numbers follow from the seed of the run and from the number of variations so far. Variations with a key
    in ``without``, the held-out levels, are refused.
    """

    def __init__(
        self, designs: LevelSampler, variations: Variations, *, without: Collection[str] = frozenset()
    ) -> None:
        super().__init__(designs.levels, designs.rng)
        self.changes = True
        self.designs, self.variations, self.without = designs, variations, without
        self.number = torch.tensor(0)
        """The number of the next variation."""

    def sample(self, count: int) -> Sequence[Level]:
        """Sample ``count`` variations, each of another level of `designs`."""
        designs = self.designs.sample(count)
        levels = self._vary(designs, int(self.number))
        self.number += count
        return levels

    def examples(self, levels: Sequence[Level]) -> Sequence[Level]:
        repeated = islice(cycle(levels), EXAMPLES)
        return self._vary(list(repeated), 0)

    def _vary(self, levels: Sequence[Level], first: int) -> Sequence[Level]:
        return vary_levels(
            levels,
            self.variations,
            seed=self.rng.initial_seed(),
            first=first,
            without=self.without,
        )

    def lines(self) -> list[str]:
        extents = self.variations.extents()
        words = [f"{kind} {extent}" for kind, extent in extents.items()]
        line = f"varied by: {', '.join(words)}"
        return [*self.designs.lines(), line]

    def tensors(self) -> dict[str, Tensor]:
        return self.designs.tensors() | {"variation": self.number}
