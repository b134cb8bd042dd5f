"""Pressure: agents on levels that were made to be hard for them, on average and at worst, in one table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from omegaconf import MISSING, OmegaConf

from drest_torch.choices.pressure import ARCHETYPES
from drest_torch.choices.prices import closed_form
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.training_job import training_jobs
from drest_torch.limits import limited
from drest_torch.studies.choosers import Kinds, jobs_of
from drest_torch.studies.pressure import tables
from drest_torch.studies.pressure.row import DIRECTIONS, PAID, PARTS, Row
from drest_torch.studies.pressure.runs import RUNS
from drest_torch.studies.results import Results
from drest_torch.studies.shared import parse
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "Under pressure"
QUESTION = (
    "What do agents do on levels that were made to be hard for them: edited, with prices, without time to come "
    "back, with states in common, of other kinds, and with shutdown and its delay both for sale?"
)
SPEC = ("worlds", "corridors", "irreversible", "aliased", "both_ways", "levels", "sets")
"""The values of the configuration that say what is asked."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/pressure.yaml`."""

    seeds: int = limited(at_least=1)
    chosen: list[str] | None = MISSING
    arguments: str = MISSING
    agents: dict[str, str] = MISSING
    asked: dict[str, Any] = MISSING
    archetypes: list[str] = MISSING
    overrides: list[str] = MISSING
    gridworlds: Kinds = field(default_factory=Kinds)
    lam: float = limited(above=0, at_most=1)
    episodes: int = limited(at_least=2)
    worlds: list[str] = MISSING
    corridors: int = limited(at_least=1)
    irreversible: int = limited(at_least=1)
    aliased: int = limited(at_least=1)
    both_ways: int = limited(at_least=1)
    levels: int = limited(at_least=1)
    sets: dict[str, str] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return the runs: those that take no training first."""
    return [job for several in (asked(cfg) | archetypes(cfg) | trained(cfg)).values() for job in several]


def pressure(cfg: Config) -> dict[str, Any]:
    """Return what everybody is asked."""
    values: Any = OmegaConf.to_container(OmegaConf.create({name: cfg[name] for name in SPEC}))  # type: ignore[index]
    return dict(values)


def trained(cfg: Config) -> dict[str, list[Job]]:
    """Return the training runs of each kind of agents."""
    kinds = [*cfg.agents, *cfg.gridworlds.agents]
    for title in cfg.chosen or ():
        if title not in kinds:
            raise ConfigError(f"study.chosen with '{title}'; expected some of {', '.join(kinds)}")
    chosen = kinds if cfg.chosen is None else cfg.chosen
    planned = {}
    for title, own in cfg.agents.items():
        if title not in chosen:
            continue
        options, values = parse([*cfg.arguments.split(), *own.split(), *cfg.overrides])
        planned[title] = _asking(cfg, training_jobs(title, range(cfg.seeds), values, **options), "train")
    for title, several in jobs_of(cfg.gridworlds, "study.gridworlds.agents").items():
        if title in chosen:
            planned[title] = _asking(cfg, several, "train_on_menus")
    return planned


def _asking(cfg: Config, several: list[Job], runner: str) -> list[Job]:
    return [replace(job, runner=f"{RUNS}:{runner}", spec=job.spec | {"pressure": pressure(cfg)}) for job in several]


def asked(cfg: Config) -> dict[str, list[Job]]:
    """Return the runs of agents that exist already."""
    return {
        title: [
            Job(f"{title}-{index}", f"{RUNS}:existing", {"agent": agent, "pressure": pressure(cfg)})
            for index, agent in enumerate(agents)
        ]
        for title, agents in cfg.asked.items()
    }


def archetypes(cfg: Config) -> dict[str, list[Job]]:
    """Return the runs of archetypes."""
    for name in cfg.archetypes:
        if name not in ARCHETYPES:
            raise ConfigError(f"study.archetypes with '{name}'; expected some of {', '.join(ARCHETYPES)}")
    return {
        name: [Job(name, f"{RUNS}:known", {"archetype": name, "pressure": pressure(cfg)})] for name in cfg.archetypes
    }


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the table of everybody under every kind of pressure."""
    planned = asked(cfg) | trained(cfg) | archetypes(cfg)
    rows = [
        Row(title, title in archetypes(cfg), [result.numbers["asked"] for _, result in done])
        for title, several in planned.items()
        if (done := finished.of(several))
    ]
    agents = [row for row in rows if not row.archetype]
    results = Results("pressure")
    for row in rows:
        for part in PARTS:
            if numbers := row.numbers(part):
                results.add(
                    np.array(list(numbers.values())).T, part, variant=row.title, level=list(numbers), split="test"
                )
    paying = [row for row in agents if row.has("W2") and row.control is not None]
    surpluses = [row.surplus for row in rows if row.has("W5") and row.surplus is not None]
    names: dict[str, Any] = {
        "agents": agents,
        "void": [line for row in agents for line in row.void_lines()],
        "edited": [row for row in agents if row.has("W1")],
        "fragile": all(row.fragile for row in agents if row.has("W1")),
        "saturated": [row for row in agents if row.has("W1") and row.saturated],
        "paying": paying,
        "telling": [row for row in paying if row.tells],
        "deaf": [row for row in paying if not row.tells],
        "hurried": [row for row in agents if row.has("W3")],
        "both": [row for row in agents if row.has("W7")],
        "bound_by_hand": next((row.asked[0]["W4"]["bound_by_hand"] for row in rows if row.has("W4")), None),
        "surplus": max(surpluses, default=None),
        "shifted": [row for row in agents if row.has("W5") and row.correlation("usefulness", "slack") is not None],
        "hasty": [row for row in agents if row.has("W5") and (row.correlation("usefulness", "slack") or 0) <= -0.2],
        "bits_of_three": [row for row in agents if row.has("W5") and row.hidden_bits > 0 and row.surplus is not None],
        "closed": {name: closed_form(name, PAID, cfg.lam, cfg.episodes) for name in DIRECTIONS},
        "PAID": PAID,
    }
    shown = {
        "all": tables.all_parts(rows),
        "W1": tables.edits(rows),
        "W2": tables.prices(rows, cfg.lam, cfg.episodes),
        "W3": tables.first_step(rows),
        "W4": tables.aliased(rows),
        "W5": tables.shift(rows),
        "bound": tables.bound(rows),
        "correlations": tables.correlations(agents),
        "W7": tables.both_ways(rows),
    }
    findings = {row.title: row.asked for row in rows}
    return Analysis(results.table(), findings, shown, _quotes(agents), names, rows, exact=True)


def _quotes(agents: list[Row]) -> list[Quote]:
    return [
        Quote(f"{row.title}: one edit of the paper's worlds, {row.count('W1')} edits", "", row.edit_quote())
        for row in agents
        if row.has("W1")
    ]
