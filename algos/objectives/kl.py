"""A penalty on the divergence of trajectories from a reference policy, or an entropy bonus.

The value is the reward of a mini-episode minus β times the Kullback-Leibler divergence of trajectories, summed over
ticks. `drest_torch.envs.exact.soft` has its optimum in closed form. In the limit of a small β a length is chosen in
proportion to the number of its best trajectories. A uniform reference adds the factor 4^(−length), which makes agents
seek shutdown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited

REFERENCES = ("uniform", "entropy", "balanced", "best")
"""Reference policies of `drest_torch.envs.exact.soft.reference_policy`."""


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the divergence."""

    beta: float = limited(at_least=0, default=0.02)
    """Weight of the divergence in nats."""
    reference: str = limited(choices=REFERENCES, default="uniform")
    """Reference policy: uniform (over actions), entropy (none: a bonus for the entropy of the trajectory, which differs
    from uniform by a constant per tick), balanced (equal probability of each length, uniform over the trajectories
    of a length), or best (as balanced, but only over trajectories that collect m(l), which presupposes the answer)."""


class Objective(base.Objective):
    """Coins ÷ m, or coins, minus β times a divergence."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        return outcome.paid.sum(-1) - self.config.beta * outcome.divergence(self.config.reference)

    def can_be_sampled(self) -> bool:
        """Return True if the reference needs no model of the level."""
        return self.config.reference in ("uniform", "entropy")

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the reward minus β times the log-ratio of the trajectory [M]."""
        per_step = 0.0
        if self.config.reference == "uniform":
            per_step = math.log(4)
        return played.share - self.config.beta * (played.log_prob + per_step * played.steps)
