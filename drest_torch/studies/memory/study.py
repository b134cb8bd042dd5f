"""Agents that remember: what the reward teaches them, and what makes them random again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING, OmegaConf

from drest_torch import theory
from drest_torch.choices import memory
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import median_range, select, values
from drest_torch.studies.memory.agents import PAID_BY, SEES
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "Agents that remember"
QUESTION = (
    "The paper's agents cannot tell mini-episodes apart, so they cannot take lengths in turn. What do agents do that "
    "can, and what makes them random again?"
)
MEASURES = {
    "marginal": "entropy of the length (bits)",
    "conditional": "given what it remembers",
    "predictable": "predicted",
    "value": "return ÷ E",
}
RANDOM = 0.98
"""An agent with at least this entropy, given what it remembers, is called random."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/memory.yaml`."""

    seeds: int = limited(at_least=1)
    lam: float = limited(above=0, at_most=1)
    episodes: int = limited(at_least=2)
    sizes: list[int] = MISSING
    common: dict[str, Any] = MISSING
    agents: dict[str, dict[str, Any]] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return a run for each kind of agent and seed."""
    return [job(cfg, kind, seed) for kind in cfg.agents for seed in range(cfg.seeds)]


def job(cfg: Config, kind: str, seed: int) -> Job:
    """Return the training of one agent."""
    own: Any = OmegaConf.to_container(OmegaConf.merge(cfg.common, cfg.agents[kind]))
    for key, known in (("sees", SEES), ("paid_by", PAID_BY)):
        if own.get(key) not in known:
            raise ConfigError(f"study.agents: '{kind}' with {key}={own.get(key)}; expected one of {'; '.join(known)}")
    if own["copies"] % own["group"]:
        raise ConfigError(f"study.agents: '{kind}' with group={own['group']}, which does not divide {own['copies']}")
    spec = own | {"lam": cfg.lam, "episodes": cfg.episodes, "seed": seed}
    return Job(f"{kind}-{seed}", "drest_torch.studies.memory.agents:train", spec)


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what every kind of agent does, and the best that agents with and without memory can get."""
    results = Results("memory")
    for kind in cfg.agents:
        found = finished.of([job(cfg, kind, seed) for seed in range(cfg.seeds)])
        for metric in MEASURES:
            if found:
                numbers = np.array([result.numbers[metric] for _, result in found])
                results.add(numbers, metric, variant=kind, seeds=[each.spec["seed"] for each, _ in found])
    rows = results.table()
    best = {size: optimum(size, cfg.lam) for size in cfg.sizes}
    medians = {kind: _medians(select(rows, variant=kind)) for kind in rows["variant"].unique()}
    findings = {"best": {str(size): row for size, row in best.items()}, "medians": medians}
    tables = {"best": best_table(best), "agents": agents_table(rows, medians)}
    largest = max(cfg.sizes)
    names = {
        "largest": largest,
        "optimum": best[largest],
        "random": [kind for kind, found in medians.items() if found["conditional"] >= RANDOM],
        "not_random": [kind for kind, found in medians.items() if found["conditional"] < RANDOM],
        "medians": medians,
        "RANDOM": RANDOM,
    }
    return Analysis(rows, findings, tables, _quotes(medians), names, exact=False)


def optimum(episodes: int, lam: float) -> dict[str, Any]:
    """Return the best meta-episode of an agent that remembers, and the returns of others beside it."""
    value, most, least = memory.best_with_memory(episodes, lam)
    return {
        "counts": [most, least],
        "best": value,
        "alternating": memory.alternating(episodes, lam),
        "neutral": theory.neutral_value(memory.LENGTHS, episodes, lam),
    }


def _medians(rows: pd.DataFrame) -> dict[str, float]:
    return {metric: float(np.median(values(rows, metric=metric))) for metric in MEASURES}


def best_table(best: dict[int, dict[str, Any]]) -> Table:
    """Return the best meta-episode by its number of mini-episodes, beside alternation and neutrality."""
    rows = [
        [
            str(size),
            " + ".join(map(str, row["counts"])),
            *(f"{row[key]:.4g}" for key in ("best", "alternating", "neutral")),
        ]
        for size, row in best.items()
    ]
    header = ["E", "best: one length + the other", "its return", "in turns", "neutral, no memory"]
    return Table("The best meta-episode of an agent that remembers", header, rows)


def agents_table(rows: pd.DataFrame, kinds: Iterable[str]) -> Table:
    """Return the measures of each kind of agent: the median, and the range over seeds."""
    body = [
        [literal(kind), *(median_range(values(select(rows, variant=kind), metric=metric)) for metric in MEASURES)]
        for kind in kinds
    ]
    return Table("Trained agents", ["", *MEASURES.values()], body)


def _quotes(medians: dict[str, dict[str, float]]) -> list[Quote]:
    if "counts" not in medians:
        return []
    bits = "{:.2f} bits, and {:.2f} given what it remembers".format(
        *(medians["counts"][metric] for metric in ("marginal", "conditional"))
    )
    return [Quote("an agent that sees how often it chose each length", "", bits)]
