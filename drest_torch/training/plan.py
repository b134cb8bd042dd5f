"""The plan of a run, the part of the configuration for its loop, and texts that introduce and summarise a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import State
from drest_torch.algos.base import Algorithm
from drest_torch.config.logger import LoggerConfig
from drest_torch.config.schema import Config
from drest_torch.evaluation.memory_guard import RunMemory, free_memory
from drest_torch.hints import resume
from drest_torch.tasks.base import Task, count
from drest_torch.tracking.effort import Pace, updates_of
from drest_torch.training.early_stopping import early_end

FEW_UPDATES = 20
"""With fewer updates an agent hardly learns, and schedules fall in large steps."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The length of a run, its evaluations, and its output."""

    algo: str
    """The name of the algorithm."""
    reward: str
    """The name of the reward."""
    network: str
    """The name of the network, or of the language model."""
    start_from: str | None = None
    """The agent with the initial weights."""
    seed: int
    steps: int
    """The steps of the whole run, in the unit of `drest_torch.algos.base.Effort.steps`."""
    cuts: bool = False
    """True to cut the last batch to the rest of the steps."""
    evaluations: int
    """The number of evaluations during training, each with a checkpoint."""
    patience: int | None = None
    """The evaluations without a better score on the selection levels after which training ends."""
    keep_last: int = 1
    """The number of checkpoints to keep."""
    progress: bool = True
    """True to print progress."""
    pictures: bool = False
    """True to plot learning curves."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    values: Mapping[str, Any] = field(default_factory=dict)
    """The whole configuration, for loggers."""
    resume_command: Callable[[Path], str] = resume
    """A function that returns the command to resume the run in a folder."""


def pace_of(algorithm: Algorithm) -> Pace:
    """Return the unit of steps of a run with this algorithm."""
    if algorithm.levels_per_update is None:
        return Pace(noun=algorithm.steps_are)
    return Pace(algorithm.config.counted_steps, algorithm.levels_per_update)


def plan_of(cfg: Config) -> RunPlan:
    """Return the plan of a training run."""
    values: Any = OmegaConf.to_container(OmegaConf.structured(cfg), resolve=True)
    return RunPlan(
        algo=cfg.algo.name,
        reward=cfg.reward.name,
        network=cfg.policy.network,
        start_from=cfg.start_from,
        seed=cfg.seed,
        steps=cfg.env_steps,
        cuts=cfg.last_batch == "cut",
        evaluations=cfg.evaluations,
        patience=cfg.patience,
        keep_last=cfg.keep_last,
        progress=cfg.progress,
        pictures=cfg.pictures > 0,
        logger=cfg.logger,
        values=values,
    )


def introduction(
    plan: RunPlan, task: Task, algorithm: Algorithm, folder: Path, *, memory: RunMemory | None = None
) -> str:
    """Return lines that describe a run before it begins."""
    steps = pace_of(algorithm).text(plan.steps)
    start = "" if plan.start_from is None else f"; begins with the weights of {plan.start_from}"
    lines = [
        f"algorithm: {plan.algo}, reward {plan.reward}, {steps}, seed {plan.seed}",
        *task.lines(),
        f"policy: {algorithm.describe(plan.network)}{start}",
        f"device: {_device(task.device)}{_precision(algorithm)}",
    ]
    if memory is not None:
        lines.append(f"memory: {memory.text(free_memory())}")
    lines.append(f"folder: {folder}")
    return "\n".join(lines)


def selection_score(metrics: Mapping[str, float], split: str) -> float:
    """Return usefulness × normalised neutrality of an evaluation, which selects checkpoints and trials."""
    return metrics[f"eval/{split}/usefulness"] * metrics[f"eval/{split}/neutrality_normalised"]


def few_updates(plan: RunPlan, algorithm: Algorithm, update: int) -> str | None:
    """Return a warning if a run has fewer than 20 updates of ``update`` steps, else None.

    Tables, which learn after each mini-episode, and language models, whose steps are updates, get no warning.
    """
    if not algorithm.optimizers or algorithm.steps_are == "updates" or plan.steps > (FEW_UPDATES - 1) * update:
        return None
    updates = math.ceil(plan.steps / update)
    budget = f"env_steps={plan.steps} is a budget of {count(updates, 'update')}, of about {update:,} steps each"
    remedy = "give more env_steps"
    if hasattr(algorithm.config, "episodes"):
        remedy += f", or play fewer mini-episodes for each than algo.episodes={algorithm.config.episodes}"
    return f"{budget}: with fewer than {FEW_UPDATES} an agent hardly learns; {remedy}"


def budget_notes(plan: RunPlan, algorithm: Algorithm) -> list[str]:
    """Return warnings before training: it can end 1 % after its budget or more, or before the end of a schedule."""
    notes = []
    batch = algorithm.whole_batch
    if not plan.cuts and batch >= 0.01 * plan.steps:
        notes.append(
            f"env_steps={plan.steps} with last_batch=whole: training can end {batch / plan.steps:.0%} later, as a "
            f"batch has about {batch:,.0f} steps; last_batch=cut keeps the budget"
        )
    keys, steps = algorithm.least_schedule() or ("", 0)
    if steps > plan.steps:
        notes.append(
            f"env_steps={plan.steps} ends before the schedule of {keys}, which takes at least {steps:,} steps; give "
            "more env_steps, or a shorter schedule"
        )
    return notes


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device}, {count(torch.get_num_threads(), 'thread')}"


def _precision(algorithm: Algorithm) -> str:
    if algorithm.precision == torch.float32:
        return ""
    return ", networks learn in bfloat16 (precision=float32: slower, and the same on every machine)"


def run_summary(plan: RunPlan, counts: Mapping[str, Any], state: State, pace: Pace) -> dict[str, Any]:
    """Return the part of a run's summary that does not depend on its evaluation.

    For exact gradients, which play nothing, ``training`` describes the updates. ``ended_early`` gives the reason if the
    run's patience was exhausted.
    """
    names = {"algo": plan.algo, "reward": plan.reward, "seed": plan.seed}
    summary = {**names, **counts, "wall_seconds": round(state.wall_seconds, 3)}
    if early := early_end(plan.patience, plan.steps, state):
        summary["ended_early"] = early
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
