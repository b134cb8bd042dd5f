"""The rows of the study of generalization: means over levels, and values on each level where a question needs them."""

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
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.engine import Done
from drest_torch.studies.generalization.evaluation import FILE, MEASURES, RANDOM, TRAINING, UNSEEN, WORLDS
from drest_torch.studies.generalization.runs import FOLLOWUP_LIKE, PPO, SHORT, SYMMETRIC, Config, Key
from drest_torch.studies.shared import differences_on_test_levels
from drest_torch.tracking.effort import is_exact

SPLITS = {TRAINING: "train", UNSEEN: "test"}
THRESHOLDS = np.linspace(0, 1, 21).round(2)
"""τ of performance profiles."""


def rows_of(cfg: Config, done: Done) -> pd.DataFrame:
    """Return several kinds of rows, by the column ``part``. Neutrality is ÷ log2 k, which is 1 bit for two lengths.

    - *end*: an agent of a short run on its training levels and on unseen levels; ``effort`` is environment steps, or
      updates of exact gradients, and ``times`` is how often the agent met each training level.
    - *curve*: usefulness and neutrality on other unseen levels during training, at ``x`` environment steps.
    - *profile*: the ``share`` of unseen levels with neutrality of at least ``x``.
    - *difference*: another algorithm or network less PPO with the symmetric network, on the same unseen levels, with an
      interval over seeds and levels, and its p value after Holm's correction.
    - *level*: agents with the most training levels on each unseen level.
    - *property*: the properties of these levels.
    - *long*, *follow_up*: an agent on a ``set`` of so many ``levels``, and the effort of its training.
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
    """Return whether a run belongs to the curve of PPO, the main curve of the study."""
    return key.part == SHORT and (key.agent, key.network, key.kind) == (PPO, SYMMETRIC, FOLLOWUP_LIKE)


def _short(key: Key, job: Job, result: Result) -> Iterator[Any]:
    run = {"agent": key.agent, "network": key.network, "kind": key.kind, "levels": key.levels, "seed": key.seed}
    took = {"effort": effort(result), "times": round(meetings(key, job, result), 2)}
    for name, split in SPLITS.items():
        metrics = result.numbers["splits"][split]
        ends = {measure: round(metrics[metric], 5) for measure, metric in MEASURES.items()}
        yield [{"part": "end", **run, "set": name, **ends, **took}]
    if not _is_of_curve(key):
        return
    point = {"agent": key.agent, "levels": key.levels, "seed": key.seed}
    curve = {measure: result.arrays[f"eval/selection/{metric}"].round(3) for measure, metric in MEASURES.items()}
    yield pd.DataFrame({"part": "curve", **point, "x": result.arrays["steps"], **curve})
    yield _profile(point, result.arrays["test/neutrality"])


def effort(result: Result) -> int:
    """Return the environment steps of a run, or the updates of exact gradients."""
    return int(result.numbers["updates" if is_exact(result.numbers) else "env_steps"])


def meetings(key: Key, job: Job, result: Result) -> float:
    """Return how often a short run played each level; sampling algorithms play a group of mini-episodes each time."""
    numbers = result.numbers
    if is_exact(numbers):
        return float(numbers["updates"] * numbers["levels_per_update"] / key.levels)
    return float(numbers["mini_episodes"] / job.spec["config"]["reward"]["group"] / key.levels)


def _profile(run: dict[str, Any], neutrality: np.ndarray) -> pd.DataFrame:
    shares = [(neutrality >= threshold - 1e-9).mean() for threshold in THRESHOLDS]
    return pd.DataFrame({"part": "profile", **run, "x": THRESHOLDS, "share": np.round(shares, 4)})


def _differences(cfg: Config, done: Done) -> list[dict[str, Any]]:
    """Return the differences from PPO with the symmetric network, at the same number of training levels."""
    by_agent: dict[tuple[str, str], dict[int, Result]] = {}
    for key, result in done.items():
        if key.part == SHORT and (key.kind, key.levels) == (FOLLOWUP_LIKE, cfg.number):
            by_agent.setdefault((key.agent, key.network), {})[key.seed] = result
    reference = by_agent.pop((PPO, SYMMETRIC), {})
    compared = {agent: (by_seed, reference) for agent, by_seed in by_agent.items()}
    return [
        {"part": "difference", "agent": agent, "network": network, **numbers}
        for (agent, network), numbers in differences_on_test_levels(compared, MEASURES)
    ]


def _levels(key: Key, result: Result) -> pd.DataFrame:
    names = (*MEASURES, "p_longest")
    by_level = {name: result.arrays[f"test/{name}"].round(3) for name in names}
    table = pd.DataFrame({"part": "level", "seed": key.seed, **by_level})
    return table.assign(level=np.arange(len(table)))


def _properties(cfg: Config) -> pd.DataFrame:
    """Return the properties of the unseen levels of PPO's curve, which are the same for every number of levels."""
    config = run_config({"levels": {**cfg.run["levels"], "train": 1}}, algo=PPO, levels=FOLLOWUP_LIKE)
    levels = list(load(config).reported["test"])
    compiled = compile_levels(levels)
    exact = properties(compiled)
    return pd.DataFrame(
        {
            "part": "property",
            "level": range(len(levels)),
            "ratio": exact.ratio.numpy().round(3),
            "distance": button_distance(compiled).numpy(),
            "shutdown": [level.shutdown for level in levels],
            "delay": [level.buttons[0].delay for level in levels],
            "coins": [len(level.coins) for level in levels],
            "walls": [sum(map(sum, level.walls)) for level in levels],
            "slack": exact.slack[:, :2].min(-1).values.numpy(),
        }
    )


def _on_sets(key: Key, job: Job, result: Result) -> Iterator[Any]:
    del job
    run = {"part": key.part, "agent": key.agent, "seed": key.seed}
    took = {"effort": effort(result)}
    for name in (TRAINING, UNSEEN, WORLDS, FILE):
        if f"{name}/usefulness" not in result.arrays:
            continue
        by_level = {measure: result.arrays[f"{name}/{measure}"] for measure in MEASURES}
        means = {measure: values.mean().round(5) for measure, values in by_level.items()}
        yield [{**run, "set": name, "levels": len(by_level["neutrality"]), **means, **took}]
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
