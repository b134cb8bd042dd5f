"""Section 7.3 of the paper: what becomes of agents if m(l), by which coins are divided, is not known.

It is replaced by the largest return that the agent has seen so far given the length, by a wrong m, and by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING

from drest_torch.envs.levels import world
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import Column, marked, mean_sd, select, table
from drest_torch.report.template import num
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig
from drest_torch.studies.unknown_m import analysis
from drest_torch.studies.unknown_m.analysis import FAIRLY, MARK, MEASURES, Variant, lowest, means_of

TITLE = "If m is not known (section 7.3)"
QUESTION = (
    "The DReST reward divides coins by m(l), the most that can be collected given the length. What if nobody knows it?"
)

CLOCKS = {"moves": "moves / moves", "steps": "moves / steps"}
"""By clock of evaluation; all agents are trained on the clock that counts moves."""
FACTORS = ("divisor", "factor_shorter", "factor_longer", "patience", "clock")
"""Columns of the results. Rows without a clock are predictions; those without a level hold for every level."""
TITLES = {"neutrality": "neutrality (bits)", "usefulness": "usefulness"}
KNOWN, SEEN, NONE = Variant("m"), Variant("seen", "seen"), Variant("none", "none")
WORDS = {KNOWN: "m", SEEN: "largest seen", NONE: "none"}


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/unknown_m.yaml`."""

    worlds: list[str] = MISSING
    agents: int = limited(at_least=1)
    factors: list[float] = MISSING
    patience: int = MISSING
    training: Training = field(default_factory=Training)
    changes: dict[str, dict[str, Any]] = MISSING


def jobs(cfg: Config) -> list[Job]:
    """Return a run for each world and variant: all of its agents."""
    return [job(cfg, name, variant) for name in cfg.worlds for variant in variants(cfg)]


def variants(cfg: Config) -> list[Variant]:
    """Return everything that coins are divided by."""
    return [*WORDS, *wrong(cfg, both=False).values(), patient(cfg), *wrong(cfg, both=True).values()]


def wrong(cfg: Config, both: bool) -> dict[float, Variant]:
    """Return the variants with a wrong m of the longer length, or of both, by its factor."""
    kind = "both" if both else "longer"
    return {f: Variant(f"{kind}-x{f:g}", "best", f if both else 1.0, f) for f in map(float, cfg.factors)}


def with_known(cfg: Config, both: bool) -> dict[float, Variant]:
    """Return the same, with the true m as the factor 1, in the order of the factors."""
    return dict(sorted({1.0: KNOWN, **wrong(cfg, both)}.items()))


def patient(cfg: Config) -> Variant:
    """Return the largest wrong m of the longer length, with longer training."""
    factor = max(map(float, cfg.factors))
    return Variant(f"longer-x{factor:g}-patient", "best", 1.0, factor, cfg.patience)


def job(cfg: Config, name: str, variant: Variant) -> Job:
    """Return the run of a variant in a world."""
    training: Any = cfg.training
    changes = {**training, **cfg.changes.get(name, {})}
    for length in ("meta_episodes", "decay_episodes", "evaluate_every"):
        changes[length] *= variant.patience
    factors = (variant.shorter, variant.longer)
    return agents_job(
        cfg.training,
        label=f"{name}-{variant.label}",
        world=name,
        clock="moves",
        reward="drest",
        agents=cfg.agents,
        evaluated_on=tuple(CLOCKS),
        divisor=variant.divisor,
        factors=None if factors == (1.0, 1.0) else factors,
        **changes,
    )


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what agents do for each divisor, beside where training is predicted to come to rest."""
    results = measure(cfg, finished)
    worlds = list(results["level"][results["clock"].notna()].unique())
    moves = select(results, clock="moves")
    none = {name: analysis.predict(cfg, NONE, analysis.best_return(cfg, name)) for name in worlds}
    findings = {
        "agents": cfg.agents,
        "worlds": {name: analysis.summarise(select(results, level=name), CLOCKS) for name in worlds},
        "predicted": {variant.label: analysis.predict(cfg, variant) for variant in wrong(cfg, both=False).values()},
        "none_predicted": none,
    }
    longest = patient(cfg)
    usual = wrong(cfg, both=False)[longest.longer]
    names = {
        "MARK": MARK,
        "FAIRLY": FAIRLY,
        "seen": analysis.counts(moves, SEEN.label),
        "undivided": analysis.without_divisor(moves, NONE.label, {name: bits for name, (_, bits) in none.items()}),
        "patient": {
            "factor": longest.longer,
            "lowest": [lowest(moves, variant.label, "neutrality") for variant in (usual, longest)],
            "predicted": analysis.predict(cfg, longest),
        },
        "both": {metric: analysis.worst(moves, wrong(cfg, both=True), metric) for metric in MEASURES},
        "title": {name: title(name) for name in worlds},
    }
    return Analysis(results, findings, _tables(cfg, results, worlds), _quotes(cfg, moves), names)


def measure(cfg: Config, finished: Finished) -> pd.DataFrame:
    """Return what every agent does at the end of training, on both clocks, and the predictions."""
    results = Results("unknown_m", *FACTORS)
    worlds = []
    for name in cfg.worlds:
        for variant in variants(cfg):
            if (result := finished.get(job(cfg, name, variant))) is not None:
                worlds.append(name)
                for clock in CLOCKS:
                    finals = {metric: last(result, clock, metric) for metric in MEASURES}
                    finals["p_longer"] = last(result, clock, "p_length")[:, -1]
                    for metric, values in finals.items():
                        results.add(values, metric, level=name, clock=clock, **variant.columns())
    predictions = [("", variant, [1.0, 1.0]) for variant in variants(cfg) if variant != NONE]
    predictions += [(name, NONE, analysis.best_return(cfg, name)) for name in dict.fromkeys(worlds)]
    for level, variant, best in predictions:
        for metric, value in zip(("p_longer", "neutrality"), analysis.predict(cfg, variant, best), strict=True):
            results.add(np.array([value]), metric, level=level, split="predicted", **variant.columns())
    return results.table()


# -------------------------------------------------------------------------------- tables and quotes


def title(name: str) -> str:
    """Return the title of a world."""
    return str(world(name).study["title"])


def _marked(values: np.ndarray) -> str:
    mark, _ = marked(MARK, FAIRLY)(values).split()
    return f"{mark} {mean_sd()(values)}"


def _tables(cfg: Config, results: pd.DataFrame, worlds: Sequence[str]) -> dict[str, Table]:
    moves, steps = (select(results, clock=clock) for clock in CLOCKS)
    tables = {"unknown": _unknown_table(cfg, results, worlds)}
    columns = [Column(words, _marked, {"variant": v.label, "metric": "usefulness"}) for v, words in WORDS.items()]
    caption = "Usefulness of the same agents"
    tables["unknown_usefulness"] = table(moves, "level", columns, caption, corner="world", rows=worlds, name=title)
    for both in (False, True):
        by_factor = {f"×{factor:g}": variant for factor, variant in with_known(cfg, both).items()}
        if not both:
            by_factor[f"×{patient(cfg).longer:g}, longer"] = patient(cfg)
        for metric in MEASURES:
            key = f"{metric}_{'both' if both else 'longer'}"
            tables[key] = _factor_table(
                cfg, moves, worlds, by_factor, metric, "both lengths" if both else "the longer length"
            )
    columns = [
        Column(f"{metric}, {words}", mean_sd(), {"variant": variant.label, "metric": metric})
        for variant, words in WORDS.items()
        for metric in MEASURES
    ]
    caption = "Evaluated on the clock that counts every step"
    return tables | {"steps": table(steps, "level", columns, caption, corner="world", rows=worlds, name=title)}


def _unknown_table(cfg: Config, results: pd.DataFrame, worlds: Sequence[str]) -> Table:
    caption = "Neutrality if coins are divided by m, by the largest return seen so far, or by nothing"
    columns = [Column(words, _marked, {"variant": variant.label, "split": "train"}) for variant, words in WORDS.items()]
    columns.append(Column("none, predicted", lambda values: f"{values[0]:.3f}", {"split": "predicted"}))
    neutrality = select(results[results["clock"] != "steps"], metric="neutrality")
    cells = table(neutrality, "level", columns, caption, rows=worlds, name=title)
    best = [", ".join(f"{value:.2f}" for value in analysis.best_return(cfg, name)) for name in worlds]
    rows = [[name, m, *rest] for (name, *rest), m in zip(cells.rows, best, strict=True)]
    return Table(caption, ["world", "m short, long", *cells.header[1:]], rows)


def _factor_table(
    cfg: Any, moves: pd.DataFrame, worlds: Sequence[str], columns: Mapping[str, Variant], metric: str, lengths: str
) -> Table:
    values = means_of(moves, worlds, columns.values(), metric)
    rows = [[literal(title(name)), *map(num, row)] for name, row in zip(worlds, values, strict=True)]
    if metric == "neutrality":
        rows.append(["predicted", *(num(analysis.predict(cfg, variant)[1]) for variant in columns.values())])
    return Table(f"Mean {TITLES[metric]}, by the factor of m of {lengths}", ["world", *columns], rows)


def _quotes(cfg: Config, moves: pd.DataFrame) -> list[Quote]:
    quotes = []
    n, u = (lowest(moves, SEEN.label, metric) for metric in MEASURES)
    if n is not None and u is not None:
        worlds = analysis.counts(moves, SEEN.label)["worlds"]
        measured = f"N ≥ {n:.3f}, U ≥ {u:.3f} in {worlds} worlds"
        quotes.append(Quote("m replaced by the largest return seen so far", "suggested", measured))
    by_factor = {f"× {factor:g}": variant for factor, variant in wrong(cfg, both=False).items()}
    by_factor[f"× {patient(cfg).longer:g}, trained {cfg.patience} times as long"] = patient(cfg)
    minima = {words: lowest(moves, variant.label, "neutrality") for words, variant in by_factor.items()}
    if measured := "; ".join(f"{words}: N ≥ {low:.3f}" for words, low in minima.items() if low is not None):
        quotes.append(Quote("m of the longer length wrong by a factor", "an approximate m suffices", measured))
    none = analysis.level_means(moves, NONE.label, "neutrality")
    if len(none):
        quotes.append(Quote("coins not divided at all", "", f"N from {none.min():.3f} to {none.max():.3f}"))
    return quotes
