"""Proximal policy optimisation (Schulman et al. 2017) with generalised advantage estimation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.base import CriticConfig, SampledLearner
from drest_torch.limits import limited


@dataclass
class Config(CriticConfig):
    """The settings of PPO."""

    epochs: int = limited(at_least=1)
    clip: float = limited(above=0, finite=False)


class PPO(SampledLearner):
    """PPO with the clipped objective."""

    needs_critic = True

    @property
    def epochs(self) -> int:  # type: ignore[override]
        return self.config.epochs

    def objective(self, log_prob: Tensor, log_prob_then: Tensor, advantage: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        log_ratio = log_prob - log_prob_then
        change = (log_ratio.exp() - 1).detach()
        metrics = {
            "policy/kl": change - log_ratio.detach(),
            "policy/clip_fraction": (change.abs() > self.config.clip).float(),
        }
        return clipped_objective(log_ratio, advantage, self.config.clip), metrics


def clipped_objective(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return min(r A, clip(r, 1 − ε, 1 + ε) A) for r = π(a|s) / π_old(a|s)."""
    ratio = log_ratio.exp()
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


Algorithm = PPO
