"""The preferential gap: whether one agent prefers within a length, and lacks a preference between lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.studies.gap import runs
from drest_torch.studies.goals import parse
from drest_torch.studies.study import StudyConfig

TITLE = "The preferential gap"
QUESTION = (
    "Does one agent prefer more coins within a trajectory-length, and lack a preference between lengths however many "
    "coins are added to one of them?"
)
CLOCK = "moves"
"""Of the table agents, as in the paper."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/gap.yaml`."""

    seeds: int = limited(at_least=1)
    chosen: list[str] | None = MISSING
    arguments: str = MISSING
    agents: dict[str, str] = MISSING
    shipped: list[str] = MISSING
    overrides: list[str] = MISSING
    world: str = MISSING
    tables: int = limited(at_least=1)
    episodes: dict[str, Any] = MISSING
    training: Training = field(default_factory=Training)


def jobs(cfg: Config) -> list[Job]:
    """Return the runs: seed by seed, so that a study that is stopped has some of every kind."""
    by_kind = list(trained(cfg).values())
    in_turn = [several[seed] for seed in range(cfg.seeds) for several in by_kind]
    tables = [job for several in table_jobs(cfg).values() for job in several.values()]
    return [*asked(cfg).values(), *tables, *in_turn]


def trained(cfg: Config) -> dict[str, list[Job]]:
    """Return the training runs of each kind of agents."""
    for title in cfg.chosen or ():
        if title not in cfg.agents:
            raise ConfigError(f"study.chosen with '{title}'; expected some of {', '.join(cfg.agents)}")
    planned = {}
    for title, own in cfg.agents.items():
        if cfg.chosen is None or title in cfg.chosen:
            options, values = parse([*cfg.arguments.split(), *own.split(), *cfg.overrides])
            several = training_jobs(title, range(cfg.seeds), values, **options)
            planned[title] = [replace(job, runner=runs.TRAINED) for job in several]
    return planned


def asked(cfg: Config) -> dict[str, Job]:
    """Return the runs of the agents that come with the project."""
    return {name: Job(name, runs.SHIPPED, {"agent": name}) for name in cfg.shipped}


def table_jobs(cfg: Config) -> dict[int, dict[float, Job]]:
    """Return the runs of table agents by E and x."""
    return {
        int(episodes): {
            float(x): agents_job(
                cfg.training,
                label=f"tables-E={episodes}-x={x:g}",
                world=cfg.world,
                clock=CLOCK,
                reward="drest",
                agents=cfg.tables,
                evaluated_on=(CLOCK,),
                x=float(x),
                divisor="none",
                episodes_per_meta=int(episodes),
            )
            for x in values
        }
        for episodes, values in cfg.episodes.items()
    }
