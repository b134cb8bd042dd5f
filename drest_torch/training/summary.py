"""Say what a run is about to do, and what it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from drest_torch.agents.checkpoints import State
from drest_torch.algos.base import Algorithm
from drest_torch.config.checks import device_of
from drest_torch.config.schema import Config
from drest_torch.tasks.base import Task, count
from drest_torch.tracking.effort import Pace, updates_of


def pace_of(algorithm: Algorithm) -> Pace:
    """Return what the steps of a run with this algorithm are."""
    if algorithm.levels_per_update is None:
        return Pace()
    return Pace(algorithm.config.counted_steps, algorithm.levels_per_update)


def introduction(cfg: Config, task: Task, algorithm: Algorithm, folder: Path) -> str:
    """Return the lines that say what a run is about to do."""
    steps = pace_of(algorithm).text(cfg.env_steps)
    start = "" if cfg.start_from is None else f"; begins with the weights of {cfg.start_from}"
    lines = [
        f"algorithm: {cfg.algo.name}, reward {cfg.reward.name}, {steps}, seed {cfg.seed}",
        *task.lines(),
        f"policy: {algorithm.describe(cfg.policy.network)}{start}",
        f"device: {_device(cfg)}",
        f"folder: {folder}",
    ]
    return "\n".join(lines)


def _device(cfg: Config) -> str:
    device = device_of(cfg.device)
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device}, {count(torch.get_num_threads(), 'thread')}"


def run_summary(cfg: Config, state: State, pace: Pace) -> dict[str, Any]:
    """Return the part of a run's summary that does not depend on its evaluation.

    ``env_steps`` has the unit of the configuration's key: of exact gradients, which play nothing, it is counted steps,
    and ``training`` says what was done.
    """
    summary = {
        "algo": cfg.algo.name,
        "reward": cfg.reward.name,
        "seed": cfg.seed,
        "env_steps": state.steps,
        "mini_episodes": state.episodes,
        "wall_seconds": round(state.wall_seconds, 3),
    }
    levels = pace.levels_per_update
    if levels is None:
        return summary
    return summary | {
        "training": f"{state.updates:,} {updates_of(levels)}",
        "updates": state.updates,
        "levels_per_update": levels,
        "forward_rows": state.forward_rows,
        "backward_rows": state.backward_rows,
    }
