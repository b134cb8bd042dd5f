"""Figure 7 of the paper: neutrality and usefulness for λ × E, with rewards clipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from omegaconf import MISSING

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import Training, agents_job, last
from drest_torch.limits import limited
from drest_torch.report.blocks import Table
from drest_torch.report.tables import Column, below, marked, mean_sd, pivot, select, spread, table, values
from drest_torch.report.template import short
from drest_torch.studies.lambda_meta import analysis
from drest_torch.studies.lambda_meta.analysis import CELL, COLLAPSED, CORNER, CORNERS, FAIR, GOOD, MEASURES, RARE, Cell
from drest_torch.studies.results import Results
from drest_torch.studies.study import Analysis, Finished, Quote, StudyConfig

TITLE = "λ and the size of a meta-episode (Figure 7)"
QUESTION = "How do λ and E, which set the strength of the incentive to be neutral, change what agents learn?"

CLOCKS = ("steps", "moves")
"""Of evaluation; all agents are trained on the clock that counts moves."""


@dataclass
class Config(StudyConfig):
    """The values of `configs/study/lambda_meta.yaml`."""

    world: str = MISSING
    agents: int = limited(at_least=1)
    lams: list[float] = MISSING
    sizes: list[int] = MISSING
    mini_episodes: int = MISSING
    unclipped: list[Any] = MISSING
    training: Training = field(default_factory=Training)


def jobs(cfg: Config) -> list[Job]:
    """Return a run for each pair of λ and E, then the runs without the clip."""
    for _, size in [*_cells(cfg), *_unclipped(cfg)]:
        if size < 1 or cfg.mini_episodes % size:
            raise ConfigError(f"study.sizes with {size}; expected divisors of mini_episodes={cfg.mini_episodes}")
    return [job(cfg, cell, clipped=True) for cell in _cells(cfg)] + [
        job(cfg, cell, clipped=False) for cell in _unclipped(cfg)
    ]


def _cells(cfg: Config) -> list[Cell]:
    return [(float(lam), int(size)) for lam in cfg.lams for size in cfg.sizes]


def _unclipped(cfg: Config) -> list[Cell]:
    return [(float(lam), int(size)) for lam, size in cfg.unclipped]


def job(cfg: Config, cell: Cell, clipped: bool) -> Job:
    """Return the run of one pair of λ and E: all of its agents."""
    lam, size = cell
    metas = cfg.mini_episodes // size
    return agents_job(
        cfg.training,
        label=f"lambda={lam:g}-E={size}{'' if clipped else '-unclipped'}",
        world=cfg.world,
        clock="moves",
        reward="drest",
        agents=cfg.agents,
        evaluated_on=CLOCKS,
        lam=lam,
        episodes_per_meta=size,
        meta_episodes=metas,
        evaluate_every=metas,
        clip=cfg.training.clip if clipped else None,
    )


# ------------------------------------------------------------------------------------------ analysis


def analyse(cfg: Config, finished: Finished) -> Analysis:
    """Return the means of each pair, and what becomes of the paper's three claims about them."""
    results = measure(cfg, finished)
    clipped, unclipped = (select(results, clipped=clip) for clip in (True, False))
    lams, sizes = [float(lam) for lam in cfg.lams], list(cfg.sizes)
    claims = {clock: analysis.statements(clipped, lams, sizes, clock) for clock in CLOCKS}
    findings = {
        "agents": cfg.agents,
        "clipped": [_numbers(cell, group) for cell, group in clipped.groupby([*CELL], sort=False)],
        "unclipped": [_numbers(cell, group) for cell, group in unclipped.groupby([*CELL], sort=False)],
        "statements": claims,
    }
    without_clip = analysis.collapses(select(unclipped, clock="moves"))
    names = {
        **analysis.verdicts(claims),
        "CORNER": CORNER,
        "RARE": RARE,
        "GOOD": GOOD,
        "FAIR": FAIR,
        "COLLAPSED": COLLAPSED,
        "gone": analysis.given_up(select(clipped, clock="moves", metric="neutrality")),
        "incentives": analysis.incentives(clipped),
        "unclipped": without_clip,
    }
    return Analysis(results, findings, _tables(cfg, results), _quotes(claims, without_clip), names)


def measure(cfg: Config, finished: Finished) -> pd.DataFrame:
    """Return both measures of every agent at the end of training, on both clocks."""
    results = Results("lambda_meta", *CELL, "clipped", "clock")
    for clipped, cells in ((True, _cells(cfg)), (False, _unclipped(cfg))):
        for cell in cells:
            run = job(cfg, cell, clipped)
            if (result := finished.get(run)) is not None:
                for clock in CLOCKS:
                    factors: dict[str, Any] = {**dict(zip(CELL, cell, strict=True)), "clipped": clipped, "clock": clock}
                    for metric in MEASURES:
                        final = last(result, clock, metric)
                        results.add(final, metric, variant=run.name, level=cfg.world, **factors)
    return results.table()


def _numbers(cell: Cell, group: pd.DataFrame) -> dict[str, Any]:
    moves = {metric: values(group, clock="moves", metric=metric) for metric in MEASURES}
    ends: dict[str, Any] = {"lam": cell[0], "episodes_per_meta": cell[1]}
    for clock in CLOCKS:
        finals = {metric: values(group, clock=clock, metric=metric) for metric in MEASURES}
        ends[f"moves / {clock}"] = {metric: [final.mean(), spread(final)] for metric, final in finals.items()}
    ends["collapsed"] = {metric: int((moves[metric] < COLLAPSED[metric]).sum()) for metric in MEASURES}
    return ends


# -------------------------------------------------------------------------------- tables and quotes


def _tables(cfg: Config, results: pd.DataFrame) -> dict[str, Table]:
    lams, sizes = [float(lam) for lam in cfg.lams], list(cfg.sizes)
    header = ["λ ↓ E →", *map(str, sizes)]
    tables = {}
    for clock in CLOCKS:
        for metric in MEASURES:
            good = GOOD[clock][metric]
            tables[f"{metric}_{clock}"] = pivot(
                select(results, clipped=True, clock=clock, metric=metric),
                "lam",
                "episodes_per_meta",
                marked(good, good - FAIR),
                f"Mean {metric}, evaluated on {clock}",
                corner=header[0],
                rows=lams,
                columns=sizes,
                name="{:g}".format,
            )
    of_rare = f"Reward of a length chosen in {RARE:.0%} of mini-episodes ÷ reward of the other"
    for key, strength, caption in (
        ("incentive", analysis.incentive, of_rare),
        ("largest", analysis.largest_discount, "The largest discount that can occur"),
    ):
        tables[key] = Table(caption, header, [_strengths(strength, lam, sizes) for lam in lams])
    columns = [
        Column(f"{metric}, {'' if clipped else 'not '}clipped", mean_sd(2), {"metric": metric, "clipped": clipped})
        for metric in MEASURES
        for clipped in (True, False)
    ]
    columns += [
        Column(f"{metric} < {COLLAPSED[metric]:g}", below(COLLAPSED[metric]), {"metric": metric, "clipped": False})
        for metric in MEASURES
    ]
    done = list(select(results, clipped=False).groupby([*CELL], sort=False).groups)
    moves = select(results, clock="moves")
    tables["unclipped"] = table(moves, CELL, columns, "With and without the clip", rows=done, name=_name)
    return tables


def _strengths(strength: Any, lam: float, sizes: Sequence[int]) -> list[str]:
    return [f"{lam:g}", *(short(strength(lam, size)) for size in sizes)]


def _name(cell: Cell) -> str:
    return f"λ = {cell[0]:g}, E = {cell[1]}"


def _quotes(claims: dict[str, dict[str, Any]], unclipped: dict[str, Any]) -> list[Quote]:
    quotes = []
    steps, moves = claims["steps"], claims["moves"]
    for claim, what in (
        ("small_E_large_lambda_neutrality", "small E and large λ, corner of the table"),
        ("large_E_small_lambda_usefulness", "large E and small λ, corner of the table"),
    ):
        if claim in steps:
            letter = CORNERS[claim][0][0].upper()
            (a, b), (c, d) = steps[claim], moves[claim]
            measured = f"{letter} {a:.3f}, elsewhere {b:.3f}; evaluated on moves {c:.3f} and {d:.3f}"
            quotes.append(Quote(what, f"low {letter}", measured))
    if "sweet_spot" in steps:
        (n, u), (high_n, high_u) = steps["sweet_spot"], steps["highest"]
        measured = f"N {n:.3f}, U {u:.3f}; highest of all {high_n:.3f} and {high_u:.3f}"
        quotes.append(Quote("λ = 0.9 and E = 64", "both high", measured))
    if unclipped["of_pairs"]:
        measured = "{agents} of {of} agents collapse in {of_pairs} pairs of λ and E".format(**unclipped)
        quotes.append(Quote("the same without the clip", "especially unstable", measured))
    return quotes
