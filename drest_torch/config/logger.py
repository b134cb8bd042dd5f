"""The configuration of loggers, apart from the rest: a logger is opened without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drest_torch.limits import limited
from drest_torch.registry import Registry

SINKS = Registry("logger.sinks", "drest_torch.tracking.{}_sink", ("Logger",), "drest_torch.loggers")
"""A sink is a module whose ``Logger`` is a `drest_torch.tracking.sinks.Sink`."""
NO_SINK = "none"
"""The name that stands for no sink, where a configuration names one."""


@dataclass
class LoggerConfig:
    sinks: dict[str, Any] = field(default_factory=dict)
    """By name, with the options of those that have any. The other keys are W&B's."""
    project: str = "drest_torch"
    """The W&B project."""
    mode: str = limited(choices=("offline", "online", "disabled"), default="offline")
    """offline (to <run>/wandb; no account or network; `wandb sync` uploads it later), online, or disabled."""
    group: str | None = None
    """Runs of one group are shown together; null: none."""
