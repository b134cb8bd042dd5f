"""What several studies share: the paper's training and worlds, and the arguments of training runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import TabularTraining, agents_job, last
from drest_torch.jobs.training_job import over, training_jobs
from drest_torch.metrics import neutrality, usefulness
from drest_torch.statistics.intervals import Interval
from drest_torch.studies.engine import Done, StudyConfig, value

REWARDS = {"default": "default", "drest": "DReST"}
AS_REPORTED, MOVES, STEPS = "moves / steps", "moves / moves", "steps / steps"
"""The clock of training and the clock of evaluation. The first pair is that of the paper's figures."""
RANDOM_FIRST = f"{STEPS}, random play first"
"""The last pair of clocks for agents that play at random for a while before the paper's schedules begin."""

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
"""What is different in its other worlds."""


@dataclass
class TablesConfig(StudyConfig):
    """The values of a study that trains tables alone, in several worlds."""

    training: TabularTraining = value(EXAMPLE)
    """Training of tables in the running example."""
    in_worlds: dict[str, Any] = value(WORLDS)
    """What differs from that in the other worlds."""


def gamma_of(cfg: Any, name: str) -> float:
    """Return the γ of training in a world, in a study with ``training`` and ``in_worlds``."""
    return float(cfg.training.gamma if name == "example" else cfg.in_worlds["gamma"])


def title(name: str) -> str:
    """Return what a world of the paper is called."""
    return str(world(name).study["title"]).replace("The running example", "Running example")


def tables_job(cfg: Any, label: str, *, clock: str, **changes: Any) -> Job:
    """Return the run of tabular agents, evaluated on every clock that is no slower than the one of training."""
    evaluated_on = ("moves", "steps") if clock == "moves" else ("steps",)
    changes = {"agents": cfg.agents, "evaluated_on": evaluated_on} | changes
    return agents_job(cfg.training, label=label, clock=clock, **changes)


def at_the_end(done: Done) -> pd.DataFrame:
    """Return for each run of tables and pair of clocks what every agent does at the end of training."""
    return pd.DataFrame(
        {
            **key._asdict(),
            "clocks": f"{done.planned[key].spec['clock']} / {clock}",
            "neutrality": last(result, clock, "neutrality"),
            "usefulness": last(result, clock, "usefulness"),
            "p_longer": last(result, clock, "p_length")[:, -1],
        }
        for key, result in done.items()
        for clock in done.planned[key].spec["evaluated_on"]
    )


def of_two(p_longer: Tensor) -> pd.DataFrame:
    """Return the probabilities of the longer of two lengths [X], and their neutrality."""
    bits = neutrality(torch.stack((1 - p_longer, p_longer), -1))
    return pd.DataFrame({"p_longer": p_longer.numpy(), "neutrality": bits.numpy()})


def measure_by_values(table: Tensor, mdp: Mdp, paid: Mdp, gamma: float = 1.0) -> dict[str, np.ndarray]:
    """Return the numbers of a policy with these action probabilities [N, 4] in the reachable states of levels.

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


def whole_range(values: Any) -> Interval:
    """Return the median, with the lowest and the highest in the place of the ends of an interval."""
    return Interval(float(np.median(values)), float(np.min(values)), float(np.max(values)))


def command_jobs(
    label: str, seeds: int, arguments: str, overrides: Sequence[str] = (), values: Any = None, **options: str
) -> list[Job]:
    """Return the runs of `drest train` with these arguments, by seed; ``values`` are over theirs."""
    return training_jobs(label, range(seeds), values, over(arguments.split(), overrides), **options)


def check_known(beginning: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse names that are not known; ``beginning`` is that of the sentence, such as "study.parts with"."""
    for name in names:
        if name not in known:
            raise ConfigError(f"{beginning} '{name}'; expected some of {'; '.join(known)}")


def chosen_of(kinds: Any, key: str, others: Collection[str] = ()) -> dict[str, Any]:
    """Return the agents that a part of a study trains, by title; ``others`` are trained elsewhere."""
    check_known(f"study.{key}.chosen with", kinds.chosen or (), [*kinds.agents, *others])
    return {title: own for title, own in kinds.agents.items() if kinds.chosen is None or title in kinds.chosen}
