"""Agents that are useful and neutral about when they get shut down: the paper's mathematics in PyTorch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drest_torch.agent import Agent
    from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
    from drest_torch.transform import DReSTReward

__all__ = ["Agent", "DReSTReward", "neutrality", "neutrality_normalised", "usefulness"]

_WHERE = {
    "Agent": "agent",
    "DReSTReward": "transform",
    "neutrality": "metrics",
    "neutrality_normalised": "metrics",
    "usefulness": "metrics",
}


def __getattr__(name: str) -> Any:
    """Each is imported when it is asked for: torchrl takes seconds, and only the transform needs it."""
    if name not in _WHERE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
