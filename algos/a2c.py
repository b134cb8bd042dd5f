"""Synchronous advantage actor-critic (Mnih et al. 2016), which uses each minibatch once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drest_torch.algos.base import CriticConfig
from drest_torch.algos.policy_gradient import SampledAlgorithm

if TYPE_CHECKING:
    from torchrl.objectives import A2CLoss


@dataclass
class Config(CriticConfig):
    """The settings of A2C."""


class A2C(SampledAlgorithm):
    """A2C: the log-probability of each action times its advantage."""

    needs_critic = True

    def make_loss(self, actor: Any, value: Any) -> A2CLoss:
        from torchrl.objectives import A2CLoss

        return A2CLoss(actor, value, **self.shared())


Algorithm = A2C
