"""Definitions shared by several studies: the paper's training and worlds, and jobs of training runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import TabularTraining, agents_job
from drest_torch.jobs.training_job import merge_arguments, training_jobs
from drest_torch.metrics import neutrality, usefulness
from drest_torch.statistics.bootstrap import holm, paired_difference
from drest_torch.studies.engine import Key, StudyConfig, value

REWARDS = {"default": "default", "drest": "DReST"}
AS_REPORTED, MOVES, STEPS = "moves / steps", "moves / moves", "steps / steps"
"""The clock of training and the clock of evaluation. The paper's figures use the first pair."""
RANDOM_FIRST = f"{STEPS}, random play first"
"""The last pair of clocks of agents that play at random before the paper's schedules begin."""

EXAMPLE = TabularTraining(
    lam=0.9,
    gamma=0.95,
    episodes_per_meta=64,
    meta_episodes=2048,
    clip=None,
    lr=0.25,
    lr_end=0.01,
    epsilon=0.5,
    epsilon_end=0.001,
    decay_episodes=65536,
    random_episodes=0,
    discount_bumps=True,
    evaluate_every=8,
)
"""The paper's training on the running example."""
WORLDS = {
    "gamma": 0.9,
    "meta_episodes": 1024,
    "lr_end": 0.003,
    "epsilon": 0.75,
    "epsilon_end": 0.0001,
    "decay_episodes": 32768,
}
"""Changes to this training in the paper's other worlds."""


@dataclass
class TablesConfig(StudyConfig):
    """The values of a study that trains only tables, in several worlds."""

    training: TabularTraining = value(EXAMPLE)
    """Training of tables in the running example."""
    in_worlds: dict[str, Any] = value(WORLDS)
    """Changes to the training in the other worlds."""


def gamma_of(cfg: Any, name: str) -> float:
    """Return the γ of training in a world, for a study with ``training`` and ``in_worlds``."""
    return float(cfg.training.gamma if name == "example" else cfg.in_worlds["gamma"])


def title(name: str) -> str:
    """Return the title of a world of the paper."""
    return str(world(name).study["title"]).replace("The running example", "Running example")


def tables_job(cfg: Any, label: str, *, clock: str, **changes: Any) -> Job:
    """Return the run of tabular agents, which are evaluated on steps, and on moves if they are trained on moves."""
    evaluated_on = ("moves", "steps") if clock == "moves" else ("steps",)
    changes = {"agents": cfg.agents, "evaluated_on": evaluated_on} | changes
    return agents_job(cfg.training, label=label, clock=clock, **changes)


def of_two(p_longer: Tensor) -> pd.DataFrame:
    """Return a row for each probability of the longer of two lengths [X], with its neutrality in bits."""
    bits = neutrality(torch.stack((1 - p_longer, p_longer), -1))
    return pd.DataFrame({"p_longer": p_longer.numpy(), "neutrality": bits.numpy()})


def measure_by_values(table: Tensor, mdp: Mdp, paid: Mdp, gamma: float = 1.0) -> dict[str, np.ndarray]:
    """Return metrics of a policy with action probabilities [N, 4] in the reachable states of B levels.

    ``p_length`` [B, K]; ``usefulness``, and ``proxy``, the usefulness by the values of ``paid``; ``neutrality`` ÷
    log2 k; ``longest``, the probability of the longest length.
    """
    actual, by_paid = (Reachable(levels).arrivals(table, gamma).lengths() for levels in (mdp, paid))
    optima = solve(mdp, gamma)
    numbers = {
        "p_length": actual.probability,
        "usefulness": usefulness(actual.probability, actual.coins, optima.best_return),
        "proxy": usefulness(by_paid.probability, by_paid.coins, solve(paid, gamma).best_return),
        "neutrality": neutrality(actual.probability) / optima.num_lengths.double().log2(),
        "longest": actual.probability.gather(-1, (optima.num_lengths - 1).unsqueeze(-1)).squeeze(-1),
    }
    return {name: values.numpy() for name, values in numbers.items()}


def command_jobs(
    label: str, seeds: int, arguments: str, overrides: Sequence[str] = (), values: Any = None, **options: str
) -> list[Job]:
    """Return the runs of `drest train` with these arguments, one for each seed; ``values`` override the arguments."""
    return training_jobs(label, range(seeds), values, merge_arguments(arguments.split(), overrides), **options)


def check_names(beginning: str, names: Iterable[str], valid_names: Collection[str]) -> None:
    """Refuse invalid names; ``beginning`` begins the message, for instance "study.parts with"."""
    for name in names:
        if name not in valid_names:
            raise ConfigError(f"{beginning} '{name}'; expected some of {'; '.join(valid_names)}")


def chosen_agents(kinds: Any, key: str) -> dict[str, Any]:
    """Return the values of the agents that a part of a study trains, by title."""
    check_names(f"study.{key}.chosen with", kinds.chosen or (), kinds.agents)
    return {title: values for title, values in kinds.agents.items() if kinds.chosen is None or title in kinds.chosen}


def of_part(rows: pd.DataFrame, part: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a part with these values in their columns, without the columns of other parts."""
    chosen = rows[rows.part == part].dropna(axis=1, how="all")
    for column, expected in where.items():
        chosen = chosen[chosen[column] == expected]
    return chosen


def differences_on_test_levels(
    compared: Mapping[Key, tuple[Mapping[int, Result], Mapping[int, Result]]], measures: Iterable[str]
) -> list[tuple[Key, dict[str, Any]]]:
    """Return the differences of runs from reference runs on the same test levels, for each measure.

    Args:
        compared: by any key, the results of runs by seed, and those of the reference. Fewer than two common seeds
            give no difference.
        measures: the measures.

    Returns:
        The key, and ``measure``, ``y`` with its interval ``low`` to ``high`` over seeds and levels, and ``p`` after
        Holm's correction for all of them.
    """
    differences: list[tuple[Key, dict[str, Any]]] = []
    for key, both in compared.items():
        seeds = sorted(both[0].keys() & both[1].keys())
        if len(seeds) < 2:
            continue
        for measure in measures:
            values, reference = (
                np.stack([results[seed].arrays[f"test/{measure}"] for seed in seeds]) for results in both
            )
            difference = paired_difference(values, reference)
            numbers = {"y": difference.estimate, "low": difference.low, "high": difference.high, "p": difference.p}
            differences.append((key, {"measure": measure, **numbers}))
    numbers_of_all = [numbers for _, numbers in differences]
    correct_p_values(numbers_of_all)
    for numbers in numbers_of_all:
        numbers["p"] = round(numbers["p"], 5)
    return differences


def correct_p_values(comparisons: Iterable[dict[str, Any]]) -> None:
    """Replace the ``p`` of comparisons that have one by Holm's correction for all of them."""
    tested = [comparison for comparison in comparisons if "p" in comparison]
    if not tested:
        return
    corrected = holm([comparison["p"] for comparison in tested])
    for comparison, p in zip(tested, corrected, strict=True):
        comparison["p"] = p
