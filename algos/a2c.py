"""Advantage actor-critic (Mnih et al. 2016, synchronous): one step of policy gradient on each minibatch."""

from __future__ import annotations

import torch
from torch import Tensor

from algos.batch import Batch
from algos.updates import Learner, advantages, explained_variance, minibatches


class A2C(Learner):
    needs_critic = True

    def update(self, batch: Batch) -> dict[str, Tensor]:
        cfg = self.config
        advantage, target = advantages(batch, self.critic, cfg.gae_lambda, cfg.credit)
        value_before = target - advantage
        if cfg.normalise_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        seen: list[dict[str, Tensor]] = []
        for part in minibatches(batch, cfg.minibatches, self.generator):
            log_prob, entropy = part.evaluate(self.policy)
            objective = (log_prob * advantage[part.steps]).mean()
            value_loss = 0.5 * (part.value(self.critic) - target[part.steps]).square().mean()
            norm = self.descend(-objective + cfg.critic_coeff * value_loss - self.entropy_coeff * entropy.mean())
            seen.append(
                {
                    "loss/objective": objective.detach(),
                    "loss/critic": value_loss.detach(),
                    "policy/entropy": entropy.detach().mean(),
                    "optim/grad_norm": norm,
                }
            )
        metrics = {name: torch.stack([each[name] for each in seen]).mean() for name in seen[0]}
        return metrics | {"critic/explained_variance": explained_variance(value_before, target)}
