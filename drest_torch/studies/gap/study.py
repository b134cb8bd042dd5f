"""The preferential gap: whether one agent prefers within a length, and lacks a preference between lengths."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.studies.gap import runs
from drest_torch.studies.gap.analysis import Kind, Tables
from drest_torch.studies.gap.tables import control_table, given_table, kinds_table, tables_table
from drest_torch.studies.results import Results
from drest_torch.studies.shared import parse
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

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
    asked: dict[str, Any] = MISSING
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
    exist = [job for several in asked(cfg).values() for job in several]
    return [*exist, *tables, *in_turn]


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


def asked(cfg: Config) -> dict[str, list[Job]]:
    """Return the runs of agents that exist already."""
    return {
        title: [Job(f"{title}-{index}", runs.SHIPPED, {"agent": agent}) for index, agent in enumerate(agents)]
        for title, agents in cfg.asked.items()
    }


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


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what the agents do in forks, and what the tables do for each x beside what is predicted."""
    kinds = [
        Kind(title, rewards(cfg, title), [result.arrays for _, result in done])
        for title, several in (trained(cfg) | asked(cfg)).items()
        if (done := finished.of(several))
    ]
    tables = [
        Tables(episodes, cfg.training.lam, np.array(list(found)), np.stack(list(found.values())))
        for episodes, by_x in table_jobs(cfg).items()
        if (
            found := {
                x: last(result, CLOCK, "p_length")[:, -1] for x, job in by_x.items() if (result := finished.get(job))
            }
        )
    ]
    drest = [kind for kind in kinds if kind.divided]
    reached = sum(kind.reached for kind in drest), sum(len(kind.chances) for kind in drest)
    names = {
        "drest": [kind.sentence() for kind in drest],
        "reached": reached,
        "ratio": max((abs(ratio) for kind in drest for ratio in kind.ratios), default=None),
        "control": max((kind.control_error for kind in kinds), default=None),
        "undivided": next((kind.against_balance(cfg.training.lam) for kind in kinds if kind.reward == UNDIVIDED), None),
        "settled": [found.sentence() for found in tables],
        "bits": [kind.given_sentence() for kind in kinds if kind.settings > 1],
        "void": [line for kind in kinds for line in kind.void_lines()],
    }
    shown = {
        "kinds": kinds_table(kinds),
        "given": given_table(kinds),
        "control": control_table(kinds),
        "tables": tables_table(tables),
    }
    findings = {"kinds": [kind.findings() for kind in kinds], "tables": [found.findings() for found in tables]}
    results = Results("gap")
    for kind in kinds:
        kind.tidy(results)
    quotes = []
    if drest:
        text = f"{reached[0]} of {reached[1]} agents"
        quotes.append(Quote("trained on coins divided by m: the trio passes on at least 95 % of the forks", "", text))
    quotes += [Quote(f"the preferential gap: {kind.title}", "", kind.quote()) for kind in kinds]
    return Analysis(results.table(), findings, shown, quotes, names, (kinds, tables), exact=True)


DIVIDED, UNDIVIDED, DEFAULT = "DReST, coins ÷ m", "DReST, coins", "default"


def rewards(cfg: Config, title: str) -> str:
    """Return what the agents of a title are paid: agents that exist are taken to be DReST's, with coins ÷ m."""
    if title not in cfg.agents:
        return DIVIDED
    own = cfg.agents[title]
    return DEFAULT if "reward=default" in own else UNDIVIDED if "divide_by_best=false" in own else DIVIDED
