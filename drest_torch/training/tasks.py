"""Make the task of a run."""

from __future__ import annotations

import torch

from drest_torch.config.schema import Config, in_gridworld
from drest_torch.reward import Reward
from drest_torch.training.gridworlds import GridworldTask
from drest_torch.training.task import Task


def make_task(cfg: Config, reward: Reward, rng: torch.Generator, device: torch.device) -> Task:
    """Return the task of a run with this configuration."""
    if in_gridworld(cfg):
        return GridworldTask(cfg, reward, rng, device)
    from drest_torch.training.environment import EnvironmentTask  # TorchRL takes seconds to import

    return EnvironmentTask(cfg, reward, rng)
