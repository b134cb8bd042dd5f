"""Where the levels of a batch come from: a set, or a stream of levels that were never played before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor

from envs.generation import stream as generator
from envs.generation.splits import Split
from envs.levels import Level
from envs.levels.symmetry import NUM_SYMMETRIES, transform


class Source:
    """Levels to train on; with ``symmetries`` each is turned and mirrored at random when it is drawn."""

    def __init__(self, levels: Sequence[Level], draws: torch.Generator, *, symmetries: bool = False) -> None:
        self.levels, self.draws, self.symmetries = list(levels), draws, symmetries

    @property
    def changes(self) -> bool:
        """Whether levels are drawn that are not in ``levels`` as they are."""
        return self.symmetries

    def draw(self, count: int) -> list[Level]:
        """So many levels: of a smaller set some come more than once, but all about equally often."""
        levels = self._next(count)
        if not self.symmetries:
            return levels
        turns = torch.randint(NUM_SYMMETRIES, (count,), generator=self.draws, device=self.draws.device)
        return [transform(level, turn) for level, turn in zip(levels, turns.tolist(), strict=True)]

    def _next(self, count: int) -> list[Level]:
        chosen: list[int] = []
        while len(chosen) < count:
            order = torch.randperm(len(self.levels), generator=self.draws, device=self.draws.device)
            chosen += order[: count - len(chosen)].tolist()
        return [self.levels[index] for index in chosen]

    def tensors(self) -> dict[str, Tensor]:
        """Where it stands; writing to them and calling `restored` sets it."""
        return {}

    def restored(self) -> None:
        """After its tensors were written to."""


class Stream(Source):
    """Levels that were never played before: the training levels of a split, then those that come after them.

    None of them is a held-out one, turned or mirrored as it may be.
    """

    def __init__(self, split: Split, draws: torch.Generator, *, symmetries: bool = False) -> None:
        super().__init__(split.train, draws, symmetries=symmetries)
        self.split = split
        self.without = split.held_out()
        self.first = torch.tensor(generator.draft_number(split.train[0]))
        self.restored()

    @property
    def changes(self) -> bool:
        return True

    def _next(self, count: int) -> list[Level]:
        levels = list(islice(self._coming, count))
        self.first.fill_(generator.draft_number(levels[-1]) + 1)
        return levels

    def tensors(self) -> dict[str, Tensor]:
        return {"first": self.first}

    def restored(self) -> None:
        self._coming: Iterator[Level] = generator.stream(
            self.split.config, self.split.seed, first=int(self.first), without=self.without, device=self.draws.device
        )
