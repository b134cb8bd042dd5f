"""Neutrality first, and coins only within it: the limit h → 1 of the largest E[C] subject to N ≥ h log2 k.

The value is N ÷ log2 k plus the mean over mini-episodes of coins ÷ m, with P(L = l) in the second term held constant.
Coins are then compared within a length only, so no length becomes likelier because it has more of them.

Without luck, and for policies that are free in every state, the lexicographic optimum is a fixed point of training for
every weight of coins; elsewhere it is approached as the weight falls. With a large weight training can stay at one
length, because an agent that tries another one collects less of its present length at first.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited
from drest_torch.metrics import neutrality_normalised


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the lexicographic order."""

    weight: float = limited(above=0, default=1.0)
    """Weight of coins, which matter only within a length. A large weight can hold training at one length."""


class Objective(base.Objective):
    """Normalised neutrality, and coins that are compared within a length only."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        probability = outcome.probability.detach()
        possible = outcome.probability > 0
        within = outcome.paid * (probability / outcome.probability.where(possible, 1))
        spread = neutrality_normalised(outcome.probability, outcome.num_lengths)
        return spread + self.config.weight * within.sum(-1)

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the normalised surprise, plus the share minus its mean over the others with the same length [M].

        A mini-episode without others of its length gets the surprise alone.
        """
        size = played.others + 1
        share, column = played.share.reshape(-1, size), played.column.reshape(-1, size)
        same = (column.unsqueeze(-1) == column.unsqueeze(1)).to(share)
        total = (same * share.unsqueeze(1)).sum(-1).flatten()
        alike = played.alike.to(share)
        others = (total - played.share) / alike.clamp_min(1)
        within = (played.share - others).where(alike > 0, 0)
        log2_k = played.num_lengths.to(share).log2().clamp_min(1)
        return played.surprise() / log2_k + self.config.weight * within
