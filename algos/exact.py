"""Gradient ascent on the expected DReST return in closed form: no sampling, so no sampling error.

With ``credit=meta`` it climbs the expected return of the meta-episode itself. With ``credit=mini`` it
climbs what mini-episode credit climbs on average: the discounts D(P(L=l)) are taken as given,

    ∇ Σ_l P(L=l) · E[C | L=l] / m(l) · D(P(L=l)),   D held fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING
from torch import Tensor

from algos.batch import ExactBatch
from algos.updates import NetworkConfig, NetworkLearner
from drest_torch.metrics import share_of_best
from drest_torch.reward import expected_discount


@dataclass
class Config(NetworkConfig):
    levels_at_once: int = MISSING
    counted_as: int = MISSING


class Exact(NetworkLearner):
    learns_from = "levels"
    reward: Any
    """λ, E and whether coins are divided by m; set by whoever makes the run."""

    def update(self, batch: ExactBatch) -> dict[str, Tensor]:
        log_probs = self.policy(batch.observation).log_softmax(-1)
        probabilities = log_probs.exp()
        there = probabilities[batch.seen]
        # As in a batch of played steps: each state counts as often as it is met, which is taken as given.
        visits = batch.visits(there.detach())
        entropy = (visits * -(probabilities * log_probs).sum(-1)[batch.seen]).sum() / visits.sum()
        probability, coins = batch.outcome(there)
        objective = self.objective(batch, probability, coins).mean()
        norm = self.descend(-objective - self.entropy_coeff * entropy)
        return {"loss/objective": objective.detach(), "policy/entropy": entropy.detach(), "optim/grad_norm": norm}

    def objective(self, batch: ExactBatch, probability: Tensor, coins: Tensor) -> Tensor:
        """[B] expected return of a mini-episode, averaged over its meta-episode."""
        best = batch.best_return.to(coins.dtype)
        preliminary = share_of_best(coins, best) if self.reward.divide_by_best else coins
        k = batch.num_lengths.unsqueeze(-1)
        discount = expected_discount(probability, k, self.reward.episodes_per_meta, self.reward.lam)
        if self.config.credit == "mini":
            discount = discount.detach()
        return (probability * preliminary * discount).sum(-1) / self.reward.episodes_per_meta


Algorithm = Exact
