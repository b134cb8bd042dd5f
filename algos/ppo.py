"""Proximal policy optimisation (Schulman et al. 2017) with generalised advantage estimation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drest_torch.algos.base import CriticConfig
from drest_torch.algos.policy_gradient import SampledAlgorithm
from drest_torch.limits import limited

if TYPE_CHECKING:
    from torchrl.objectives import ClipPPOLoss


@dataclass
class Config(CriticConfig):
    """The settings of PPO."""

    epochs: int = limited(at_least=1, default=3)
    """Passes over each batch."""
    clip: float = limited(above=0, finite=False, default=0.2)
    """Clipping range: the probability ratio is clipped to between 1 - clip and 1 + clip."""
    max_kl: float | None = limited(above=0, default=0.2)
    """Largest KL divergence from the policy that played the batch; an update ends at a minibatch that exceeds it."""


class PPO(SampledAlgorithm):
    """PPO with the clipped objective."""

    needs_critic = True

    def make_loss(self, actor: Any, value: Any) -> ClipPPOLoss:
        from torchrl.objectives import ClipPPOLoss

        return ClipPPOLoss(actor, value, clip_epsilon=self.config.clip, log_explained_variance=False, **self.shared())


Algorithm = PPO
