"""Untrained agents: a policy specification from a configuration, and networks from a specification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.networks.base import MapLayout, NetworkSize, Symmetries, requirements
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.algos.networks.spec import TABLE, MapView, PolicySpec, RowView
from drest_torch.algos.networks.table import TablePolicy
from drest_torch.config.schema import Config
from drest_torch.envs.dynamics.observations import (
    DELAY_UNIT,
    rotated_inputs,
    rotated_planes,
    side_of_planes,
)
from drest_torch.envs.levels.symmetry import rotated_actions, rotated_cells


def policy_spec(
    cfg: Config, view: MapView | RowView, shape: tuple[int, ...], *, outputs: int, scale: tuple[float, ...] = (1.0,)
) -> PolicySpec:
    """Return the specification of a run's policy for inputs of this shape and view."""
    policy = cfg.policy
    return PolicySpec(
        network=ALGORITHMS[cfg.algo.name].Algorithm.network(policy.network),
        width=policy.width,
        depth=policy.depth,
        activation=policy.activation,
        norm=policy.norm,
        head_width=policy.head_width,
        head_depth=policy.head_depth,
        private_bits=policy.private_bits,
        shape=shape,
        scale=scale,
        outputs=outputs,
        sees=view,
    )


def build_policy(spec: PolicySpec, dropout: float = 0.0) -> Policy | TablePolicy:
    """Build a policy with random weights from torch's global generator."""
    if spec.network == TABLE:
        assert isinstance(spec.sees, MapView)
        return TablePolicy(spec.sees.rows, spec.sees.columns, spec.shape[0] - 2, spec.outputs)
    offset = torch.tensor(spec.sees.offset) if spec.sees.offset else None
    size = replace(_size(spec), dropout=dropout)
    return Policy(spec.shape, spec.outputs, size, offset=offset, **_signature(spec))


def build_networks(
    spec: PolicySpec,
    seed: int,
    *,
    dropout: float = 0.0,
    critic_width: int | None = None,
    context: int | None = None,
) -> tuple[Any, Critic | None]:
    """Build a policy and, with a ``context``, a critic, with random weights from the seed.

    The critic has ``context`` additional inputs that describe the meta-episode. Updates drop units of the policy only.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = build_policy(spec, dropout)
        if context is None:
            return policy, None
        size = replace(_size(spec), width=critic_width or spec.width)
        assert isinstance(policy, Policy)
        return policy, Critic(spec.shape, size, context=context, policy=policy, **_signature(spec))


def _size(spec: PolicySpec) -> NetworkSize:
    return NetworkSize(
        spec.width,
        spec.depth,
        spec.activation,
        spec.network,
        spec.norm,
        head_width=spec.head_width,
        head_depth=spec.head_depth,
    )


def _signature(spec: PolicySpec) -> Mapping[str, Any]:
    """Return the keyword arguments that a policy and its critic share."""
    planes = [-1, *[1] * (len(spec.shape) - 1)]
    shared: dict[str, Any] = {"private_bits": spec.private_bits, "scale": torch.tensor(spec.scale).reshape(planes)}
    return shared | _ARGUMENTS[type(spec.sees)](spec, spec.sees)


def _row_arguments(spec: PolicySpec, view: RowView) -> dict[str, Any]:
    return {"entries": list(view.entries.values())}


def _map_arguments(spec: PolicySpec, view: MapView) -> dict[str, Any]:
    return {"symmetries": _symmetries(spec, view)}


_ARGUMENTS: dict[type, Callable[[PolicySpec, Any], dict[str, Any]]] = {RowView: _row_arguments, MapView: _map_arguments}


def _symmetries(spec: PolicySpec, view: MapView) -> Symmetries | None:
    """Return the symmetries of inputs and actions if the network requires them."""
    required = requirements(spec.network).symmetries
    if required is None:
        return None
    if required == "cells":
        layout = MapLayout(view.planes, rotated_planes(view.planes), view.time_steps, DELAY_UNIT)
        return Symmetries(rotated_cells(3), rotated_actions(), layout)
    side = side_of_planes(view.observation, view.rows)
    surplus = 0
    if len(spec.shape) == 1:
        surplus = spec.shape[0] - len(view.planes) * side * side
    return Symmetries(rotated_inputs(side, view.planes, surplus), rotated_actions())
