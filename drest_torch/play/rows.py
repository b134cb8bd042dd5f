"""Third-party environments, whose observations are rows of numbers."""

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
    """An environment whose observations are standardised rows of numbers."""

    flatten: Flatten
    """The transform from an observation to a row."""
    best: BestReturn | None = None
    """The transform that estimates m(l); None: the environment reports it."""
    lengths: Sequence[int] = ()
    """The names of the lengths in tables: steps with a timer, else their indices."""
    request_probability: float | None = None
    """The probability per step with which an untrained policy requests a delay."""

    @property
    def best_returns(self) -> Tensor:
        """The estimate of m(l) [levels, k], 0 for lengths not sampled yet; 1 if the environment reports m(l).

        It is always the same tensor, which training changes.
        """
        return torch.ones(1, self.num_lengths) if self.best is None else self.best.best

    def pay(self, reward: Reward, *, group: int, shows_counts: bool) -> None:
        """Set the reward of batches: rewards are paid at once, and the difference at the end of the mini-episode
        (`Advance`)."""
        drest = DReSTReward.from_reward(
            reward, num_lengths=self.num_lengths, num_lengths_key=None, tick_key=None, group=group
        )
        drest.zero_best = getattr(type(innermost(self.env)), "zero_best", False)
        advance = Advance(drest, self._mean_best, scaled=not reward.divide_by_best)
        self.pay_by(drest, shows_counts=shows_counts, further=[advance])

    def _mean_best(self) -> float:
        positive = self.best_returns[self.best_returns > 0]
        if len(positive) == 0:
            return 1.0
        return positive.mean().item()

    def untrained_outputs(self) -> Tensor:
        return self.actions.offset(self.request_probability)

    def sees_as(self, other: RowEnvironment) -> None:
        """Use the standardisation of observations of another environment from now on."""
        self.flatten.centre, self.flatten.spread = other.flatten.centre, other.flatten.spread

    def metrics(self) -> dict[str, Any]:
        """Return the current estimates of m(l)."""
        if self.best is None:
            return {}
        means = self.best.best.mean(0).tolist()
        return {f"train/best/{length}": mean for length, mean in zip(self.lengths, means, strict=True)}

    def tensors(self) -> dict[str, Tensor]:
        tensors = {"centre": self.flatten.centre, "spread": self.flatten.spread}
        if self.best is not None:
            tensors |= dict(self.best.named_buffers())
        return tensors
