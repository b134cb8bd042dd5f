"""Build the networks and evaluators of a run from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks.base import MapLayout, NetworkSize, Symmetries, requirements
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.building import levels as data
from drest_torch.config.schema import Config, shown_features
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.dynamics.observations import (
    DELAY_UNIT,
    GridObservation,
    Observation,
    make_observation,
    rotated_planes,
)
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.envs.levels import Level
from drest_torch.envs.levels.symmetry import rotated_actions, rotated_cells
from drest_torch.evaluation.exact import ExactEvaluator
from drest_torch.reward import Reward

if TYPE_CHECKING:
    from drest_torch.collector import Environment


def reward_of(cfg: Config) -> Reward:
    return Reward(**{field.name: getattr(cfg.reward, field.name) for field in fields(Reward)})


def observation(cfg: Config, mdp: Mdp) -> Observation:
    """Make the observation of a run's policy for a level set."""
    return make_observation(cfg.policy.observation, mdp, cfg.policy.time_steps)


def networks(
    cfg: Config, observe: Observation, *, context: int = 0, with_critic: bool = False
) -> tuple[Policy, Critic | None]:
    """Build an untrained policy for gridworlds and, if the algorithm has one, a critic; the seed gives their weights.

    The critic sees ``context`` numbers of the meta-episode besides.
    """
    if (own := ALGORITHMS[cfg.algo.name].Algorithm.own_policy) is not None:
        return own(observe), None
    seen = {"scale": observe.scale.cpu(), "symmetries": _symmetries(cfg, observe)}
    return _built(cfg, observe.shape, NUM_ACTIONS, seen, context if with_critic else None)


def environment_networks(
    cfg: Config, environment: Environment, *, with_critic: bool = False
) -> tuple[Policy, Critic | None]:
    """Build the networks for an environment that shows a row of numbers."""
    flatten, actions = environment.flatten, environment.actions
    assert flatten is not None
    seen = {"scale": torch.ones(flatten.shape), "entries": list(flatten.shown.values())}
    context = environment.num_lengths if environment.shows_counts else 0
    offset = actions.offset(environment.ask)
    return _built(cfg, flatten.shape, actions.outputs, seen, context if with_critic else None, offset)


def _built(
    cfg: Config, shape: Sequence[int], outputs: int, seen: Any, context: int | None, offset: Tensor | None = None
) -> tuple[Policy, Critic | None]:
    """Build networks that see the same; without a ``context`` there is no critic."""
    chosen = cfg.policy
    size = NetworkSize(chosen.width, chosen.depth, chosen.activation, chosen.network)
    seen = seen | {"private_bits": chosen.private_bits}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cfg.seed)
        policy = Policy(shape, outputs, size, offset=offset, **seen)
        if context is None:
            return policy, None
        wide = replace(size, width=cfg.algo.critic_width or chosen.width)
        return policy, Critic(shape, wide, context=context, policy=policy, **seen)


def _symmetries(cfg: Config, observe: Observation) -> Symmetries | None:
    """Return the symmetries that the network requires, if any."""
    required = requirements(cfg.policy.network).symmetries
    if required is None:
        return None
    if required == "cells":
        assert isinstance(observe, GridObservation)  # `data.check` has seen to it
        layout = MapLayout(observe.planes, rotated_planes(observe.planes), cfg.policy.time_steps, DELAY_UNIT)
        return Symmetries(rotated_cells(3), rotated_actions(), layout)
    assert observe.rotated is not None  # `data.check` and `map_size` have seen to it
    return Symmetries(observe.rotated.cpu(), rotated_actions())


def evaluator(
    cfg: Config,
    reward: Reward,
    levels: Sequence[Level] | LevelSet,
    size: tuple[int, int],
    device: torch.device,
    *,
    sampled: int | None,
    memory_gib: float,
) -> ExactEvaluator:
    """Build the evaluator of a level set: exact, or by sampling this many mini-episodes on each level.

    A policy that remembers is sampled in any case, as its run is.
    """
    kind: Callable[..., ExactEvaluator] = ExactEvaluator
    remembers = requirements(cfg.policy.network).remembers
    sampled = cfg.sampled if remembers and sampled is None else sampled
    if sampled is not None:
        from drest_torch.evaluation.sampled import SamplingEvaluator  # TorchRL takes seconds to import

        rounds = reward.episodes_per_meta if remembers and reward.counting == "sequential" else 1
        kind = partial(SamplingEvaluator, mini_episodes=sampled, rounds=rounds, seed=cfg.seed)
    return kind(
        levels,
        cfg.policy.observation,
        reward=reward,
        at_least=size,
        features=shown_features(cfg),
        private_kind=cfg.policy.private_kind,
        private_draws=cfg.policy.private_draws,
        time_steps=cfg.policy.time_steps,
        memory_gib=memory_gib,
        device=device,
    )


def map_size(cfg: Config, levels: data.Levels) -> tuple[int, int]:
    """Return the rows and columns of the largest map; smaller maps are padded to it with wall."""
    if cfg.policy.observation == "vector":
        return levels.train[0].height, levels.train[0].width
    sizes = [(level.height, level.width) for level in levels.every()]
    if levels.split is not None:  # the size must not depend on how many levels are generated
        sizes.append((levels.split.config.height[1], levels.split.config.width[1]))
    height, width = max(height for height, _ in sizes), max(width for _, width in sizes)
    squares = requirements(cfg.policy.network).symmetries == "observation"
    if squares or cfg.levels.symmetries:  # a quarter turn swaps rows and columns
        return max(height, width), max(height, width)
    return height, width
