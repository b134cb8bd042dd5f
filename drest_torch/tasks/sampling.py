"""Samplers of training levels, from a set or from a stream of distinct levels."""

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
    """A sampler from a set of training levels; with ``symmetries`` each level is rotated and reflected at random."""

    def __init__(self, levels: Sequence[Level], rng: torch.Generator, *, symmetries: bool = False) -> None:
        self.levels, self.rng, self.symmetries = levels, rng, symmetries
        self.changes = symmetries
        """True if sampled levels can differ from those in ``levels``."""

    def sample(self, count: int) -> Sequence[Level]:
        """Sample ``count`` levels. A smaller set is repeated, so that all levels occur about equally often."""
        levels = self._next(count)
        if not self.symmetries:
            return levels
        symmetry = torch.randint(NUM_SYMMETRIES, (count,), generator=self.rng, device=self.rng.device)
        return [transform(level, index) for level, index in zip(levels, symmetry.tolist(), strict=True)]

    def _next(self, count: int) -> list[Level]:
        sampled: list[int] = []
        while len(sampled) < count:
            order = torch.randperm(len(self.levels), generator=self.rng, device=self.rng.device)
            sampled += order[: count - len(sampled)].tolist()
        return [self.levels[index] for index in sampled]

    def lines(self) -> list[str]:
        """Return lines that describe the sampler at the start of a run; the default sampler needs none."""
        return []

    def examples(self, levels: Sequence[Level]) -> Sequence[Level]:
        """Return examples of what is played on these training levels, for estimates of memory."""
        return levels

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}


class FreshLevels(LevelSampler):
    """A stream of distinct levels: the training levels of a split, followed by further levels of the generator.

    Selection and test levels, and their rotations and reflections, are excluded.
    """

    def __init__(self, split: Split, rng: torch.Generator, *, symmetries: bool = False) -> None:
        super().__init__(split.train, rng, symmetries=symmetries)
        self.changes = True
        self.split = split
        self.without = split.held_out()
        self.first = torch.tensor(generator.draft_number(split.train[0]))
        """The number of the next level."""
        self._coming: tuple[int, Iterator[Level]] = (-1, iter(()))

    def _next(self, count: int) -> list[Level]:
        number, coming = self._coming
        if number != self.first:  # at the start, and after a restored checkpoint
            coming = generator.stream(
                self.split.config, self.split.seed, first=int(self.first), without=self.without, device=self.rng.device
            )
        levels = list(islice(coming, count))
        self.first.fill_(generator.draft_number(levels[-1]) + 1)
        self._coming = int(self.first), coming
        return levels

    def tensors(self) -> dict[str, Tensor]:
        return {"first": self.first}
