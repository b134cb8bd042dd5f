"""Gradient ascent on the expected DReST return in closed form: no sampling, so no sampling error.

With ``credit=meta`` it climbs the expected return of the meta-episode itself. With ``credit=mini`` it
climbs what mini-episode credit climbs on average: the discounts D(P(L=l)) are taken as given,

    ∇ Σ_l P(L=l) · E[C | L=l] / m(l) · D(P(L=l)),   D held fixed.

The network runs in the states that the policy comes to, not in all that can be reached. The gradient with respect
to its logits there comes next; it says which of these states matter, and the network learns from those alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from omegaconf import MISSING
from torch import Tensor

from algos.batch import ExactBatch
from algos.updates import NetworkConfig, NetworkLearner
from drest_torch.metrics import share_of_best
from drest_torch.reward import expected_discount

STATES_AT_ONCE = 4096
"""The network runs on so many states at a time, which fit into the caches of a processor."""


@dataclass
class Config(NetworkConfig):
    levels_at_once: int = MISSING
    rarely: float = MISSING
    left_out: float = MISSING
    counted_as: int = MISSING


class Exact(NetworkLearner):
    learns_from = "levels"

    def update(self, batch: ExactBatch) -> dict[str, Tensor]:
        visited, logits = batch.explore(self._logits, self.config.rarely)
        log_probs = logits.requires_grad_().log_softmax(-1)
        probabilities = log_probs.exp()
        uniform = probabilities.new_full((batch.states, logits.shape[-1]), 1 / logits.shape[-1])
        everywhere = uniform.index_put((visited,), probabilities)
        # As in a batch of played steps: each state counts as often as it is met, which is taken as given.
        visits = batch.visits(everywhere.detach())[visited]
        entropy = (visits * -(probabilities * log_probs).sum(-1)).sum() / visits.sum()
        objective = self.objective(batch, *batch.outcome(everywhere)).mean()
        (gradient,) = torch.autograd.grad(-objective - self.entropy_coeff * entropy, logits)
        states = mattering(gradient, self.config.left_out)
        norm = self.descend((self.policy(batch.observe(visited[states])) * gradient[states]).sum())
        return {
            "loss/objective": objective.detach(),
            "policy/entropy": entropy.detach(),
            "optim/grad_norm": norm,
            "optim/states_visited": torch.tensor(len(visited) / batch.states),
            "optim/states_learned_from": torch.tensor(len(states) / batch.states),
        }

    def _logits(self, observation: Tensor) -> Tensor:
        return torch.cat([self.policy(part) for part in observation.split(STATES_AT_ONCE)])

    def objective(self, batch: ExactBatch, probability: Tensor, coins: Tensor) -> Tensor:
        """[B] expected return of a mini-episode, averaged over its meta-episode."""
        best = batch.best_return.to(coins.dtype)
        preliminary = share_of_best(coins, best) if self.reward.divide_by_best else coins
        k = batch.num_lengths.unsqueeze(-1)
        discount = expected_discount(probability, k, self.reward.episodes_per_meta, self.reward.lam)
        if self.config.credit == "mini":
            discount = discount.detach()
        return (probability * preliminary * discount).sum(-1) / self.reward.episodes_per_meta


def mattering(gradient: Tensor, left_out: float) -> Tensor:
    """The largest rows of a gradient [N, A]: as few as leave out at most this share of its squared length."""
    squared, order = gradient.double().square().sum(-1).sort()
    return order[(squared.cumsum(0) > left_out * squared.sum()).nonzero().squeeze(-1)].sort().values


Algorithm = Exact
