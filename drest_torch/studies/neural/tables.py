"""The tables of the study of networks."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from drest_torch.envs.levels import world
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.tables import MISSING, Cell, Column, mean, pivot, select, table, values
from drest_torch.studies.clock_pairs import REWARDS
from drest_torch.studies.neural import analysis
from drest_torch.studies.neural.analysis import LEARNED, MEASURES, NOTICED, TABLE, UNIFORM, Total

if TYPE_CHECKING:
    from drest_torch.studies.neural.study import Config

TITLES = {TABLE: "table", "reinforce": "REINFORCE", "a2c": "A2C", "ppo": "PPO"}
Totals: TypeAlias = dict[tuple[str, str], Total]
"""By algorithm and reward."""


def kinds(cfg: Config) -> list[str]:
    """Return the table and the algorithms."""
    return [TABLE, *cfg.algorithms]


def short_title(algo: str) -> str:
    """Return the name of an algorithm, or of the table."""
    return TITLES.get(algo, algo)


def title(name: str) -> str:
    """Return the name of a world."""
    return str(world(name).study["title"])


# --------------------------------------------------------------------------------------------- cells


def median(digits: int) -> Cell:
    """Return a cell with the median."""
    return lambda values: f"{np.median(values):.{digits}f}"


def median_steps(values: np.ndarray) -> str:
    """Return the median of environment steps: ``1.25 M``, or ``never`` for inf."""
    steps = float(np.median(values))
    return f"{steps / 1e6:.2f} M" if math.isfinite(steps) else "never"


def count(values: np.ndarray) -> str:
    """Return how many of the values are true: ``7 of 8``."""
    return f"{int(values.sum())} of {len(values)}"


def likely(values: np.ndarray) -> str:
    """Return how many of the probabilities are above a half."""
    return count(values > 0.5)


def spread(values: np.ndarray) -> str:
    """Return the median, and in brackets the lowest and highest value of several."""
    middle, low, high = analysis.middle_and_ends(values)
    return f"{middle:.3f} ({low:.3f}-{high:.3f})" if len(values) > 1 else f"{middle:.3f}"


def judged(mark: float) -> Cell:
    """Return a cell with the spread behind ✓ (all are at the mark), ◐ (some) or ✗ (none)."""

    def cell(values: np.ndarray) -> str:
        share = (values >= mark).mean()
        return f"{'✓' if share == 1 else '◐' if share else '✗'} {spread(values)}"

    return cell


# -------------------------------------------------------------------------------------------- tables


def all_tables(cfg: Config, results: pd.DataFrame, totals: Totals) -> dict[str, Table]:
    """Return the tables of the report by name."""
    plain = select(results, change="")
    return {
        "totals": _totals(cfg, plain, totals),
        **_by_world(cfg, plain),
        "when": _when(cfg, plain),
        "hard": _hard(results),
        "missed": _missed(cfg, plain),
        "changed": _changed(cfg, results),
    }


def totals_by_kind(cfg: Config, results: pd.DataFrame) -> Totals:
    """Return means and counts over all worlds."""
    plain = select(results, change="")
    groups = {(algo, reward): select(plain, algorithm=algo, reward=reward) for reward in REWARDS for algo in kinds(cfg)}
    return {key: total for key, group in groups.items() if (total := analysis.total(group)) is not None}


def _totals(cfg: Config, results: pd.DataFrame, totals: Totals) -> Table:
    rows = []
    for reward, algo in itertools.product(("drest", "default"), kinds(cfg)):
        if (total := totals.get((algo, reward))) is None:
            continue
        group = select(results, algorithm=algo, reward=reward)
        seconds = values(group, metric="seconds")
        good, arrival = f"{total.good} of {total.agents}", median_steps(values(group, metric="steps_until_both"))
        if reward == "default":
            good = arrival = MISSING  # default agents are not meant to be neutral
        means = [total.text(measure) for measure in MEASURES]
        time = f"{np.median(seconds):.0f} s" if len(seconds) else MISSING
        rows.append([literal(f"{REWARDS[reward]}, {short_title(algo)}"), good, *means, arrival, time])
    header = ["", f"both ≥ {cfg.mark}", *MEASURES, "steps until both", "time"]
    return Table("All worlds together, at the end of training", header, rows)


def _by_world(cfg: Config, results: pd.DataFrame) -> dict[str, Table]:
    """Return tables with a row for each world and a column for each algorithm."""
    captions: dict[tuple[str, str], tuple[Cell, str]] = {
        ("drest", "usefulness"): (judged(cfg.mark), "DReST agents: usefulness"),
        ("drest", "neutrality"): (judged(cfg.mark), "DReST agents: neutrality"),
        ("drest", "both"): (count, f"DReST agents: how many have both ≥ {cfg.mark}"),
        ("drest", "steps_until_both"): (
            median_steps,
            f"DReST agents: environment steps from which on both stay ≥ {cfg.mark}, median",
        ),
        ("default", "usefulness"): (spread, "Default agents: usefulness"),
        ("default", "neutrality"): (spread, "Default agents: neutrality"),
        ("default", "p_longer"): (spread, "Default agents: P(longer)"),
        ("default", "p_better"): (likely, "Default agents: how many end with the length that pays more"),
    }

    def with_better(name: str) -> str:
        best = analysis.chance(name, float(cfg.gammas.get(name, cfg.gamma))).best_return
        return f"{title(name)} ({'longer' if best.argmax() else 'shorter'})"

    return {
        f"{reward}_{metric}": pivot(
            select(results, reward=reward, metric=metric),
            "level",
            "algorithm",
            cell,
            caption,
            corner="world (what pays more)" if metric == "p_better" else "world",
            rows=cfg.worlds,
            columns=kinds(cfg),
            name=with_better if metric == "p_better" else title,
            head=short_title,
        )
        for (reward, metric), (cell, caption) in captions.items()
    }


def _when(cfg: Config, results: pd.DataFrame) -> Table:
    columns = [
        _column(f"DReST: P(longer) ≥ {NOTICED} at first", median_steps, metric="steps_until_longer", reward="drest"),
        _column(f"both ≥ {cfg.mark} for good", median_steps, metric="steps_until_both", reward="drest"),
        _column(
            f"default: usefulness ≥ {LEARNED} for good", median_steps, metric="steps_until_useful", reward="default"
        ),
        _column("P(longer) at the end", mean(3), metric="p_longer", reward="default"),
    ]
    caption = f"When something happens in this world: {literal(title(cfg.shown))}"
    return table(select(results, level=cfg.shown), "algorithm", columns, caption, rows=kinds(cfg), name=short_title)


def _column(head: str, cell: Cell, **where: str) -> Column:
    return Column(head, cell, where)


def hardest_first(results: pd.DataFrame) -> list[tuple[str, float]]:
    """Return the worlds, and the mini-episodes in which a uniform policy collects m(longer) once."""
    rows = select(results, algorithm=UNIFORM, metric="episodes_per_best")
    return sorted(zip(rows["level"], rows["value"], strict=True), key=lambda row: row[1], reverse=True)


def _hard(results: pd.DataFrame) -> Table:
    columns = [
        _column("m(longer) ÷ m(shorter)", mean(2), metric="best_return_ratio"),
        _column("P(longer)", mean(4), metric="p_longer"),
        _column("of m, shorter", mean(3), metric="share_shorter"),
        _column("of m, longer", mean(3), metric="share_longer"),
        _column("once in", lambda values: f"{values.mean():,.0f}", metric="episodes_per_best"),
    ]
    caption = "What a uniform policy comes upon, the hardest world first"
    rows = [name for name, _ in hardest_first(results)]
    return table(select(results, algorithm=UNIFORM), "level", columns, caption, corner="world", rows=rows, name=title)


def _missed(cfg: Config, results: pd.DataFrame) -> Table:
    drest = select(results, reward="drest")
    drest = drest[drest["algorithm"] != TABLE]
    bad = drest[(drest["metric"] == "both") & (drest["value"] == 0)]
    metrics = (*MEASURES, "p_longer", "share_shorter", "share_longer")
    rows = []
    for row in bad.itertuples():
        agent = select(drest, variant=row.variant, seed=row.seed)
        ends = [f"{values(agent, metric=metric)[0]:.3f}" for metric in metrics]
        rows.append([literal(title(str(row.level))), literal(short_title(str(row.algorithm))), *ends])
    caption = f"Every DReST network that ends with one of the two below {cfg.mark}"
    return Table(caption, ["world", "trained with", *MEASURES, "P(longer)", "of m, shorter", "of m, longer"], rows)


def changed(cfg: Config, results: pd.DataFrame) -> dict[str, Any]:
    """Return the algorithms and changes of which there are results, and the changes that make networks fail."""
    both = select(results, level=cfg.shown, reward="drest", metric="both")
    changes = ["", *cfg.variants]
    rows = [
        (algo, change)
        for algo in cfg.variants_of
        for change in changes
        if len(values(both, algorithm=algo, change=change))
    ]

    def share(algo: str, change: str) -> float:
        return float(values(both, algorithm=algo, change=change).mean())

    compared = [(algo, change) for algo, change in rows if change and (algo, "") in rows]
    worse = [f"{short_title(algo)}, {change}" for algo, change in compared if share(algo, change) < share(algo, "")]
    return {"rows": rows, "compared": len(compared), "worse": worse}


def _changed(cfg: Config, results: pd.DataFrame) -> Table:
    columns = [
        _column(f"both ≥ {cfg.mark}", count, metric="both"),
        *(_column(measure, spread, metric=measure) for measure in MEASURES),
        _column("of m, shorter", median(3), metric="share_shorter"),
        _column("of m, longer", median(3), metric="share_longer"),
    ]
    caption = f"{literal(title(cfg.shown))}, DReST, with one thing different"
    results, rows = select(results, level=cfg.shown, reward="drest"), changed(cfg, results)["rows"]

    def name(key: tuple[str, str]) -> str:
        return f"{short_title(key[0])}, {key[1] or 'as above'}"

    return table(results, ["algorithm", "change"], columns, caption, rows=rows, name=name)
