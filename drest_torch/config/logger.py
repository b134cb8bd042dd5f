"""The configuration of loggers, in a module that does not import torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drest_torch.limits import limited
from drest_torch.registry import Registry

SINKS = Registry("logger.sinks", "drest_torch.tracking.{}_sink", ("Logger",), "drest_torch.loggers")
"""Registry of sinks: modules whose ``Logger`` is a `drest_torch.tracking.sinks.Sink`."""
NO_SINK = "none"
"""Name in a configuration that stands for no sink."""


@dataclass
class LoggerConfig:
    """Loggers of metrics besides ``metrics.jsonl``."""

    sinks: dict[str, Any] = field(default_factory=dict)
    """Sinks by name, each with its options or null; the other keys configure W&B."""
    project: str = "drest_torch"
    """Name of the W&B project."""
    mode: str = limited(choices=("offline", "online", "disabled"), default="offline")
    """W&B mode: offline (to <run>/wandb; `wandb sync` uploads it later), online, or disabled."""
    group: str | None = None
    """W&B group, under which runs are shown together; null: none."""
