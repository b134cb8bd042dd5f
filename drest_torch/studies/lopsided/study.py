"""Figure 6 of the paper: one length offers x times as much as the other, and the reward is not divided by m."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from omegaconf import MISSING

from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.studies.lopsided import analysis
from drest_torch.studies.lopsided.analysis import CLOSE, COLLAPSED, MARK, METRICS, REPORTED, Curves, Kind
from drest_torch.studies.lopsided.tables import by_clocks, by_lam, by_x, number, predicted_text, range_text
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "Lopsided rewards (Figure 6)"
QUESTION = (
    "How far apart may the lengths' returns be for DReST agents to stay neutral, if nothing is divided by m, and does "
    "a lower λ help?"
)
USEFUL = 0.95
"""The paper says that usefulness approaches 1; at least this is taken for it."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/lopsided.yaml`."""

    world: str = MISSING
    agents: int = limited(at_least=1)
    x_first: float = MISSING
    x_last: float = MISSING
    x_count: int = MISSING
    clocks: list[str] = MISSING
    lams: list[float] = MISSING
    every: int = MISSING
    clip: float = MISSING
    training: Training = field(default_factory=Training)


def jobs(cfg: Config) -> list[Job]:
    """Return a run for each kind of agents and each x."""
    return [job(cfg, kind, x) for kind in kinds(cfg) for x in x_values(cfg, kind)]


def kinds(cfg: Config) -> list[Kind]:
    """Return the kinds of agents: on each clock the default reward, then every λ without a clip and with it."""
    return [
        kind
        for clock in cfg.clocks
        for kind in (Kind(clock, 1.0, None), *(Kind(clock, lam, clip) for clip in (None, cfg.clip) for lam in cfg.lams))
    ]


def x_values(cfg: Config, kind: Kind) -> list[float]:
    """Return the values of x that a kind is trained with, to four digits."""
    every = cfg.every if not kind.default and kind.clip is None and kind.lam != cfg.lams[0] else 1
    return [float(f"{x:.4g}") for x in np.geomspace(cfg.x_first, cfg.x_last, cfg.x_count)[::every]]


def clocks_of_evaluation(clock: str) -> tuple[str, ...]:
    """Return the clocks that agents are evaluated on that were trained on this one."""
    return ("moves", "steps") if clock == "moves" else ("steps",)


def job(cfg: Config, kind: Kind, x: float) -> Job:
    """Return the run of one kind and one x: all of its agents."""
    return agents_job(
        cfg.training,
        label=f"{kind.label}-x={x:g}",
        world=cfg.world,
        clock=kind.clock,
        reward="default" if kind.default else "drest",
        agents=cfg.agents,
        evaluated_on=clocks_of_evaluation(kind.clock),
        x=x,
        divisor="none",
        lam=float(kind.lam),
        clip=kind.clip,
    )


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return what the agents come to for each x, beside what is predicted."""
    results = measure(cfg, finished)
    episodes = cfg.training.episodes_per_meta
    all_curves = [
        curves
        for kind in kinds(cfg)
        for clock in clocks_of_evaluation(kind.clock)
        if (curves := analysis.curves_of(results, kind, clock, episodes)) is not None
    ]
    findings: dict[str, Any] = {"agents": cfg.agents}
    for curves in all_curves:
        findings.setdefault(curves.pair, {})[curves.kind.label.partition("-")[2]] = curves.summary()
    main = [curves for curves in all_curves if curves.kind.clock == curves.clock == cfg.clocks[0]]
    papers = [curves for curves in all_curves if curves.kind.lam == cfg.lams[0] and curves.kind.clip is None]
    first = next((curves for curves in papers if curves in main), None)
    names = {
        "lam": cfg.lams[0],
        "first": None if first is None else analysis.first_names(first),
        "lower": analysis.lower_names(cfg, main),
        "clocks": [analysis.clock_names(curves) for curves in papers],
        "ranges": None if first is None else [range_text(first), predicted_text(first)],
        "pairs": list(dict.fromkeys(curves.pair for curves in all_curves)),
        "largest": [(lam, number(lam ** (-(episodes - 1) / 2))) for lam in cfg.lams],
        "MARK": MARK,
        "REPORTED": REPORTED,
        "COLLAPSED": COLLAPSED,
        "CLOSE": CLOSE,
        "USEFUL": USEFUL,
    }
    tables = {"clocks": by_clocks(cfg, papers), "lower": by_lam(main), "x": by_x(cfg, results)}
    return Analysis(results, findings, tables, quotes(cfg, main, first, papers), names, extra=all_curves)


def measure(cfg: Config, finished: Finished) -> pd.DataFrame:
    """Return the measures of every agent at the end of training, on each clock, and what is predicted of them."""
    results = Results("lopsided", "trained_on", "reward", "lam", "clipped", "x", "clock")
    for kind in kinds(cfg):
        x = np.array(x_values(cfg, kind))
        theory = dict(zip(analysis.PREDICTED, predictions(cfg, kind, x), strict=True))
        whole, _ = analysis.best(x, kind.lam, cfg.training.episodes_per_meta)
        for place, (value, run) in enumerate((value, job(cfg, kind, value)) for value in x.tolist()):
            if (result := finished.get(run)) is None:
                continue
            reward = "default" if kind.default else "drest"
            of = {"variant": run.name, "level": cfg.world, "trained_on": kind.clock, "reward": reward, "x": value}
            of |= {"lam": kind.lam, "clipped": kind.clip is not None}
            for clock in clocks_of_evaluation(kind.clock):
                for metric in METRICS:
                    results.add(_last(result, clock, metric), metric, clock=clock, **of)
                for metric, predicted in theory.items():
                    results.add(predicted[[place]], f"{metric}_predicted", clock=clock, **of)
                results.add(whole[[place]], "p_longer_best", clock=clock, **of)
    return results.table()


def predictions(cfg: Config, kind: Kind, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the predicted P(longer) and neutrality of a kind of agents [X]."""
    return analysis.predicted(x, kind.lam, cfg.training.episodes_per_meta, kind.clip)


def _last(result: Result, clock: str, metric: str) -> np.ndarray:
    return last(result, clock, "p_length")[:, -1] if metric == "p_longer" else last(result, clock, metric)


def quotes(cfg: Config, main: Sequence[Curves], first: Curves | None, papers: Sequence[Curves]) -> list[Quote]:
    """Return what the paper reports of x and λ, and what was measured."""
    rows = []
    if first is not None:
        reported = f"at least {REPORTED[0]:g} to {REPORTED[1]:g}"
        measured = f"{range_text(first)} (predicted {predicted_text(first)})"
        rows.append(Quote(f"lopsided, λ = {cfg.lams[0]:g}: x with N > {MARK:g}", reported, measured))
    lowest = [(low, curves.pair) for curves in papers if (low := curves.lowest_as_claimed()) is not None]
    if lowest:
        measured = "; ".join(f"{low:.3f} {pair}" for low, pair in lowest)
        rows.append(Quote(f"the lowest mean N for x from {REPORTED[0]:g} to {REPORTED[1]:g}", f"> {MARK:g}", measured))
    for clip in (None, cfg.clip):
        lower = [curves for curves in main if curves.kind.clip == clip and curves.kind.lam < cfg.lams[0]]
        if lower:
            what = f"x with N > {MARK:g} at a lower λ, "
            what += "without a clip" if clip is None else f"rewards clipped at {clip:g}"
            measured = "; ".join(f"λ = {curves.kind.lam:g}: {range_text(curves)}" for curves in lower)
            rows.append(Quote(what, "a wider range" if clip is None else "", measured))
    return rows
