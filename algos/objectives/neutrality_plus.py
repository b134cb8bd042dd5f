"""Neutrality+ on levels with luck, and the return of the reward on the others.

Neutrality+ is the mean over lengths of E[C | L = l] / m(l), with the same weight for likely and rare lengths. An agent
trained with it gains nothing from making a length more likely, and pays nothing for that. As Neutrality+ leaves the
probabilities of lengths open, levels without luck use the return of the reward (DReST) instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base, drest
from drest_torch.limits import limited
from drest_torch.metrics import share_of_best


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of Neutrality+."""

    where: str = limited(choices=("luck", "everywhere"), default="luck")
    """Levels with this objective: luck (levels with luck; the others use the return of the reward), or everywhere."""


class Objective(base.Objective):
    """Neutrality+, on levels with luck or on all."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        # A length that is never chosen counts as 0.
        coins = outcome.coins_given_length
        shares = share_of_best(coins, outcome.best_return.to(coins.dtype))
        flat = shares.sum(-1) / outcome.num_lengths
        if self.config.where == "everywhere":
            return flat
        return torch.where(outcome.by_luck, flat, drest.Objective(self.config).value(outcome))
