"""Agents that others begin with: those that come with the project, by name, and those in the folders of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from drest_torch.algos.networks.convolutional import MapEncoder
from drest_torch.building.checkpoints import checkpoint_path, load_checkpoint, load_module
from drest_torch.config.schema import Config, in_gridworld
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError, ConfigError

PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"
"""The folder of the agents that come with the project, as `Agent.save` writes them."""


def agent_folder(path_or_name: str | Path) -> Path:
    """Return the folder of an agent, given that folder or the name of one that comes with the project."""
    folder = Path(path_or_name)
    if not folder.exists() and (PRETRAINED / str(path_or_name)).is_dir():
        folder = PRETRAINED / str(path_or_name)
    if not folder.is_dir():
        names = ", ".join(sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir()))
        raise CheckpointError(f"{path_or_name}: no such folder of a run, and no agent of that name ({names})")
    return folder


def start_of(cfg: Config) -> Path | None:
    """Return the folder of the agent that a run begins with; None: with random weights."""
    try:
        return None if cfg.start_from is None else agent_folder(cfg.start_from)
    except CheckpointError as error:
        raise ConfigError(f"start_from={error}") from None


def begin_with(folder: Path, policy: nn.Module, cfg: Config) -> None:
    """Give the policy of a run the weights of the agent in a folder, which has to be of the same kind.

    A network that reads maps may have more layers: the further ones add nothing at first.
    """
    source = load_config(folder)
    if not in_gridworld(source):
        raise ConfigError(f"start_from={cfg.start_from}, of {source.env.title}; expected an agent of gridworlds")
    own, depth = _kind(cfg), source.policy.depth
    encoders = [part for part in policy.modules() if isinstance(part, MapEncoder) and depth < cfg.policy.depth]
    if encoders:
        own["depth"] = depth
    if other := [f"policy.{key}={value}" for key, value in _kind(source).items() if own[key] != value]:
        raise ConfigError(f"start_from={cfg.start_from} has a policy of another kind; add {' '.join(other)}")
    path = checkpoint_path(folder, "last")
    further = {weight for encoder in encoders for weight in encoder.idle(depth)}
    idle = {f"policy.{name}": weight.detach() for name, weight in policy.named_parameters() if weight in further}
    load_module("policy", policy, idle | load_checkpoint(path)[0], path)


def _kind(cfg: Config) -> dict[str, Any]:
    """Return the values of `policy` without which weights mean something else."""
    policy = cfg.policy
    found = {"network": policy.network, "observation": policy.observation, "time_steps": policy.time_steps}
    found |= {"width": policy.width, "depth": policy.depth, "activation": policy.activation}
    return found | {"private_bits": policy.private_bits}
