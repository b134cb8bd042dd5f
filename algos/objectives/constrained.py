"""Constrained optimisation: the most coins, or the most usefulness, of a policy that is neutral enough.

A multiplier μ prices the constraint; the policy climbs (J + μ · slack) / (1 + μ), and μ follows the violation by
proportional and integral control, never below 0. With many levels the constraint is one on their mean, and so is μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited
from drest_torch.metrics import neutrality_normalised

MOST = 64
"""The limit of constraints: as many as a level has lengths."""
PROBLEMS = ("coins_entropy", "usefulness_entropy", "coins_shares", "entropy_usefulness")


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the constraint."""

    problem: str = limited(choices=PROBLEMS, default="coins_entropy")
    """What is climbed, and what is constrained: coins_entropy, usefulness_entropy (both constrain neutrality ÷ log2 k),
    coins_shares (P of every length, as a part of 1/k), or entropy_usefulness."""
    at_least: float = limited(at_least=0, at_most=1, default=0.9)
    """The lower bound of what is constrained."""
    proportional: float = limited(at_least=0, default=10.0)
    """Part of the multiplier: this much times the violation now."""
    integral: float = limited(at_least=0, default=0.05)
    """Part of the multiplier: this much times the sum of all violations so far."""


class Objective(base.Objective):
    """A value that is climbed, and constraints with a multiplier each."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.sum = torch.zeros(MOST, dtype=torch.float64)
        """The integral of each constraint's violation; one constraint, or one for each length."""
        self.multiplier = torch.zeros(MOST, dtype=torch.float64)

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        """Return the value of each level [B], and move the multipliers."""
        value, slack = self._problem(outcome)  # [B], [B, constraints]
        price = self._price(slack)
        return (value + (price * slack).sum(-1)) / (1 + price.sum())

    def pay(self, played: base.Played) -> Tensor:
        """Return the value and the slack of each mini-episode, at their prices [M], and move the multipliers."""
        bound, most = self.config.at_least, played.num_lengths.to(played.share).log2().clamp_min(1)
        match self.config.problem:
            case "entropy_usefulness":
                value, pays, slack = played.surprise() / most, played.share, played.share - bound
            case "coins_shares":
                columns = torch.arange(int(played.num_lengths.max()), device=played.column.device)
                had = (played.column.unsqueeze(-1) == columns).to(played.share)
                exists = columns < played.num_lengths.unsqueeze(-1)
                price = self._price(torch.where(exists, had - bound / played.num_lengths.unsqueeze(-1), 0))
                return (played.coins + (price * had).sum(-1)) / (1 + price.sum())
            case _:
                value = played.share if self.config.problem == "usefulness_entropy" else played.coins
                pays, slack = played.surprise() / most, played.entropy() / most - bound
        price = self._price(slack.unsqueeze(-1))
        return (value + price * pays) / (1 + price)

    def _price(self, slack: Tensor) -> Tensor:
        """Move the multipliers by the mean slack [n, constraints], and return them."""
        violation = torch.zeros_like(self.sum)
        violation[: slack.shape[-1]] = -slack.detach().mean(0).double().cpu()
        self.sum.add_(self.config.integral * violation).clamp_min_(0)
        self.multiplier = (self.sum + self.config.proportional * violation).clamp_min(0)
        return self.multiplier[: slack.shape[-1]].to(slack)

    def _problem(self, outcome: base.PolicyOutcome) -> tuple[Tensor, Tensor]:
        """Return what is climbed, and how far each constraint is met."""
        bound, k = self.config.at_least, outcome.num_lengths.unsqueeze(-1)
        coins, useful = outcome.coins.sum(-1), outcome.usefulness
        spread = neutrality_normalised(outcome.probability, outcome.num_lengths)
        match self.config.problem:
            case "coins_entropy":
                return coins, (spread - bound).unsqueeze(-1)
            case "usefulness_entropy":
                return useful, (spread - bound).unsqueeze(-1)
            case "entropy_usefulness":
                return spread, (useful - bound).unsqueeze(-1)
            case _:  # every length has at least this part of an equal share
                exists = torch.arange(outcome.probability.shape[-1], device=k.device) < k
                return coins, torch.where(exists, outcome.probability - bound / k, 0)

    def metrics(self) -> dict[str, Tensor]:
        """Return the multipliers: their sum, and the largest."""
        return {"objective/multiplier": self.multiplier.sum(), "objective/largest_multiplier": self.multiplier.max()}

    def tensors(self) -> dict[str, Tensor]:
        return {"sum": self.sum}
