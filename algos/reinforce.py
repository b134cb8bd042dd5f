"""REINFORCE (Williams 1992): the log-probability of each action times the return that follows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import MISSING
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor
from torchrl.objectives import ReinforceLoss

from drest_torch.algos.sampled import SampledConfig, SampledLearner


@dataclass
class Config(SampledConfig):
    """The settings of REINFORCE."""

    baseline: bool = MISSING


class _Loss(ReinforceLoss):
    """TorchRL's loss with an entropy bonus, and without a critic."""

    def __init__(self, actor: Any, entropy: float) -> None:
        nothing = TensorDictModule(torch.nn.Identity(), ["advantage"], ["state_value"])
        super().__init__(actor, nothing, functional=False)
        self.register_buffer("entropy_coeff", torch.tensor(entropy))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        losses = super().forward(tensordict)
        entropy = self.actor_network.dist.entropy().mean()
        return losses.set("entropy", entropy.detach()).set("loss_entropy", -self.entropy_coeff * entropy)

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Tensor, None]:
        return torch.zeros(()), None


class Reinforce(SampledLearner):
    """REINFORCE, by default with a baseline that needs no critic."""

    def make_loss(self, actor: Any, value: Any) -> ReinforceLoss:
        return _Loss(actor, self.config.entropy)

    def baselined(self, steps: TensorDictBase) -> Tensor:
        to_go: Tensor = steps["advantage"]
        return to_go - mean_of_other_groups(to_go, self.counts) if self.config.baseline else to_go


def mean_of_other_groups(to_go: Tensor, counts: Tensor) -> Tensor:
    """Return for each step [N, 1] the mean return of the steps of all other groups, which have so many each.

    It is a baseline that does not depend on the step's own action.
    """
    if len(counts) == 1:
        return torch.zeros_like(to_go)
    total = torch.stack([part.sum() for part in to_go.split(counts.tolist())])
    others = (total.sum() - total) / (counts.sum() - counts)
    return others.repeat_interleave(counts).unsqueeze(-1)


Algorithm = Reinforce
