"""The run of most studies: many tabular agents are trained side by side in one world and evaluated exactly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from drest_torch.algos import tabular
from drest_torch.algos.tabular import check_finite
from drest_torch.algos.tabular_kernel import new_state, play
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.jobs.job import Job, Result
from drest_torch.limits import limited
from drest_torch.play.world_table import tabulate
from drest_torch.reward import Reward

STORED_TABLES = 10
"""The number of agents whose tables are stored, for plots."""


@dataclass
class TabularTraining(tabular.Schedule):
    """The training of tabular agents, and the interval of their evaluations."""

    lam: float = limited(above=0, at_most=1)
    gamma: float = limited(above=0, at_most=1)
    episodes_per_meta: int = limited(at_least=1)
    meta_episodes: int = limited(at_least=1)
    clip: float | None = limited(above=0)
    evaluate_every: int = limited(at_least=1)
    """The number of meta-episodes between evaluations."""


def agents_job(
    training: Any,
    *,
    label: str,
    world: str,
    clock: str,
    reward: str,
    agents: int,
    evaluated_on: tuple[str, ...] = ("moves", "steps"),
    x: float | None = None,
    divisor: str = "best",
    factors: tuple[float, ...] | None = None,
    **changes: Any,
) -> Job:
    """Return the job that trains ``agents`` agents, with seeds 0, 1, 2, …, in a world with this clock.

    The ``label`` is unique in a study. ``reward`` is drest or default. ``divisor`` is the divisor of the coins in
    DReST: best (m), seen (the largest return so far) or none. ``factors`` multiply it, one per length. ``changes``
    override values of ``training``.
    """
    if OmegaConf.is_config(training):
        values: Any = OmegaConf.to_container(training)
    else:
        values = asdict(training)
    values |= changes
    if reward == "default":
        values["lam"] = 1.0
        divisor = "none"
    spec = {
        "world": world,
        "x": x,
        "clock": clock,
        "evaluated_on": list(evaluated_on),
        "divisor": divisor,
        "factors": None if factors is None else list(factors),
        "agents": agents,
        "training": values,
    }
    return Job(label, "drest_torch.jobs.tabular_job:train", spec)


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Execute a run that `agents_job` describes.

    numbers: the ``lengths`` of the world, and the ``steps``, ``episodes`` and ``cut_off`` episodes of all agents.

    arrays: at the mini-episodes ``episodes`` [T], for each clock ``<clock>/usefulness``, ``<clock>/neutrality`` [T, A],
    and for each length ``<clock>/p_length`` and ``<clock>/share_of_best`` [T, A, K]; and at the end the ``logits`` of
    the first agents.
    """
    training = TabularTraining(**spec["training"])
    level = world(spec["world"], x=spec["x"])
    mdp = compile_levels([level.with_clock(spec["clock"])])
    optima = solve(mdp, training.gamma)
    compiled = tabulate(mdp, optima)
    best = optima.best_return[0].numpy()
    divisor = np.ones_like(best)
    if spec["divisor"] == "best":
        divisor = best
    divisor = divisor * (spec["factors"] or 1.0)
    rules = tabular.rules_for(
        training,
        Reward(training.lam, training.gamma, training.episodes_per_meta, clip=training.clip),
        divisor.tolist(),
        learns_divisor=spec["divisor"] == "seen",
    )
    state = new_state(np.arange(spec["agents"]), len(compiled.target), len(best))
    tables_by_clock = {}
    for clock in spec["evaluated_on"]:
        tables_by_clock[clock] = Tables(level.with_clock(clock), training.gamma, spec["agents"])
    total = training.random_episodes + training.meta_episodes * training.episodes_per_meta
    every = training.evaluate_every * training.episodes_per_meta
    history: dict[str, list[np.ndarray]] = {}
    episodes = [0, *range(every, total, every), total]
    for before, now in zip([0, *episodes], episodes, strict=False):
        play(compiled, rules, state, now - before)
        check_finite(state.logits)
        for clock, tables in tables_by_clock.items():
            for name, values in tables.evaluate(state.logits).items():
                history.setdefault(f"{clock}/{name}", []).append(values)
    arrays = {name: np.stack(values).astype(np.float32) for name, values in history.items()}
    arrays["episodes"] = np.array(episodes)
    arrays["logits"] = state.logits[:STORED_TABLES]
    numbers = {
        "lengths": optima.lengths[0].tolist(),
        "steps": int(state.steps.sum()),
        "episodes": int(state.played.sum()),
        "cut_off": int(state.cut_off.sum()),
    }
    return Result(numbers, arrays)


def last(result: Result, clock: str, name: str) -> np.ndarray:
    """Return a metric of the agents at the end of training [A, …]."""
    return result.arrays[f"{clock}/{name}"][-1].astype(float)


def p_longest(result: Result, clock: str) -> np.ndarray:
    """Return the probability of the longest trajectory-length over training [T, A]."""
    return result.arrays[f"{clock}/p_length"][:, :, -1].astype(float)
