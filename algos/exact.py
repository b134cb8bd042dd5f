"""Gradient ascent on the expected DReST return in closed form: no sampling, so no sampling error.

With ``credit=meta`` it climbs the expected return of the meta-episode itself. With ``credit=mini`` it
climbs what mini-episode credit climbs on average: the discounts D(P(L=l)) are taken as given,

    ∇ Σ_l P(L=l) · E[C | L=l] / m(l) · D(P(L=l)),   D held fixed.

With private noise it is the expected return over all settings of its bits.

The network runs in the states that the policy comes to, not in all that can be reached, unless it reads maps, which
is for all states at once. The gradient with respect to its logits there comes next; it says which of these states
matter, and the network learns from those alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from algos.base import NetworkConfig, NetworkLearner
from algos.batch import ExactBatch
from algos.networks.policy import settings
from drest_torch.limits import limited

STATES_AT_ONCE = 4096
"""The network runs on so many states at a time, which fit into the caches of a processor."""


@dataclass
class Config(NetworkConfig):
    levels_at_once: int = limited(at_least=1)
    rarely: float = limited(at_least=0)
    left_out: float = limited(at_least=0)
    counted_as: int = limited(at_least=1)


class Exact(NetworkLearner):
    learns_from = "levels"

    def __init__(self, policy: Any, *others: Any) -> None:
        super().__init__(policy, *others)
        self.noises = settings(policy.noise).to(next(policy.parameters()).device)

    def update(self, batch: ExactBatch) -> dict[str, Tensor]:
        asked, logits = self._explore(batch)
        log_probs = logits.requires_grad_().log_softmax(-1)
        probabilities = log_probs.exp()
        uniform = probabilities.new_full((len(self.noises) * batch.states, logits.shape[-1]), 1 / logits.shape[-1])
        everywhere = uniform.index_put((asked,), probabilities).unflatten(0, (len(self.noises), -1))
        # As in a batch of played steps: each state counts as often as it is met, which is taken as given.
        visits = torch.cat([batch.visits(each) for each in everywhere.detach()])[asked]
        entropy = (visits * -(probabilities * log_probs).sum(-1)).sum() / visits.sum()
        objective = self.objective(batch, *batch.outcome(everywhere)).mean()
        (gradient,) = torch.autograd.grad(-objective - self.entropy_coeff * entropy, logits)
        states = mattering(gradient, self.config.left_out)
        setting, state = asked[states] // batch.states, asked[states] % batch.states
        norm = self.descend((self.policy(batch.observe(state), self.noises[setting]) * gradient[states]).sum())
        return {
            "loss/objective": objective.detach(),
            "policy/entropy": entropy.detach(),
            "optim/grad_norm": norm,
            "optim/states_visited": torch.tensor(len(asked) / len(uniform)),
            "optim/states_learned_from": torch.tensor(len(states) / len(uniform)),
        }

    def _explore(self, batch: ExactBatch) -> tuple[Tensor, Tensor]:
        """Where the policy comes to, as indices [V] into all states under one setting of its noise after the other, and
        its logits there [V, A]."""
        count = len(self.noises)
        if self.policy.reads_maps:
            logits = batch.everywhere(self._under_all_settings).unflatten(-1, (count, -1)).movedim(1, 0).flatten(0, 1)
            return torch.arange(len(logits), device=logits.device), logits
        found = [batch.explore(partial(self._logits, setting=index), self.config.rarely) for index in range(count)]
        asked = [index * batch.states + visited for index, (visited, _) in enumerate(found)]
        return torch.cat(asked), torch.cat([logits for _, logits in found])

    def _logits(self, observation: Tensor, setting: int) -> Tensor:
        noise = self.noises[setting]
        parts = observation.split(STATES_AT_ONCE)
        return torch.cat([self.policy(part, noise.expand(len(part), -1)) for part in parts])

    def _under_all_settings(self, observation: Tensor) -> Tensor:
        """[n, Z · A] logits."""
        repeated = observation.repeat_interleave(len(self.noises), 0), self.noises.repeat(len(observation), 1)
        return self.policy(*repeated).reshape(len(observation), -1)

    def objective(self, batch: ExactBatch, probability: Tensor, coins: Tensor) -> Tensor:
        """Return [B] the expected return of a mini-episode, averaged over its meta-episode, from P(L = l) and P(L = l)
        times the coins collected then."""
        reward = batch.reward
        preliminary = reward.preliminary(coins, batch.best_return.to(coins.dtype))
        expected = reward.expected_return(probability, preliminary, batch.num_lengths, credit=self.config.credit)
        return expected / reward.episodes_per_meta


def mattering(gradient: Tensor, left_out: float) -> Tensor:
    """The largest rows of a gradient [N, A]: as few as leave out at most this share of its squared length."""
    squared, order = gradient.double().square().sum(-1).sort()
    return order[(squared.cumsum(0) > left_out * squared.sum()).nonzero().squeeze(-1)].sort().values


Algorithm = Exact
