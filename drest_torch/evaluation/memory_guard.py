"""Estimate what is needed before it is taken: a system short of memory kills without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.earliest import estimate_size
from drest_torch.envs.levels import LevelError
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact_evaluator import BYTES_PER_STATE, memory_text

COPIES = 4
"""Of each weight: itself, its gradient and two averages of the optimizer."""
BYTES_PER_EPISODE = 100
"""Of the batch of an update, at least."""
CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Return the bytes that this process can still take, infinity if the system does not say."""
    found = [float("inf")]
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        found.append(1024.0 * int(lines["MemAvailable"].split()[0]))
        most, used = ((CGROUP / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        found.append(float("inf") if most == "max" else float(most) - float(used))
    except (OSError, KeyError, ValueError):
        pass  # no Linux, or no group of its own
    return min(found)


class MemoryGuard(TorchFunctionMode):
    """While networks are built: refuse them before they need more memory than is free."""

    def __init__(self) -> None:
        super().__init__()
        self._taken, self._free = 0, free_memory()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count what is allocated; weights are made by `torch.empty`."""
        kwargs = kwargs or {}
        if func is torch.empty:
            self._taken += COPIES * func(*args, **(kwargs | {"device": "meta"})).nbytes
            _refuse(self._taken, self._free, "training of networks of this size", "policy.width or policy.depth")
        return func(*args, **kwargs)


def check_batch(episodes: int) -> None:
    """Refuse a batch of so many mini-episodes if it cannot fit."""
    _refuse(BYTES_PER_EPISODE * episodes, free_memory(), f"a batch of {episodes:,} mini-episodes", "algo.episodes")


def _refuse(needed: float, free: float, what: str, keys: str) -> None:
    if needed > free:
        raise ConfigError(
            f"{what} needs at least {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free; "
            f"use a smaller {keys}"
        )


def check_at_once(mdp: Mdp, at_once: int, memory_gib: float, private_settings: int = 1) -> None:
    """Refuse a level set of which ``at_once`` levels do not fit into ``memory_gib`` for learning with exact gradients.

    ``private_settings`` is the number of settings of the private bits, each of which needs the memory once.
    """
    most = memory_gib * 2**30 / BYTES_PER_STATE / private_settings
    if at_once * ((mdp.num_cells * mdp.max_time) << mdp.num_objects) <= most:
        return
    states, index = estimate_size(mdp).states.topk(min(at_once, mdp.num_levels))
    if (total := int(states.sum())) > most:
        raise LevelError(
            f"a batch of up to {len(index):,} levels with {mdp.levels[int(index[0])].place} has "
            f"{memory_text(total, private_settings)} and memory_gib={memory_gib:g}; exact gradients cannot be "
            "sampled, so learn from fewer levels at once (algo.levels_at_once), from mini-episodes that are played "
            "(algo=ppo), or raise memory_gib"
        )
