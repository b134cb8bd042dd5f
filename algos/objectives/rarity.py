"""A bonus for rare lengths, w / √n, as in count-based exploration.

Among the g − 1 others of a group, n − 1 have the same length. In closed form the bonus is its mean over the others'
lengths, and a constant in the gradient.
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
    """Mini-episodes in a group, in closed form."""


class Objective(base.Objective):
    """The share of m(l) plus a bonus that decreases with the frequency of the length."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        share = outcome.share
        others = self.config.group - 1
        count = torch.arange(others + 1, device=share.device, dtype=share.dtype)
        p = outcome.probability.detach().unsqueeze(-1)
        ways = torch.distributions.Binomial(others, p.clamp(0, 1)).log_prob(count).exp()
        bonus = (ways * (count + 1).rsqrt()).sum(-1)
        return (share + self.config.weight * outcome.probability * bonus).sum(-1)

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the share of m(l) plus the bonus [M]; the run determines the size of groups."""
        return played.share + self.config.weight * (played.alike + 1).to(played.share).rsqrt()
