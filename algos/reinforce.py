"""REINFORCE (Williams 1992): the log-probability of each action times its mini-episode's reward."""

from __future__ import annotations

import torch
from torch import Tensor

from algos.advantages import estimate
from algos.batch import Batch
from algos.updates import Learner, minibatches


class Reinforce(Learner):
    needs_critic = False

    def update(self, batch: Batch) -> dict[str, Tensor]:
        cfg = self.config
        advantage, _ = estimate(batch, torch.zeros_like(batch.log_prob), 1.0, cfg.credit)
        if cfg.baseline:
            advantage = advantage - mean_of_other_groups(batch, advantage)
        if cfg.normalise_advantage:
            advantage = advantage / (advantage.std() + 1e-8)
        seen: list[dict[str, Tensor]] = []
        for part in minibatches(batch, cfg.minibatches, self.generator):
            log_prob, entropy = part.evaluate(self.policy)
            objective = (log_prob * advantage[part.steps]).mean()
            norm = self.descend(-objective - self.entropy_coeff * entropy.mean())
            seen.append(
                {
                    "loss/objective": objective.detach(),
                    "policy/entropy": entropy.detach().mean(),
                    "optim/grad_norm": norm,
                }
            )
        return {name: torch.stack([each[name] for each in seen]).mean() for name in seen[0]}


def mean_of_other_groups(batch: Batch, to_go: Tensor) -> Tensor:
    """[N] the mean return of the steps of all other groups: a baseline that no action of one's own can move."""
    if batch.num_groups < 2:
        return torch.zeros_like(to_go)
    group = batch.group[batch.seen]
    total = to_go.new_zeros(batch.num_groups).index_add(0, group, to_go)
    count = to_go.new_zeros(batch.num_groups).index_add(0, group, torch.ones_like(to_go))
    return ((total.sum() - total) / (count.sum() - count))[group]
