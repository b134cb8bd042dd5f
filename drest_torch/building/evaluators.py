"""Make the evaluator of an agent on levels, from its specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from drest_torch.algos.networks.base import Requirements, requirements
from drest_torch.algos.networks.spec import TABLE, MapView
from drest_torch.building.specification import AgentSpec
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact import ExactEvaluator


def evaluator(
    spec: AgentSpec,
    levels: Sequence[Level] | LevelSet,
    device: torch.device,
    *,
    sampled: int | None,
    memory_gib: float,
) -> ExactEvaluator:
    """Return the evaluator of a level set: exact, or by sampling this many mini-episodes on each level.

    A policy that remembers is sampled in any case, as its run is.
    """
    policy, reward, view = spec.policy, spec.reward, spec.policy.sees
    assert isinstance(view, MapView)
    required = Requirements() if policy.network == TABLE else requirements(policy.network)
    kind: Callable[..., ExactEvaluator] = ExactEvaluator
    sampled = spec.origin.sampled if required.remembers and sampled is None else sampled
    if sampled is not None:
        from drest_torch.evaluation.sampled import SamplingEvaluator  # TorchRL takes seconds to import

        is_sequence = required.remembers and reward.counting == "sequential"
        rounds = reward.episodes_per_meta if is_sequence else 1
        kind = partial(SamplingEvaluator, mini_episodes=sampled, rounds=rounds, seed=spec.origin.seed)
    return kind(
        levels,
        view.observation,
        reward=reward,
        at_least=(view.rows, view.columns),
        features=view.features,
        planes=view.planes,
        private_kind=policy.private_kind,
        private_draws=policy.private_draws,
        time_steps=view.time_steps,
        memory_gib=memory_gib,
        device=device,
    )
