"""Tabular policies trained by exact gradient ascent on an objective, or by steps of CPO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.objectives.base import Objective, PolicyOutcome
from drest_torch.config.schema import objective_of
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import Level
from drest_torch.jobs.training_job import run_config
from drest_torch.metrics import neutrality
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch


def ascend(
    levels: Sequence[Level],
    objective: Objective,
    *,
    steps: int = 800,
    lr: float = 0.1,
    divisor: Tensor | None = None,
    reward: Reward = Reward(),  # noqa: B008 (frozen)
) -> PolicyOutcome:
    """Return the outcome of maximising an objective with Adam, from the uniform policy.

    ``divisor`` [B, K] replaces m(l).
    """
    batch, logits = _beginning(levels, reward)
    adam = torch.optim.Adam([logits], lr=lr, betas=(0.9, 0.9), eps=1e-30)
    for step in range(steps):
        adam.param_groups[0]["lr"] = lr * min(1.0, 2 * (1 - step / steps) + 0.01)
        adam.zero_grad()
        (-objective.value(outcome_of(batch, logits, divisor)).sum()).backward()
        adam.step()
    with torch.no_grad():
        return outcome_of(batch, logits, divisor)


def _beginning(levels: Sequence[Level], reward: Reward = Reward()) -> tuple[ExactBatch, Tensor]:  # noqa: B008 (frozen)
    """Return a batch of levels, and the logits of the uniform policy in all of its states."""
    batch = ExactBatch(LevelSet(compile_levels(levels)), "grid", reward)
    return batch, torch.zeros(1, batch.states, NUM_ACTIONS, dtype=torch.float64, requires_grad=True)


def outcome_of(batch: ExactBatch, logits: Tensor, divisor: Tensor | None = None) -> PolicyOutcome:
    """Return the outcome of the table with these logits [1, N, 4]."""
    outcome = batch.policy_outcome(logits.softmax(-1), "mini")
    if divisor is None:
        return outcome
    return replace(outcome, best_return=divisor)


def trust_region_steps(level: Level, at_least: float, steps: int = 800) -> PolicyOutcome:
    """Maximise the coins of a level subject to N ≥ ``at_least`` by constrained policy optimisation (CPO).

    A step x maximises gᵀx subject to c + bᵀx ≤ 0 and ½ xᵀHx ≤ δ. Here g is the gradient of the coins, b the gradient
    of the violation c = ``at_least`` − N, and H the Fisher matrix, weighted by visits. δ falls to 0. For a table,
    H⁻¹g is g / (visits · policy), up to a constant in each state, which does not change the policy.
    """
    batch, logits = _beginning([level])
    for step in range(steps):
        outcome = outcome_of(batch, logits)
        violation = at_least - neutrality(outcome.probability).sum()
        (gain,) = torch.autograd.grad(outcome.coins.sum(), logits, retain_graph=True)
        (worse,) = torch.autograd.grad(violation, logits)
        with torch.no_grad():
            table = logits.softmax(-1)
            metric = (batch.visits(table[0]).unsqueeze(-1) * table).clamp_min(1e-12)
            g, b = gain / metric, worse / metric
            products = (gain * g).sum(), (gain * b).sum(), (worse * b).sum()
            delta = 1e-2 * (1 - step / steps) ** 2
            logits += step_within(g, b, *products, violation.detach(), delta)
    with torch.no_grad():
        return outcome_of(batch, logits)


def step_within(g: Tensor, b: Tensor, q: Tensor, r: Tensor, s: Tensor, c: Tensor, delta: float) -> Tensor:
    """Return the step of CPO from H⁻¹g, H⁻¹b, q = gᵀH⁻¹g, r = gᵀH⁻¹b, s = bᵀH⁻¹b, the violation c, and δ."""
    free = (2 * delta / q.clamp_min(1e-30)).sqrt()
    if c + free * r <= 0 or s < 1e-12:
        return free * g
    room = 2 * delta - c.square() / s
    if room < 0:  # no step is feasible, so the violation is reduced as fast as possible
        return -c.sign() * (2 * delta / s).sqrt() * b
    along = (room / (q - r.square() / s).clamp_min(1e-30)).sqrt()
    return along * (g - r / s * b) - c / s * b


def named(values: Mapping[str, Any]) -> Objective:
    """Return an objective with these values in place of the defaults in its yaml file."""
    changes = {key: value for key, value in values.items() if key != "name"}
    return objective_of(run_config({"objective": changes}, algo="exact", objective=values["name"]))
