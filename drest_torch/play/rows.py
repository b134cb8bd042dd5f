"""An environment that shows a policy rows of numbers: any that is no gridworld."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drest_torch.play.collector import Environment
from drest_torch.reward import Reward
from drest_torch.transforms import BestReturn, DReSTReward, Flatten
from drest_torch.transforms.base import innermost
from drest_torch.transforms.on_batches import Advance


@dataclass(kw_only=True)
class RowEnvironment(Environment):
    """An environment whose observations are rows of numbers, standardised."""

    flatten: Flatten
    """The transform that makes a row of an observation."""
    best: BestReturn | None = None
    """The transform that measures m(l); None: the environment says it itself."""
    lengths: Sequence[int] = ()
    """The names of the lengths in tables: steps with a timer, else their indices."""
    ask: float | None = None
    """The probability per step with which an untrained policy asks for a delay."""

    @property
    def best_returns(self) -> Tensor:
        """m(l) [levels, k] as it is known so far, 0 where no mini-episode had the length; 1 if the environment says it.

        It is always the same tensor, which training changes.
        """
        return torch.ones(1, self.num_lengths) if self.best is None else self.best.best

    def pay(self, reward: Reward, *, group: int, shows_counts: bool) -> None:
        """Pay for batches: each reward at once, and the rest at the end of its mini-episode (`Advance`)."""
        drest = DReSTReward.of(reward, num_lengths=self.num_lengths, num_lengths_key=None, tick_key=None, group=group)
        drest.zero_best = getattr(type(innermost(self.env)), "zero_best", False)
        advance = Advance(drest, self._mean_best, scaled=not reward.divide_by_best)
        self.pay_by(drest, shows_counts=shows_counts, further=[advance])

    def _mean_best(self) -> float:
        known = self.best_returns[self.best_returns > 0]
        return known.mean().item() if len(known) else 1.0

    def untrained_outputs(self) -> Tensor:
        return self.actions.offset(self.ask)

    def sees_as(self, other: RowEnvironment) -> None:
        """Standardise observations as another environment does, now and later."""
        self.flatten.centre, self.flatten.spread = other.flatten.centre, other.flatten.spread

    def metrics(self) -> dict[str, Any]:
        """Return m(l) as it is known so far."""
        if self.best is None:
            return {}
        means = self.best.best.mean(0).tolist()
        return {f"train/best/{length}": mean for length, mean in zip(self.lengths, means, strict=True)}

    def tensors(self) -> dict[str, Tensor]:
        measured = {"centre": self.flatten.centre, "spread": self.flatten.spread}
        return measured if self.best is None else measured | dict(self.best.named_buffers())
