"""The plan of a run: all that its loop takes from a configuration, whatever is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drest_torch.config.logger import LoggerConfig
from drest_torch.training.folder import resume_command


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """How long a run trains, how often it is evaluated, and what it shows and keeps."""

    algo: str
    """The name of the algorithm."""
    reward: str
    """The name of the reward."""
    network: str
    """The name of the network, or of the language model."""
    start_from: str | None = None
    """The agent whose weights it begins with."""
    seed: int
    steps: int
    """The steps of the whole run, in the unit of `drest_torch.algos.base.Effort.steps`."""
    evaluations: int
    """The evaluations during training, each with a checkpoint."""
    keep_last: int = 1
    """The number of checkpoints that are kept."""
    progress: bool = True
    """Whether it shows what it does."""
    pictures: bool = False
    """Whether it plots its learning curves."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    values: Mapping[str, Any] = field(default_factory=dict)
    """The whole configuration, for loggers."""
    resume_command: Callable[[Path], str] = resume_command
    """Return the command that resumes the run in a folder."""
