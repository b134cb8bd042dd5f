"""Distillation: one policy is trained to the mean policy of several trained agents, without sampling.

The loss is the Kullback-Leibler divergence of the student from its teachers, averaged over all reachable states of a
batch of levels:

    Σ_s w(s) Σ_a π_T(a|s) log (π_T(a|s) / π_S(a|s)),   π_T the mean of the teachers' probabilities.

The weights of a level are w(s) = (1 − u) d(s) / Σ d + u / n. Here d(s) is the probability that the teachers' mean
policy visits state s in a mini-episode, n is the number of states of the level, and u is `algo.uniform_share`.

By the chain rule, Σ_s d(s) KL(s) is the divergence between the distributions of whole mini-episodes. It bounds the
difference of every P(L = l) by Pinsker's inequality, so a small value keeps usefulness and neutrality. The uniform part
trains the student in states that the teachers avoid, but that the student reaches through its errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos import exact
from drest_torch.algos.base import Need, Source
from drest_torch.errors import ConfigError
from drest_torch.limits import limited

CHECKPOINTS = ("last", "best")


@dataclass
class Config(exact.BatchConfig):
    """The settings of distillation."""

    teachers: list[str] = limited(default=[])
    """Agents whose mean policy is distilled: folders of runs, or names of pretrained agents."""
    checkpoint: str = limited(choices=CHECKPOINTS, default="last")
    """Checkpoint of the teachers: last, or best (on their selection levels)."""
    uniform_share: float = limited(at_least=0, at_most=1, default=0.2)
    """Share of the weight that all reachable states of a level have equally; the rest is weighted by the probability
    that the teachers' mean policy visits a state."""


class Distil(exact.Exact):
    """Distillation on levels that are unrolled into their reachable states."""

    teachers: Any
    """The teachers' mean policy: `drest_torch.tasks.teachers.Teachers`."""
    agents = ("teachers",)
    if_not_finite = "use a smaller algo.lr"

    @classmethod
    def on(cls, task: Source, config: Any, rng: torch.Generator) -> Distil:
        algorithm = super().on(task, config, rng)
        assert isinstance(algorithm, Distil)
        algorithm.teachers = task.teachers(config.teachers, config.checkpoint)
        bits, needed = algorithm.policy.private_bits, algorithm.teachers.private_bits
        if bits != needed:
            raise ConfigError(
                f"policy.private_bits={bits}, but the teachers have {needed} together; use policy.private_bits={needed}"
            )
        return algorithm

    @classmethod
    def needs(cls, cfg: Any, objective: Any) -> Iterator[Need]:
        yield from super().needs(cfg, objective)
        if not cfg.algo.teachers:
            raise ConfigError(
                "algo.teachers=[]; expected the folders of runs, or names of pretrained agents, as in "
                "algo.teachers=[runs/a,runs/b]"
            )
        algo = f"algo={cfg.algo.name}"
        yield "objective.name", "drest", f", but {algo} learns from its teachers alone"
        yield "reward.ends", "actual", f", but the teachers of {algo} know the actual levels alone"
        yield "algo.credit", "mini", f", but {algo} gets no reward to credit"

    def explore(self, batch: Any) -> tuple[Tensor, Tensor]:
        return self.everywhere(batch)

    def loss(self, batch: Any, visited: Tensor, logits: Tensor) -> tuple[Tensor, dict[str, Any]]:
        by_setting = (len(self.all_private_bits), -1)
        log_probs = logits.log_softmax(-1).unflatten(0, by_setting)  # [Z, N, A]
        teachers = self.teachers.probabilities(batch).to(logits)  # [Z, N, A]
        divergence = divergences(teachers, log_probs)
        visits = torch.stack([batch.visits(table) for table in teachers])
        weights = state_weights(visits, batch.level, self.config.uniform_share)
        mean = (weights * divergence).sum()
        entropy = (weights * -(log_probs.exp() * log_probs).sum(-1)).sum()
        levels = int(batch.level.max()) + 1
        of_mini_episodes = (visits * divergence).sum() / (levels * len(visits))
        metrics = {
            "loss/objective": -mean.detach(),
            "policy/entropy": entropy.detach(),
            "policy/kl_teachers": of_mini_episodes.detach(),
        }
        return mean - self.entropy_coeff * entropy, metrics


def divergences(teachers: Tensor, log_probs: Tensor) -> Tensor:
    """Return the divergence [Z, N] of a student's log-probabilities [Z, N, A] from the teachers' probabilities."""
    return (torch.xlogy(teachers, teachers) - teachers * log_probs).sum(-1)


def state_weights(visits: Tensor, level: Tensor, uniform_share: float) -> Tensor:
    """Return the weights [Z, N] of states, whose sum is 1, from the teachers' visits [Z, N] and their levels [N].

    All levels have the same weight, and so have all settings of the private bits.
    """
    levels = int(level.max()) + 1
    length = visits.new_zeros(len(visits), levels).index_add(1, level, visits)  # [Z, B]
    states = level.bincount(minlength=levels)  # [B]
    by_visits = visits / length[:, level]
    by_number = (1 / states.to(visits))[level]
    return ((1 - uniform_share) * by_visits + uniform_share * by_number) / (levels * len(visits))


Algorithm = Distil
