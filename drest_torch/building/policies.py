"""What a run's configuration says of its policy, reward and maps, and the networks that a specification describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import torch

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks.base import MapLayout, NetworkSize, Symmetries, requirements
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec, RowView
from drest_torch.algos.networks.table import TablePolicy
from drest_torch.building import levels as data
from drest_torch.config.schema import Config
from drest_torch.envs.actions import NUM_ACTIONS
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import (
    DELAY_UNIT,
    Observation,
    make_observation,
    rotated_inputs,
    rotated_planes,
    side_of_planes,
)
from drest_torch.envs.levels.symmetry import rotated_actions, rotated_cells
from drest_torch.reward import Reward

if TYPE_CHECKING:
    from drest_torch.collector import Environment


def reward_of(cfg: Config) -> Reward:
    return Reward(**{field.name: getattr(cfg.reward, field.name) for field in fields(Reward)})


def observation(cfg: Config, mdp: Mdp) -> Observation:
    """Make the observation of a run's policy for a level set."""
    return make_observation(cfg.policy.observation, mdp, cfg.policy.time_steps)


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


def spec_on_levels(cfg: Config, observe: Observation, size: tuple[int, int], features: frozenset[str]) -> PolicySpec:
    """Return the specification of a run's policy in gridworlds with maps of at most this size."""
    view = MapView(
        observation=cfg.policy.observation,
        planes=observe.planes,
        rows=size[0],
        columns=size[1],
        time_steps=cfg.policy.time_steps,
        features=tuple(sorted(features)),
    )
    scale = tuple(observe.scale.flatten().tolist()) if observe.scale.ndim > 1 else (1.0,)
    is_table = ALGORITHMS[cfg.algo.name].Algorithm.is_tabular
    spec = _spec(cfg, observe.shape, scale, NUM_ACTIONS, view)
    return replace(spec, network=TABLE) if is_table else spec


def spec_in_environment(cfg: Config, environment: Environment) -> PolicySpec:
    """Return the specification of a run's policy in an environment that shows a row of numbers."""
    flatten, actions = environment.flatten, environment.actions
    assert flatten is not None
    offset = tuple(actions.offset(environment.ask).tolist())
    view = RowView(entries=flatten.shown, actions=actions.record(), offset=offset)
    return _spec(cfg, flatten.shape, (1.0,), actions.outputs, view)


def _spec(
    cfg: Config, shape: tuple[int, ...], scale: tuple[float, ...], outputs: int, view: MapView | RowView
) -> PolicySpec:
    policy = cfg.policy
    return PolicySpec(
        network=policy.network,
        width=policy.width,
        depth=policy.depth,
        activation=policy.activation,
        private_bits=policy.private_bits,
        shape=shape,
        scale=scale,
        outputs=outputs,
        sees=view,
    )


def build_policy(spec: PolicySpec) -> Policy | TablePolicy:
    """Build the policy of a specification, with random weights from torch's global generator."""
    if spec.network == TABLE:
        assert isinstance(spec.sees, MapView)
        return TablePolicy(spec.sees.rows, spec.sees.columns, spec.shape[0] - 2, spec.outputs)
    offset = torch.tensor(spec.sees.offset) if isinstance(spec.sees, RowView) else None
    return Policy(spec.shape, spec.outputs, _size(spec), offset=offset, **_signature(spec))


def build_networks(
    spec: PolicySpec, seed: int, *, critic_width: int | None = None, context: int | None = None
) -> tuple[Any, Critic | None]:
    """Build an untrained policy and, with a ``context``, a critic; the seed gives their weights.

    The critic sees ``context`` numbers of the meta-episode besides.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = build_policy(spec)
        if context is None:
            return policy, None
        size = replace(_size(spec), width=critic_width or spec.width)
        assert isinstance(policy, Policy)
        return policy, Critic(spec.shape, size, context=context, policy=policy, **_signature(spec))


def _size(spec: PolicySpec) -> NetworkSize:
    return NetworkSize(spec.width, spec.depth, spec.activation, spec.network)


def _signature(spec: PolicySpec) -> Mapping[str, Any]:
    """Return the arguments that a policy and its critic share."""
    planes = [-1, *[1] * (len(spec.shape) - 1)]
    shared: dict[str, Any] = {"private_bits": spec.private_bits, "scale": torch.tensor(spec.scale).reshape(planes)}
    if isinstance(spec.sees, RowView):
        return shared | {"entries": list(spec.sees.entries.values())}
    return shared | {"symmetries": _symmetries(spec, spec.sees)}


def _symmetries(spec: PolicySpec, view: MapView) -> Symmetries | None:
    """Return the symmetries that the network requires, if any."""
    required = requirements(spec.network).symmetries
    if required is None:
        return None
    if required == "cells":
        layout = MapLayout(view.planes, rotated_planes(view.planes), view.time_steps, DELAY_UNIT)
        return Symmetries(rotated_cells(3), rotated_actions(), layout)
    side = side_of_planes(view.observation, view.rows)
    further = spec.shape[0] - len(view.planes) * side * side if len(spec.shape) == 1 else 0
    return Symmetries(rotated_inputs(side, view.planes, further), rotated_actions())
