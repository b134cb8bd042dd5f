"""Agents that are useful and neutral about when they get shut down: the paper's mathematics in PyTorch."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from drest_torch._version import __version__

if TYPE_CHECKING:
    from drest_torch.agent import Agent
    from drest_torch.checking.checking import check_env
    from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
    from drest_torch.transforms import DReSTReward

__all__ = ["Agent", "DReSTReward", "__version__", "check_env", "neutrality", "neutrality_normalised", "usefulness"]

_MODULES = {
    "Agent": "agent",
    "DReSTReward": "transforms",
    "check_env": "checking.checking",
    "neutrality": "metrics",
    "neutrality_normalised": "metrics",
    "usefulness": "metrics",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, because TorchRL takes seconds to import."""
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def _use_one_thread() -> None:
    """Limit torch to one thread after a fork, because the child lacks the other threads and would wait for them
    forever."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
