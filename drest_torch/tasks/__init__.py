"""A registry of tasks, by the value of ``env.name``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from drest_torch.config.schema import Config
    from drest_torch.tasks.base import Task


@dataclass(frozen=True)
class Tasks:
    """The classes of tasks by name."""

    classes: dict[str, str]
    """Classes of this package, as ``module:class``."""

    def make(self, cfg: Config, rng: torch.Generator) -> Task:
        """Return the task of a run."""
        module, _, name = self.classes[cfg.env.name].partition(":")
        make: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), name)
        task: Task = make(cfg, rng)
        return task


TASKS = Tasks(
    {
        "gridworld": "gridworlds:GridworldTask",
        "gymnasium": "environments:EnvironmentTask",
        "torchrl": "environments:EnvironmentTask",
    }
)
