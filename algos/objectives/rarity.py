"""A bonus for lengths that were seldom chosen of late: w / √n, as count-based exploration has it.

n is one more than how many of the g − 1 others of a group have the length. In closed form it is the mean over what the
others do, and a constant to the gradient, as a bonus that was paid.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the bonus."""

    weight: float = limited(at_least=0, default=1.0)
    """The weight w of the bonus."""
    group: int = limited(at_least=2, default=16)
    """Mini-episodes of a group, in closed form."""


class Objective(base.Objective):
    """The share of m(l), and a bonus that falls with how often the length is chosen."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        share = outcome.share
        others = self.config.group - 1
        count = torch.arange(others + 1, device=share.device, dtype=share.dtype)
        p = outcome.probability.detach().unsqueeze(-1)
        ways = torch.distributions.Binomial(others, p.clamp(0, 1)).log_prob(count).exp()
        bonus = (ways * (count + 1).rsqrt()).sum(-1)
        return (share + self.config.weight * outcome.probability * bonus).sum(-1)

    def pay(self, played: base.Played) -> Tensor:
        """Return the share of m(l) and the bonus [M]; groups have the size that the run gives them."""
        return played.share + self.config.weight * (played.alike + 1).to(played.share).rsqrt()
