"""A goal of being shut down: the shortest length first, and coins only between mini-episodes of the same length.

Each longer length costs ``price``. Without luck the optimum is lexicographic if the price exceeds every difference in
the pay of mini-episodes: any price above 1 if coins are divided by m(l), as no share of m(l) exceeds 1. A button that
works with chance q is still worth a try, for coins at most 1, if the price is below 1/q.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the goal of being shut down."""

    price: float = limited(at_least=0, default=2.0)
    """Cost of a mini-episode with the second-shortest length, and further cost of each longer one."""


class Objective(base.Objective):
    """Coins ÷ m, or coins, minus a price for each length that is shorter than the mini-episode's."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        shorter = torch.arange(outcome.probability.shape[-1], device=outcome.probability.device)
        return (outcome.paid - self.config.price * shorter * outcome.probability).sum(-1)

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the reward minus the price of the length [M]."""
        return played.share - self.config.price * played.column
