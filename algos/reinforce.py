"""REINFORCE: gradient ascent on the log-probability of each action times the return that follows it (Williams 1992)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.algos.base import SampledConfig
from drest_torch.algos.policy_gradient import SampledAlgorithm

if TYPE_CHECKING:
    from tensordict import TensorDictBase
    from torchrl.objectives import ReinforceLoss


@dataclass
class Config(SampledConfig):
    """The settings of REINFORCE."""

    baseline: bool = True
    """Subtraction of the mean return of the batch's other groups from each return."""


class Reinforce(SampledAlgorithm):
    """REINFORCE, by default with a baseline that needs no critic."""

    def make_loss(self, actor: Any, value: Any) -> ReinforceLoss:
        from drest_torch.algos.reinforce_loss import EntropyReinforceLoss

        return EntropyReinforceLoss(actor, self.config.entropy)

    def baselined(self, steps: TensorDictBase) -> Tensor:
        to_go: Tensor = steps["advantage"]
        if not self.config.baseline:
            return to_go
        return to_go - mean_of_other_groups(to_go, self.sizes_of_groups(steps))


def mean_of_other_groups(to_go: Tensor, counts: Tensor) -> Tensor:
    """Return for each step [N, 1] the mean return of the steps of all other groups; ``counts`` are groups' sizes.

    The baseline does not depend on the step's own action.
    """
    if len(counts) == 1:
        return torch.zeros_like(to_go)
    total = torch.stack([part.sum() for part in to_go.split(counts.tolist())])
    others = (total.sum() - total) / (counts.sum() - counts)
    return others.repeat_interleave(counts).unsqueeze(-1)


Algorithm = Reinforce
