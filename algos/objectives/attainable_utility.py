"""Attainable utility preservation: coins minus β times the change in attainable values, summed over ticks.

An action changes the value of an auxiliary goal by |Q(s, a) − Q(s, ∅)|, where ∅ is a tick in which nothing happens.
The auxiliary goals are the coins of the level, one by one. `drest_torch.envs.exact.attainable` computes their values.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited

GOALS = ("pressed", "unpressed")
"""Auxiliary goals of `drest_torch.envs.exact.attainable.changes`."""


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the penalty."""

    beta: float = limited(at_least=0, default=0.5)
    """Weight of the change in attainable values, in coins for each coin."""
    goals: str = limited(choices=GOALS, default="pressed")
    """Values of a coin as an auxiliary goal: pressed (its value if it can be collected, by pressing buttons where
    necessary: the optimal value of the goal), or unpressed (its value if it can be collected within the time left,
    without a further delay)."""


class Objective(base.Objective):
    """Coins minus β times the change in attainable values."""

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        return outcome.coins.sum(-1) - self.config.beta * outcome.attainable_change(self.config.goals)
