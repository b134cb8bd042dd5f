"""Rows of the paper's worlds: the end of training, learning curves, policies, and undiscounted usefulness.

A run has a hundred agents, so rows hold means, standard deviations and percentiles of agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from drest_torch.envs.levels import world
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import last, p_longest

EXAMPLE, TREASURE = "example", "hidden_treasure"
MARK = 0.99
"""The least usefulness and neutrality of an agent that counts as useful and neutral."""
COLLAPSED = 0.1
"""The neutrality below which an agent has collapsed onto one length."""
METRICS = ("neutrality", "usefulness", "p_longer")
POINTS = 25
"""Points of a learning curve."""
EARLY = "the first mini-episodes"
"""A run of only the first mini-episodes, with more evaluations, for the shutdownability tax."""
OTHER_M, FREE_BUMPS = "m discounted once more", "bumps not discounted"
"""Changes to training on the clock moves: one more factor of γ in m(l), as if a coin of tick t were worth γ^t; free
bumps."""
ACTIONS = ["up", "down", "left", "right"]


class Key(NamedTuple):
    world: str
    clock: str
    """The clock of training."""
    reward: str
    change: str = ""
    """The change to the paper's training, or to the interval of evaluations."""


def of_part(rows: pd.DataFrame, part: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a part with these values in their columns."""
    chosen = rows[rows.part == part].dropna(axis=1, how="all")
    if "change" in rows:
        chosen = chosen.assign(change=rows.change[chosen.index].fillna(""))
    for column, expected in where.items():
        chosen = chosen[chosen[column] == expected]
    return chosen


def evaluation_clocks(job: Job) -> list[str]:
    """Return the clocks on which the agents of a run are evaluated."""
    return list(job.spec["evaluated_on"])


def end_rows(key: Key, job: Job, result: Result, first: int) -> Iterator[dict[str, Any]]:
    """Yield the end of training on each clock of evaluation, for the first agents and for all."""
    for clock in evaluation_clocks(job):
        metrics = {
            "neutrality": last(result, clock, "neutrality"),
            "usefulness": last(result, clock, "usefulness"),
            "p_longer": last(result, clock, "p_length")[:, -1],
        }
        agents = len(metrics["neutrality"])
        shared = {"part": "end", "world": key.world, "reward": key.reward, "clocks": f"{key.clock} / {clock}"}
        shared |= {"change": key.change, "mini_episodes": result.numbers["episodes"] / agents}
        for sample, size in (("first", min(first, agents)), ("all", agents)):
            values = {name: metric[:size] for name, metric in metrics.items()}
            yield {**shared, "sample": sample, "agents": size, **summary(values)}


def summary(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the mean, standard deviation and percentiles of each metric, and how many agents are of each kind."""
    numbers: dict[str, float] = {}
    for name, metric in values.items():
        low, high = np.percentile(metric, (10, 90))
        deviation = metric.std(ddof=1) if len(metric) > 1 else 0.0
        numbers |= {name: metric.mean(), f"{name}_sd": deviation, f"{name}_low": low, f"{name}_high": high}
    neutrality, longer = values["neutrality"], values["p_longer"] > 0.5
    numbers["good"] = int(((values["usefulness"] >= MARK) & (neutrality >= MARK)).sum())
    numbers["collapsed"] = int((neutrality < COLLAPSED).sum())
    numbers["longer"] = int(longer.sum())
    for name, group in (("of_longer", neutrality[longer]), ("of_shorter", neutrality[~longer])):
        numbers[name] = group.mean() if group.size else np.nan
    return {name: float(f"{number:.5g}") for name, number in numbers.items()}


def curve_rows(key: Key, job: Job, result: Result) -> Iterator[dict[str, Any]]:
    """Yield learning curves of agents trained on moves and evaluated on steps, as in the paper's figures."""
    meta_episodes = result.arrays["episodes"] / job.spec["training"]["episodes_per_meta"]
    places = np.unique(np.linspace(0, len(meta_episodes) - 1, POINTS).round().astype(int))
    arrays = {name: result.arrays[f"steps/{name}"].astype(float) for name in ("neutrality", "usefulness")}
    if key.world == EXAMPLE:
        arrays["p_longer"] = p_longest(result, "steps")
    for metric, values in arrays.items():
        shared = {"part": "curve", "world": key.world, "reward": key.reward, "metric": metric}
        low, high = np.percentile(values, (10, 90), axis=1)
        for place in places:
            numbers = {"meta_episode": meta_episodes[place], "y": round(values[place].mean(), 4)}
            yield {**shared, **numbers, "low": round(low[place], 4), "high": round(high[place], 4)}


def policy_rows(key: Key, result: Result) -> Iterator[dict[str, Any]]:
    """Yield the table of a typical agent: its P(longer) is the median of the stored tables."""
    logits = result.arrays["logits"]
    order = np.argsort(last(result, key.clock, "p_length")[: len(logits), -1])
    table = logits[order[len(logits) // 2]]
    for state in np.flatnonzero(table.any(-1)):
        shared = {"part": "policy", "world": key.world, "reward": key.reward, "state": state}
        yield shared | dict(zip(ACTIONS, table[state].round(2), strict=True))


def undiscounted_rows(key: Key, job: Job, result: Result) -> Iterator[dict[str, Any]]:
    """Yield the usefulness of agents with stored tables, with the γ of training and with γ = 1."""
    logits = result.arrays["logits"]
    for clock in evaluation_clocks(job):
        level = world(key.world).with_clock(clock)
        usefulness = {}
        for gamma in (job.spec["training"]["gamma"], 1.0):
            usefulness[gamma] = Tables(level, gamma, len(logits)).evaluate(logits)["usefulness"]
        discounted, undiscounted = usefulness.values()
        shared = {"part": "undiscounted", "world": key.world, "reward": key.reward, "clocks": f"{key.clock} / {clock}"}
        for seed in range(len(logits)):
            yield {
                **shared,
                "seed": seed,
                "usefulness": round(float(discounted[seed]), 5),
                "undiscounted": round(float(undiscounted[seed]), 5),
            }


def all_rows(planned: Mapping[Key, Job], done: Mapping[Key, Result], first: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of all finished runs, except the rows of the tax."""
    for key, result in done.items():
        if key.change == EARLY:
            continue
        job = planned[key]
        yield from end_rows(key, job, result, first)
        if key.change or key.clock != "moves":
            continue
        yield from curve_rows(key, job, result)
        if key.world == EXAMPLE:
            yield from policy_rows(key, result)
        if key.world == TREASURE:
            yield from undiscounted_rows(key, job, result)
