"""A price on the divergence of the whole trajectory from a reference policy, or a reward for its entropy.

The value is the reward of a mini-episode minus β times the Kullback-Leibler divergence of the policy's trajectories
from those of a reference: the sum over timesteps, not their mean. Its optimum is known in closed form
(`drest_torch.envs.exact.soft`): in the limit of a small β a length is chosen in proportion to the number of its best
trajectories, and with a uniform reference also to 4^(−length), so that agents seek shutdown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited

REFERENCES = ("uniform", "entropy", "balanced", "best")
"""Made by `drest_torch.envs.exact.soft.reference_policy`."""


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the divergence."""

    beta: float = limited(at_least=0, default=0.02)
    """The price of a nat."""
    reference: str = limited(choices=REFERENCES, default="uniform")
    """uniform (over actions), entropy (no reference: the entropy of the trajectory is rewarded, which differs from
    uniform by a constant for each timestep), balanced (every length with the same probability, and uniform over the
    trajectories of a length), or best (the same over those trajectories that collect m(l), which presupposes the
    answer)."""


class Objective(base.Objective):
    """Coins ÷ m, or coins, minus β times a divergence."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        coins = outcome.share if outcome.reward.divide_by_best else outcome.coins
        return coins.sum(-1) - self.config.beta * outcome.divergence(self.config.reference)

    def can_be_sampled(self) -> bool:
        """Return whether the reference is known without a model."""
        return self.config.reference in ("uniform", "entropy")

    def pay(self, played: base.Played) -> Tensor:
        """Return the reward minus β times the log-ratio of the trajectory [M]."""
        each = math.log(4) if self.config.reference == "uniform" else 0.0
        return played.share - self.config.beta * (played.log_prob + each * played.steps)
