"""Proximal policy optimisation (Schulman et al. 2017) with generalised advantage estimation."""

from __future__ import annotations

import torch
from torch import Tensor

from algos.batch import Batch
from algos.updates import Learner, advantages, explained_variance, minibatches


class PPO(Learner):
    needs_critic = True

    def update(self, batch: Batch) -> dict[str, Tensor]:
        cfg = self.config
        advantage, target = advantages(batch, self.critic, cfg.gae_lambda, cfg.credit)
        value_before = target - advantage
        if cfg.normalise_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        seen: list[dict[str, Tensor]] = []
        for _ in range(cfg.epochs):
            for part in minibatches(batch, cfg.minibatches, self.generator):
                log_prob, entropy = part.evaluate(self.policy)
                log_ratio = log_prob - batch.log_prob[part.steps]
                objective = clipped_objective(log_ratio, advantage[part.steps], cfg.clip)
                value_loss = 0.5 * (part.value(self.critic) - target[part.steps]).square().mean()
                loss = -objective.mean() + cfg.critic_coeff * value_loss - self.entropy_coeff * entropy.mean()
                norm = self.descend(loss)
                with torch.no_grad():
                    seen.append(
                        {
                            "loss/objective": objective.mean(),
                            "loss/critic": value_loss,
                            "policy/entropy": entropy.mean(),
                            "policy/kl": (log_ratio.exp() - 1 - log_ratio).mean(),
                            "policy/clip_fraction": (log_ratio.exp() - 1).abs().gt(cfg.clip).float().mean(),
                            "optim/grad_norm": norm,
                        }
                    )
        metrics = {name: torch.stack([each[name].detach() for each in seen]).mean() for name in seen[0]}
        return metrics | {"critic/explained_variance": explained_variance(value_before, target)}


def clipped_objective(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """min(r A, clip(r, 1 − ε, 1 + ε) A) for r = π(a|s) / π_old(a|s)."""
    ratio = log_ratio.exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
