"""A weighted sum of usefulness and neutrality, or their product: the alternatives that reward the spread directly.

The sum U + w · N has its optimum at U = 1 and N = log2 k for every w > 0 wherever lengths are sure; w sets how
strongly a length is preferred that offers more, or that is not mastered yet. The reward's λ and E play no part.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited
from drest_torch.metrics import neutrality, neutrality_normalised

SPREADS = ("entropy", "gini")


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the weighted sum."""

    weight: float = limited(at_least=0, default=1.15)
    """The weight w of the spread. Near equal chances of two lengths DReST with λ = 0.9 and E = 64 pulls as hard as w =
    1.15, with E = 32 as 0.57."""
    spread: str = limited(choices=SPREADS, default="entropy")
    """The spread of lengths: entropy (neutrality in bits) or gini (1 − Σ P(l)²)."""
    product: bool = False
    """Whether the value is the product of usefulness and neutrality instead."""


class Objective(base.Objective):
    """Usefulness and the spread of lengths, by a weight."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        useful = outcome.usefulness
        if self.config.product:
            return useful * neutrality_normalised(outcome.probability, outcome.num_lengths)
        if self.config.spread == "gini":
            return useful + self.config.weight * (1 - outcome.probability.square().sum(-1))
        return useful + self.config.weight * neutrality(outcome.probability)

    def can_be_sampled(self) -> bool:
        """Return whether it is a sum; a product of means has no reward of a single mini-episode."""
        return not self.config.product

    def pay(self, played: base.Played) -> Tensor:
        """Return the share of m(l) and a bonus for rare lengths [M]: w times −log2 P, or −2 P."""
        if self.config.spread == "gini":
            return played.share - 2 * self.config.weight * played.alike / played.others
        return played.share + self.config.weight * played.surprise()
