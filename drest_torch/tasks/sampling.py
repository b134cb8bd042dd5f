"""Training levels: a set that is sampled from, or a stream in which no level comes twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.splits import Split
from drest_torch.envs.levels import Level
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, transform


class LevelSampler:
    """A set of levels to train on; with ``symmetries`` each sampled level is rotated and reflected at random."""

    def __init__(self, levels: Sequence[Level], rng: torch.Generator, *, symmetries: bool = False) -> None:
        self.levels, self.rng, self.symmetries = levels, rng, symmetries
        self.changes = symmetries
        """Whether sampled levels can differ from those in ``levels``."""

    def sample(self, count: int) -> list[Level]:
        """Sample ``count`` levels; a smaller set is repeated, so that all levels occur about equally often."""
        levels = self._next(count)
        if not self.symmetries:
            return levels
        symmetry = torch.randint(NUM_SYMMETRIES, (count,), generator=self.rng, device=self.rng.device)
        return [transform(level, index) for level, index in zip(levels, symmetry.tolist(), strict=True)]

    def _next(self, count: int) -> list[Level]:
        chosen: list[int] = []
        while len(chosen) < count:
            order = torch.randperm(len(self.levels), generator=self.rng, device=self.rng.device)
            chosen += order[: count - len(chosen)].tolist()
        return [self.levels[index] for index in chosen]

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}


class FreshLevels(LevelSampler):
    """A stream of new levels: the training levels of a split, then the levels that the generator yields after them.

    None of them is a selection or test level, or the rotation or reflection of one.
    """

    def __init__(self, split: Split, rng: torch.Generator, *, symmetries: bool = False) -> None:
        super().__init__(split.train, rng, symmetries=symmetries)
        self.changes = True
        self.split = split
        self.without = split.held_out()
        self.first = torch.tensor(generator.draft_number(split.train[0]))
        """The number of the level that comes next."""
        self._coming: tuple[int, Iterator[Level]] = (-1, iter(()))

    def _next(self, count: int) -> list[Level]:
        number, coming = self._coming
        if number != self.first:  # at the start, and after it was restored
            coming = generator.stream(
                self.split.config, self.split.seed, first=int(self.first), without=self.without, device=self.rng.device
            )
        levels = list(islice(coming, count))
        self.first.fill_(generator.draft_number(levels[-1]) + 1)
        self._coming = int(self.first), coming
        return levels

    def tensors(self) -> dict[str, Tensor]:
        return {"first": self.first}
