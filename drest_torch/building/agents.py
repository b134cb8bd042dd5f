"""Load the policy of an agent: the weights and the specification that a checkpoint holds, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from drest_torch.algos.networks.spec import MapView, PolicySpec
from drest_torch.building.checkpoints import load_module
from drest_torch.building.levels import level_files
from drest_torch.building.policies import build_networks
from drest_torch.building.specification import AgentSpec
from drest_torch.config.schema import Config
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.memory import Bounded
from drest_torch.registry import not_here

KEY = "agent"
"""The key of the specification in the values of a checkpoint."""
ALIKE = ("network", "observation", "time_steps", "width", "depth", "activation", "private_bits", "private_kind")
"""The values of a policy without which its weights mean something else."""


@not_here()
def spec_in(values: Mapping[str, Any], path: Path) -> AgentSpec:
    """Return the specification that a checkpoint at this path has among its values."""
    if KEY not in values:
        raise CheckpointError(
            f"{path}: was saved by an earlier version, and does not say what its policy sees; go on with the run "
            f"once to add that: drest train resume={path.parent.parent}"
        )
    return AgentSpec.of(values[KEY], path)


def agent_config(folder: Path) -> Config:
    """Return the configuration of an agent's run: its levels, or its environment, are made from it, and nothing else.

    A level file that was saved beside the agent is meant by its name.
    """
    cfg = load_config(folder, whole=False)
    for group, key, path in level_files(cfg):
        if (folder / path).is_file():
            setattr(getattr(cfg, group), key, str(folder / path))
    return cfg


def load_policy(spec: PolicySpec, tensors: Mapping[str, Tensor], path: Path) -> Any:
    """Return the policy of a specification with the weights of the checkpoint at this path."""
    with Bounded():
        policy, _ = build_networks(spec, seed=0)
    load_module("policy", policy, tensors, path)
    return policy


def check_alike(start_from: str, source: AgentSpec, spec: PolicySpec) -> None:
    """Refuse weights to begin with that are of a policy of another kind."""
    view, own = source.policy.sees, spec.sees
    if not isinstance(view, MapView) or not isinstance(own, MapView):
        raise ConfigError(f"start_from={start_from}, of {source.origin.place}; expected an agent of gridworlds")
    theirs, ours = {**vars(source.policy), **vars(view)}, {**vars(spec), **vars(own)}
    if source.policy.private_bits == 0:
        ours["private_kind"] = theirs["private_kind"]  # nothing is sampled
    if other := [f"policy.{key}={theirs[key]}" for key in ALIKE if theirs[key] != ours[key]]:
        raise ConfigError(f"start_from={start_from} has a policy of another kind; add {' '.join(other)}")
