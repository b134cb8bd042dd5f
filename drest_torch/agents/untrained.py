"""Untrained agents: the specification of a policy from a configuration, and networks from a specification."""

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
    """Return the specification of a run's policy, which sees inputs of this shape in this way."""
    policy = cfg.policy
    return PolicySpec(
        network=ALGORITHMS[cfg.algo.name].Algorithm.network(policy.network),
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
    offset = torch.tensor(spec.sees.offset) if spec.sees.offset else None
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
    return shared | _FURTHER[type(spec.sees)](spec, spec.sees)


def _of_rows(spec: PolicySpec, view: RowView) -> dict[str, Any]:
    return {"entries": list(view.entries.values())}


def _of_maps(spec: PolicySpec, view: MapView) -> dict[str, Any]:
    return {"symmetries": _symmetries(spec, view)}


_FURTHER: dict[type, Callable[[PolicySpec, Any], dict[str, Any]]] = {RowView: _of_rows, MapView: _of_maps}


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
