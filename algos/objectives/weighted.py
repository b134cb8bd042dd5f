"""A weighted sum of usefulness and neutrality, or their product: objectives that reward the spread of lengths directly.

Without luck, the sum U + w · N has its optimum at U = 1 and N = log2 k for every w > 0. The smaller w is, the more
strongly lengths with a larger share of m(l) are preferred before that. The reward's λ and E have no effect.
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
    """The weight w of the spread. With two lengths of nearly equal probability, w = 1.15 is as strong as DReST with λ =
    0.9 and E = 64, and w = 0.57 as with E = 32."""
    spread: str = limited(choices=SPREADS, default="entropy")
    """The spread of lengths: entropy (neutrality in bits) or gini (1 − Σ P(l)²)."""
    product: bool = False
    """True to maximise the product of usefulness and normalised neutrality instead."""


class Objective(base.Objective):
    """The weighted sum of usefulness and the spread of lengths, or the product."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        useful = outcome.usefulness
        if self.config.product:
            return useful * neutrality_normalised(outcome.probability, outcome.num_lengths)
        if self.config.spread == "gini":
            return useful + self.config.weight * (1 - outcome.probability.square().sum(-1))
        return useful + self.config.weight * neutrality(outcome.probability)

    def can_be_sampled(self) -> bool:
        """Return True for the sum; the product of two means is not the mean of a mini-episode's reward."""
        return not self.config.product

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the share of m(l) plus a bonus for rare lengths [M]: w times −log2 P, or −2 P."""
        if self.config.spread == "gini":
            return played.share - 2 * self.config.weight * played.alike / played.others
        return played.share + self.config.weight * played.surprise()
