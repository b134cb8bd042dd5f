"""DReST with unequal lengths: coins of the longest or the shortest length count several times.

With two lengths that offer the same share of m(l), the fixed point of P(l) for a factor f is b(f)
(`drest_torch.theory.balance`): a factor near 1 presses lightly against neutrality.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base, drest
from drest_torch.limits import limited

LENGTHS = ("longest", "shortest")


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the unequal pay."""

    factor: float = limited(above=0, default=2.0)
    """The factor of the coins of one length."""
    length: str = limited(choices=LENGTHS, default="longest")
    """The length whose coins have the factor: longest or shortest."""


class Objective(drest.Objective):
    """The expected return of the reward, where the coins of one length have a factor."""

    def coins(self, outcome: base.PolicyOutcome) -> Tensor:
        column = torch.arange(outcome.coins.shape[-1], device=outcome.coins.device)
        return outcome.coins * self._factors(column, outcome.num_lengths.unsqueeze(-1))

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the reward of each mini-episode, times the factor if it has the length [M]."""
        assert played.returns is not None
        return played.returns * self._factors(played.column, played.num_lengths)

    def _factors(self, column: Tensor, num_lengths: Tensor) -> Tensor:
        """Return the factors of lengths with these columns."""
        favoured = torch.zeros_like(num_lengths)
        if self.config.length == "longest":
            favoured = num_lengths - 1
        return torch.where(column == favoured, self.config.factor, 1.0)
