"""Policies that are free in every state, climbed to by exact gradients of an objective, or by CPO's steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.exact import ExactBatch
from drest_torch.algos.objectives import base
from drest_torch.algos.objectives.base import Objective, Outcome
from drest_torch.config.schema import objective_of
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.levels import Level
from drest_torch.jobs.training_job import run_config
from drest_torch.reward import Reward
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import LevelSampler


@dataclass(frozen=True)
class Found:
    """What was climbed to in B levels."""

    probability: Tensor
    """[B, K] P(L = l)"""
    given: Tensor
    """[B, K] E[C | L = l]"""
    best_return: Tensor
    """[B, K] m(l), or the divisor that was given in its place"""
    multiplier: float = 0.0
    """of a constraint, if there is one"""


def climb(
    levels: Sequence[Level],
    objective: Objective,
    *,
    reward: Reward | None = None,
    steps: int = 800,
    lr: float = 0.1,
    divisor: Tensor | None = None,
) -> Found:
    """Return what the ascent of an objective comes to, from a uniform policy, with Adam."""
    batch = _batch(levels, objective, reward or Reward())
    best = batch.best_return if divisor is None else divisor
    logits = torch.zeros(1, batch.states, NUM_ACTIONS, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=lr, betas=(0.9, 0.9), eps=1e-30)
    for step in range(steps):
        adam.param_groups[0]["lr"] = lr * min(1.0, 2 * (1 - step / steps) + 0.01)
        tables = logits.softmax(-1)
        outcome = Outcome(
            *batch.outcome(tables),
            best,
            batch.num_lengths,
            batch.by_luck,
            batch.reward,
            "mini",
            partial(batch.by_lottery, tables),
            partial(batch.divergence, tables),
        )
        adam.zero_grad()
        (-objective.value(outcome).sum()).backward()
        adam.step()
    multiplier = objective.metrics().get("objective/multiplier", torch.zeros(()))
    return Found(outcome.probability.detach(), base.conditional(outcome).detach(), best, multiplier.item())


def _batch(levels: Sequence[Level], objective: Objective | None, reward: Reward) -> ExactBatch:
    source = LevelSampler(list(levels), torch.Generator())
    options: dict[str, Any] = {"at_once": len(levels), "at_least": (1, 1)}
    return ExactLevels(source, "grid", reward=reward, objective=objective, **options).draw()


def named(values: Mapping[str, Any]) -> Objective:
    """Return the objective with these values over those of its yaml file."""
    own = {key: value for key, value in values.items() if key != "name"}
    return objective_of(run_config({"objective": own}, algo="exact", objective=values["name"]))
