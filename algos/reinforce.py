"""REINFORCE (Williams 1992): the log-probability of each action times the return that follows it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from omegaconf import MISSING
from torch import Tensor

from drest_torch.algos.advantages import estimate
from drest_torch.algos.base import SampledConfig, SampledLearner
from drest_torch.algos.batch import Batch, Part


@dataclass
class Config(SampledConfig):
    """The settings of REINFORCE."""

    baseline: bool = MISSING


class Reinforce(SampledLearner):
    """REINFORCE, by default with a baseline that needs no critic."""

    def advantages(self, batch: Batch, whole: Part) -> tuple[Tensor, Tensor | None]:
        to_go, _ = estimate(batch, torch.zeros_like(batch.log_prob), 1.0, self.config.credit)
        return to_go - mean_of_other_groups(batch, to_go) if self.config.baseline else to_go, None


def mean_of_other_groups(batch: Batch, to_go: Tensor) -> Tensor:
    """Return for each step [N] the mean return of the steps of all other groups of the same agent.

    It is a baseline that does not depend on the step's own action.
    """
    if batch.num_groups == batch.agents:
        return torch.zeros_like(to_go)
    group = batch.step_group()
    weight = torch.ones_like(to_go) if batch.played is None else batch.played.to(to_go.dtype)
    total = to_go.new_zeros(batch.num_groups).index_add(0, group, to_go * weight)
    count = to_go.new_zeros(batch.num_groups).index_add(0, group, weight)
    return (_of_others(total, batch.agents) / _of_others(count, batch.agents))[group]


def _of_others(value: Tensor, agents: int) -> Tensor:
    """Return for each group the sum over the other groups of its agent [groups]."""
    value = value.reshape(agents, -1)
    return (value.sum(-1, keepdim=True) - value).flatten()


Algorithm = Reinforce
