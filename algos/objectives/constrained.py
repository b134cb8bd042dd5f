"""Constrained optimisation: coins, or usefulness, are maximised subject to a lower bound on neutrality, or vice versa.

A multiplier μ prices the constraint: training maximises (J + μ · slack) / (1 + μ), and μ ≥ 0 follows the violation by
proportional and integral control. With many levels there is one constraint, on their mean, and one μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.objectives import base
from drest_torch.limits import limited
from drest_torch.metrics import neutrality_normalised

MOST = 64
"""The largest number of constraints: one for each length of a level."""
PROBLEMS = ("coins_entropy", "usefulness_entropy", "coins_shares", "entropy_usefulness")


@dataclass
class Config(base.ObjectiveConfig):
    """The settings of the constraint."""

    problem: str = limited(choices=PROBLEMS, default="coins_entropy")
    """The maximised and the constrained quantity: coins_entropy, usefulness_entropy (both constrain normalised
    neutrality), coins_shares (constrains P of every length, as a fraction of 1/k), or entropy_usefulness."""
    at_least: float = limited(at_least=0, at_most=1, default=0.9)
    """Lower bound of the constrained quantity."""
    proportional: float = limited(at_least=0, default=10.0)
    """Proportional gain of the multiplier, on the current violation."""
    integral: float = limited(at_least=0, default=0.05)
    """Integral gain of the multiplier, on the sum of all violations so far."""


class Objective(base.Objective):
    """A maximised quantity, and constraints with a multiplier each."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.sum = torch.zeros(MOST, dtype=torch.float64)
        """The integral of each constraint's violation: of a single constraint, or of one for each length."""
        self.multiplier = torch.zeros(MOST, dtype=torch.float64)

    def value(self, outcome: base.PolicyOutcome) -> Tensor:
        """Return the value of each level [B], and update the multipliers."""
        value, slack = self._problem(outcome)  # [B], [B, constraints]
        price = self._price(slack)
        return (value + (price * slack).sum(-1)) / (1 + price.sum())

    def pay(self, played: base.EpisodeBatch) -> Tensor:
        """Return the reward of each mini-episode [M], its value plus its priced slack, and update the multipliers."""
        bound = self.config.at_least
        log2_k = played.num_lengths.to(played.share).log2().clamp_min(1)
        match self.config.problem:
            case "entropy_usefulness":
                value = played.surprise() / log2_k
                bonus, slack = played.share, played.share - bound
            case "coins_shares":
                k = played.num_lengths.unsqueeze(-1)
                columns = torch.arange(int(played.num_lengths.max()), device=played.column.device)
                had = (played.column.unsqueeze(-1) == columns).to(played.share)
                exists = columns < k
                price = self._price(torch.where(exists, had - bound / k, 0))
                return (played.coins + (price * had).sum(-1)) / (1 + price.sum())
            case "usefulness_entropy":
                value = played.share
                bonus, slack = played.surprise() / log2_k, played.entropy() / log2_k - bound
            case _:
                value = played.coins
                bonus, slack = played.surprise() / log2_k, played.entropy() / log2_k - bound
        price = self._price(slack.unsqueeze(-1))
        return (value + price * bonus) / (1 + price)

    def _price(self, slack: Tensor) -> Tensor:
        """Update the multipliers with the mean slack [n, constraints], and return them."""
        violation = torch.zeros_like(self.sum)
        violation[: slack.shape[-1]] = -slack.detach().mean(0).double().cpu()
        self.sum.add_(self.config.integral * violation).clamp_min_(0)
        self.multiplier = (self.sum + self.config.proportional * violation).clamp_min(0)
        return self.multiplier[: slack.shape[-1]].to(slack)

    def _problem(self, outcome: base.PolicyOutcome) -> tuple[Tensor, Tensor]:
        """Return the maximised quantity [B] and the slack of each constraint [B, constraints]."""
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
            case _:  # every length has at least this fraction of 1/k
                exists = torch.arange(outcome.probability.shape[-1], device=k.device) < k
                return coins, torch.where(exists, outcome.probability - bound / k, 0)

    def metrics(self) -> dict[str, Tensor]:
        """Return the multipliers: their sum, and the largest."""
        return {"objective/multiplier": self.multiplier.sum(), "objective/largest_multiplier": self.multiplier.max()}

    def tensors(self) -> dict[str, Tensor]:
        return {"sum": self.sum}
