"""The rows of the study of generalization: what agents reach, level by level where a question needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import run_config
from drest_torch.play.level_sets import load
from drest_torch.statistics.bootstrap import holm, paired_difference
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.engine import Done
from drest_torch.studies.generalization.evaluation import FILE, MEASURES, RANDOM, TRAINING, UNSEEN, WORLDS
from drest_torch.studies.generalization.runs import FOLLOWUP_LIKE, PPO, SHORT, SYMMETRIC, Config, Key
from drest_torch.tracking.effort import is_exact

SPLITS = {TRAINING: "train", UNSEEN: "test"}
THRESHOLDS = np.linspace(0, 1, 21).round(2)
"""τ of performance profiles."""


def rows_of(cfg: Config, done: Done) -> pd.DataFrame:
    """Return several kinds of rows, by the column ``part``. Neutrality is ÷ log2 k, which is 1 bit for two lengths.

    - *end*: what an agent of a short run reaches on its training levels and on unseen ones; ``effort`` is environment
      steps, or updates of exact gradients, and ``times`` says how often it met each training level.
    - *curve*: usefulness and neutrality on other unseen levels during training, at ``x`` environment steps.
    - *profile*: the ``share`` of unseen levels with neutrality of at least ``x``.
    - *difference*: another algorithm or network less PPO with the symmetric network, on the same unseen levels, with an
      interval over seeds and levels, and its p value after Holm's correction.
    - *level*: what agents with the most training levels do on each unseen level.
    - *property*: what these levels are like.
    - *long*, *follow_up*: what an agent reaches on a ``set`` of so many ``levels``, and what its training took.
    - *size*: means over the levels of maps of ``x`` rows and columns, with 95 % t intervals.
    """
    makers: dict[str, Callable[[Key, Job, Result], Iterator[Any]]] = {
        SHORT: _short,
        "long": _on_sets,
        "follow_up": _on_sets,
        "sizes": lambda key, job, result: _by_size(cfg, key, result),
    }
    parts = [part for key, result in done.items() for part in makers[key.part](key, done.planned[key], result)]
    most = max((key.levels for key in done if _is_of_curve(key)), default=0)
    for key, result in done.items():
        if _is_of_curve(key) and key.levels == most:
            parts.append(_levels(key, result))
    if most:
        parts.append(_properties(cfg))
    parts.append(_differences(cfg, done))
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)


def _is_of_curve(key: Key) -> bool:
    """Return whether a run is of the curve of PPO, of which most is shown."""
    return key.part == SHORT and (key.agent, key.network, key.kind) == (PPO, SYMMETRIC, FOLLOWUP_LIKE)


def _short(key: Key, job: Job, result: Result) -> Iterator[Any]:
    of_run = {"agent": key.agent, "network": key.network, "kind": key.kind, "levels": key.levels, "seed": key.seed}
    took = {"effort": effort(result), "times": round(meetings(key, job, result), 2)}
    for name, split in SPLITS.items():
        found = result.numbers["splits"][split]
        ends = {measure: round(found[metric], 5) for measure, metric in MEASURES.items()}
        yield [{"part": "end", **of_run, "set": name, **ends, **took}]
    if not _is_of_curve(key):
        return
    of_curve = {"agent": key.agent, "levels": key.levels, "seed": key.seed}
    curve = {measure: result.arrays[f"eval/selection/{metric}"].round(3) for measure, metric in MEASURES.items()}
    yield pd.DataFrame({"part": "curve", **of_curve, "x": result.arrays["steps"], **curve})
    yield _profile(of_curve, result.arrays["test/neutrality"])


def effort(result: Result) -> int:
    """Return the environment steps of a run, or the updates of exact gradients."""
    return int(result.numbers["updates" if is_exact(result.numbers) else "env_steps"])


def meetings(key: Key, job: Job, result: Result) -> float:
    """Return how often a short run met each of its levels; a sampled algorithm plays it in a group of mini-episodes."""
    numbers = result.numbers
    if is_exact(numbers):
        return float(numbers["updates"] * numbers["levels_per_update"] / key.levels)
    return float(numbers["mini_episodes"] / job.spec["config"]["reward"]["group"] / key.levels)


def _profile(of_run: dict[str, Any], neutrality: np.ndarray) -> pd.DataFrame:
    shares = [(neutrality >= threshold - 1e-9).mean() for threshold in THRESHOLDS]
    return pd.DataFrame({"part": "profile", **of_run, "x": THRESHOLDS, "share": np.round(shares, 4)})


def _differences(cfg: Config, done: Done) -> list[dict[str, Any]]:
    """Return how far others with the same number of training levels are from PPO with the symmetric network."""
    by_agent: dict[tuple[str, str], dict[int, Result]] = {}
    for key, result in done.items():
        if key.part == SHORT and (key.kind, key.levels) == (FOLLOWUP_LIKE, cfg.number):
            by_agent.setdefault((key.agent, key.network), {})[key.seed] = result
    reference = by_agent.pop((PPO, SYMMETRIC), {})
    found: list[dict[str, Any]] = []
    for (agent, network), of_seeds in by_agent.items():
        seeds = sorted(of_seeds.keys() & reference.keys())
        if len(seeds) < 2:
            continue
        for measure in MEASURES:
            own, its = (
                np.stack([of[seed].arrays[f"test/{measure}"] for seed in seeds]) for of in (of_seeds, reference)
            )
            apart = paired_difference(own, its)
            numbers = {"y": apart.estimate, "low": apart.low, "high": apart.high, "p": apart.p}
            found.append({"part": "difference", "agent": agent, "network": network, "measure": measure, **numbers})
    corrected = holm([row["p"] for row in found]) if found else []
    return [row | {"p": round(p, 5)} for row, p in zip(found, corrected, strict=True)]


def _levels(key: Key, result: Result) -> pd.DataFrame:
    names = (*MEASURES, "p_longest")
    by_level = {name: result.arrays[f"test/{name}"].round(3) for name in names}
    table = pd.DataFrame({"part": "level", "seed": key.seed, **by_level})
    return table.assign(level=np.arange(len(table)))


def _properties(cfg: Config) -> pd.DataFrame:
    """Return what the unseen levels of PPO's curve are like; they are the same for every number of training levels."""
    config = run_config({"levels": {**cfg.run["levels"], "train": 1}}, algo=PPO, levels=FOLLOWUP_LIKE)
    levels = list(load(config).reported["test"])
    compiled = compile_levels(levels)
    found = properties(compiled)
    return pd.DataFrame(
        {
            "part": "property",
            "level": range(len(levels)),
            "ratio": found.ratio.numpy().round(3),
            "distance": button_distance(compiled).numpy(),
            "shutdown": [level.shutdown for level in levels],
            "delay": [level.buttons[0].delay for level in levels],
            "coins": [len(level.coins) for level in levels],
            "walls": [sum(map(sum, level.walls)) for level in levels],
            "slack": found.slack[:, :2].min(-1).values.numpy(),
        }
    )


def _on_sets(key: Key, job: Job, result: Result) -> Iterator[Any]:
    del job
    of_run = {"part": key.part, "agent": key.agent, "seed": key.seed}
    took = {"effort": effort(result)}
    for name in (TRAINING, UNSEEN, WORLDS, FILE):
        if f"{name}/usefulness" not in result.arrays:
            continue
        by_level = {measure: result.arrays[f"{name}/{measure}"] for measure in MEASURES}
        means = {measure: values.mean().round(5) for measure, values in by_level.items()}
        yield [{**of_run, "set": name, "levels": len(by_level["neutrality"]), **means, **took}]
        if (key.part, name) == ("long", UNSEEN):
            yield _profile({"agent": key.agent, "seed": key.seed}, by_level["neutrality"])


def _by_size(cfg: Config, key: Key, result: Result) -> Iterator[Any]:
    agents = {"": key.agent}
    if key.agent == cfg.sizes.agents[0]:
        agents[f"{RANDOM}/"] = RANDOM
    for prefix, agent in agents.items():
        for side in cfg.sizes.sides:
            for measure in MEASURES:
                interval = t_interval(result.arrays[f"{side}/{prefix}{measure}"]).within(0, 1)
                numbers = {"y": interval.estimate, "low": interval.low, "high": interval.high}
                rounded = {name: round(number, 4) for name, number in numbers.items()}
                yield [{"part": "size", "agent": agent, "x": side, "measure": measure, **rounded}]
