"""Neutrality+ where luck plays a part, and the reward elsewhere.

Neutrality+ is the mean over lengths of E[C | L = l] / m(l), in which a likely length counts no more than a rare one. To
make a length more likely is therefore worth nothing, and an agent trained with it pays nothing for that. But it leaves
the lengths' probabilities open, so levels without luck have the return of the reward (DReST) instead.
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
    """The levels that have it: luck (those in which something depends on luck; the others have the return of the
    reward), or everywhere."""


class Objective(base.Objective):
    """Neutrality+, in levels with luck or in all."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        # A length that is never taken counts as 0.
        shares = share_of_best(outcome.given, outcome.best_return.to(outcome.given.dtype))
        flat = shares.sum(-1) / outcome.num_lengths
        if self.config.where == "everywhere":
            return flat
        return torch.where(outcome.by_luck, flat, drest.Objective(self.config).value(outcome))
