"""Memory estimates before allocation, because a system out of memory kills processes without a message."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.earliest import StateCounts, estimate_size
from drest_torch.envs.exact.layers import MAX_STATES
from drest_torch.envs.exact.solver import check_searchable
from drest_torch.envs.levels import LevelError
from drest_torch.errors import ConfigError

BYTES_PER_STATE = 640
"""Memory of exact evaluation per reachable state; 610 bytes measured at 0.4 and at 2.4 million states."""
BYTES_KEPT_PER_STATE = 256
"""The share of these bytes that stays allocated between evaluations."""
COPIES = 4
"""Tensors per weight: the weight, its gradient and two moments of the optimiser."""
BYTES_PER_EPISODE = 100
"""Lower bound of the memory of a training batch per mini-episode."""
SMALL = 2.0**20
"""Smallest part of a run that an estimate lists, in bytes."""
CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> float:
    """Return the bytes that this process can still allocate; infinity if the system does not report limits."""
    limits = [math.inf]
    with suppress(OSError, KeyError, ValueError):  # not Linux, or not in a control group
        limits.append(_free_in_the_system())
        limits.append(_free_in_the_group())
    with suppress(OSError, ValueError):
        limits.append(_free_in_the_process())
    return min(limits)


def _free_in_the_process() -> float:
    """Return the bytes left under ``ulimit -v``."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return math.inf
    return float(most - _pages(0))


def resident_memory() -> float:
    """Return the resident memory of this process in bytes; 0 if the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        return float(_pages(1))
    return 0.0


def peak_memory() -> float:
    """Return the peak resident memory of this process in bytes."""
    unit = 1024
    if sys.platform == "darwin":
        unit = 1
    return float(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _pages(column: int) -> int:
    """Return the bytes in a column of ``/proc/self/statm``: 0 is virtual memory, 1 is resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize()


@dataclass(frozen=True)
class MemoryPart:
    """Estimated memory of a part of a run, and the configuration key that it grows with."""

    name: str
    bytes: float
    key: str
    per_unit: float | None = None
    """Bytes per unit of the key; None if memory is not proportional to it."""
    step: float = 1
    """The key must be a multiple of this number."""
    fixed: float = 0.0
    """Bytes that do not depend on the key."""

    def largest(self, room: float) -> float:
        """Return the largest value of the key for which the part fits; 0 if there is none."""
        if self.per_unit is None or room <= self.fixed:
            return 0
        return math.floor((room - self.fixed) / self.per_unit / self.step) * self.step


@dataclass(frozen=True)
class RunMemory:
    """Memory that a run has allocated, and an estimate of what it will allocate at its peak."""

    parts: Sequence[MemoryPart]
    taken: float
    peak_so_far: float = 0.0

    @property
    def needed(self) -> float:
        """Estimated bytes that are not allocated yet."""
        return sum(part.bytes for part in self.parts)

    @property
    def peak(self) -> float:
        """Estimated peak memory of the run in bytes."""
        return max(self.peak_so_far, self.taken + self.needed)

    def text(self, free: float) -> str:
        """Describe the estimate for the first lines of a run."""
        large = [f"{part.name} {_gib(part.bytes)}" for part in self._by_size() if part.bytes >= SMALL]
        parts = ", ".join([f"{_gib(self.taken)} taken already", *large])
        left = ""
        if math.isfinite(free):
            left = f"; {_gib(free)} GiB are free"
        return f"about {_gib(self.peak)} GiB at most ({parts}){left}"

    def check(self, free: float) -> None:
        """Raise if a run needs more memory than is free, and suggest the largest value of its main key that fits."""
        if self.needed <= free:
            return
        remedy = f"use a smaller {' and a smaller '.join(part.key for part in self._by_size()[:2])}"
        for part in self._by_size():
            largest = part.largest(free - self.needed + part.bytes)
            if largest > 0:
                remedy = f"use {part.key}={largest:.12g}, the largest value that fits"
                break
        parts = ", ".join(f"{part.name} {_gib(part.bytes)}" for part in self._by_size())
        raise ConfigError(
            f"this run needs at least {_gib(self.needed)} GiB of additional memory ({parts}), but "
            f"{_gib(free)} GiB are free; {remedy}"
        )

    def _by_size(self) -> list[MemoryPart]:
        return sorted(self.parts, key=lambda part: -part.bytes)


def _gib(size: float) -> str:
    gib = size / 2**30
    if gib >= 100:
        return f"{gib:,.0f}"
    return f"{gib:.2g}"


def _free_in_the_system() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = dict(line.split(":") for line in lines)
    kilobytes, _ = sizes["MemAvailable"].split()
    return 1024.0 * int(kilobytes)


def _free_in_the_group() -> float:
    most = (CGROUP / "memory.max").read_text().strip()
    used = (CGROUP / "memory.current").read_text().strip()
    if most == "max":
        return math.inf
    return float(most) - float(used)


class MemoryGuard(TorchFunctionMode):
    """A context manager that raises if the networks built within need more memory than is free."""

    def __init__(self) -> None:
        super().__init__()
        self._taken = 0
        self._free = free_memory()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count the bytes of weights, which are allocated by `torch.empty`."""
        kwargs = kwargs or {}
        if func is torch.empty:
            meta_kwargs = kwargs | {"device": "meta"}
            weight = func(*args, **meta_kwargs)
            self._taken += COPIES * weight.nbytes
            _refuse(self._taken, self._free, "training of networks of this size", "policy.width or policy.depth")
        return func(*args, **kwargs)


def check_batch(episodes: int) -> None:
    """Raise if a batch of this many mini-episodes does not fit into free memory."""
    _refuse(BYTES_PER_EPISODE * episodes, free_memory(), f"a batch of {episodes:,} mini-episodes", "algo.episodes")


def _refuse(needed: float, free: float, what: str, keys: str) -> None:
    if needed <= free:
        return
    needed_gib, free_gib = needed / 2**30, free / 2**30
    raise ConfigError(
        f"{what} needs at least {needed_gib:,.1f} GiB of memory, but {free_gib:,.1f} GiB are free; use a smaller {keys}"
    )


def check_at_once(mdp: Mdp, at_once: int, memory_gib: float, private_settings: int = 1) -> None:
    """Raise if a batch of ``at_once`` levels does not fit into ``memory_gib`` for exact gradients.

    Memory is proportional to ``private_settings``, the number of settings of the private bits.
    """
    most_states = memory_gib * 2**30 / BYTES_PER_STATE / private_settings
    states_of_a_map = (mdp.num_cells * mdp.max_time) << mdp.num_objects
    if at_once * states_of_a_map <= most_states:
        return
    states, index = estimate_size(mdp).states.topk(min(at_once, mdp.num_levels))
    total = int(states.sum())
    if total <= most_states:
        return
    largest = mdp.levels[int(index[0])].place
    needs = memory_text(total, private_settings)
    raise LevelError(
        f"a batch of up to {len(index):,} levels with {largest} has {needs} but memory_gib={memory_gib:g}; "
        "exact gradients cannot be sampled, so learn from fewer levels at once (algo.levels_at_once), from "
        "mini-episodes that are played (algo=ppo), or raise memory_gib"
    )


def check_size(mdp: Mdp, sizes: StateCounts, memory_gib: float | None) -> None:
    """Raise if levels are too large for exact evaluation within ``memory_gib``; None: for sampling."""
    if memory_gib is None:
        check_searchable(mdp, sizes.states)
        return
    bytes_needed = sizes.states * BYTES_PER_STATE
    too_large = int((bytes_needed > memory_gib * 2**30).sum())
    if too_large == 0:
        return
    largest = int(sizes.states.argmax())
    place = mdp.levels[largest].place
    if too_large > 1:
        place += f" (the largest of {too_large:,} levels that are too large)"
    needs = memory_text(int(sizes.states[largest]))
    raise LevelError(
        f"{place} has {needs} but memory_gib={memory_gib:g}; "
        "evaluate by sampling (sampled=4096 plays 4,096 mini-episodes on each level), leave such levels out, or "
        "raise memory_gib"
    )


def memory_text(states: int, private_settings: int = 1) -> str:
    """Describe the size of levels with this many states and private-bit settings, for a message."""
    gib = f"{private_settings * states * BYTES_PER_STATE / 2**30:,.1f} GiB"
    if private_settings > 1:
        gib += f" under {private_settings:,} settings of the private bits"
    if states > MAX_STATES:
        return f"more than {MAX_STATES:,} reachable states (estimated), for which exact evaluation takes over {gib},"
    return f"up to {states:,} reachable states (estimated), for which exact evaluation takes {gib},"
