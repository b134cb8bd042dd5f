"""Neutrality and usefulness for λ × E, with rewards clipped (Figure 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, product
from typing import Any, NamedTuple

import pandas as pd

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.tabular_job import TabularTraining
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import PALETTE, Line, lines_plot
from drest_torch.report.tables import MISSING, marked
from drest_torch.studies.engine import Done, Quote, Report, StudyConfig, as_table, one_value_each, value
from drest_torch.studies.shared import EXAMPLE, at_the_end, tables_job

TITLE = "λ and the size of a meta-episode (Figure 7)"
QUESTION = "How do λ and E, which set the strength of the incentive to be neutral, change what agents learn?"
CLOCKS = ("steps", "moves")
"""Of evaluation; all agents are trained on the clock that counts moves."""
MEASURES = {"neutrality": "neutrality (bits)", "usefulness": "usefulness"}
SWEET_SPOT = (0.9, 64)
"""λ and E of the paper's other experiments."""
GOOD = {"steps": {"neutrality": 0.99, "usefulness": 0.85}, "moves": {"neutrality": 0.99, "usefulness": 0.99}}
"""High, by clock of evaluation; the highest usefulness that the paper reports for the example is 0.94."""
FAIR = 0.1
"""So much below high is fair."""
COLLAPSED = {"neutrality": 0.1, "usefulness": 0.5}
"""An agent with less has collapsed."""
CORNER = 2
"""Values of λ and of E that make a corner of the table."""
SMALL, LARGE = slice(CORNER), slice(-CORNER, None)
CORNERS = {"small E and large λ": ("neutrality", LARGE, SMALL), "large E and small λ": ("usefulness", SMALL, LARGE)}
"""Where the paper's table is low: in which measure, and for which values of λ and E."""


@dataclass
class Config(StudyConfig):
    world: str = "example"
    """Where agents are trained."""
    agents: int = limited(at_least=1, default=8)
    """For each pair of λ and E."""
    lams: list[float] = value([0.5, 0.75, 0.9, 0.95, 0.99])
    """Values of λ."""
    sizes: list[int] = value([8, 16, 32, 64, 128, 256, 512, 1024])
    """Values of E."""
    mini_episodes: int = 131072
    """Of each agent; a multiple of every E."""
    unclipped: list[Any] = value(
        [[0.5, 8], [0.9, 64], [0.99, 1024], [0.75, 64], [0.5, 64], [0.9, 1024], [0.5, 1024]],
    )
    """Pairs of λ and E that are trained without the clip as well. Where agents collapse this takes minutes for each."""
    training: TabularTraining = value(replace(EXAMPLE, clip=5.0))
    """λ, E, the meta-episodes and the interval of evaluations follow from the values above."""


QUICK = {
    "agents": 2,
    "lams": [0.5, 0.9, 0.99],
    "sizes": [8, 64, 256],
    "mini_episodes": 2048,
    "unclipped": [[0.9, 64], [0.5, 256]],
    "training": {"decay_episodes": 1024},
}


class Key(NamedTuple):
    lam: float
    size: int
    clipped: bool


def jobs(cfg: Config) -> dict[Key, Job]:
    """Return a run for each pair of λ and E, then the runs without the clip."""
    keys = [Key(float(lam), size, True) for lam, size in product(cfg.lams, cfg.sizes)]
    keys += [Key(float(lam), size, False) for lam, size in cfg.unclipped]
    if wrong := [key.size for key in keys if key.size < 1 or cfg.mini_episodes % key.size]:
        raise ConfigError(f"study.sizes with {wrong[0]}; expected divisors of mini_episodes={cfg.mini_episodes}")
    runs = {}
    for key in keys:
        label = f"lambda={key.lam:g}-E={key.size}{'' if key.clipped else '-unclipped'}"
        of: dict[str, Any] = {"world": cfg.world, "clock": "moves", "reward": "drest", "evaluated_on": CLOCKS}
        metas, clip = cfg.mini_episodes // key.size, cfg.training.clip if key.clipped else None
        of |= {"lam": key.lam, "episodes_per_meta": key.size, "meta_episodes": metas, "evaluate_every": metas}
        runs[key] = tables_job(cfg, label, clip=clip, **of)
    return runs


# --------------------------------------------------------------------------------------- measurement


def corner(means: pd.DataFrame, lams: slice, sizes: slice) -> tuple[float, float]:
    """Return the mean of a corner of a table [λ, E], both ascending, and that of all other pairs."""
    table, inside = means.to_numpy(), means.to_numpy()[lams, sizes]
    return inside.mean(), (table.sum() - inside.sum()) / (table.size - inside.size)


# ------------------------------------------------------------------------------------------ the report

PAIR = ["lam", "size"]


def report(cfg: Config, done: Done) -> Report:
    ends = at_the_end(done)
    rows = ends.assign(clock=ends.clocks.str.split(" / ").str[1]).melt([*Key._fields, "clock"], [*MEASURES], "metric")
    agents = one_value_each(rows).pivot_table("value", ["clipped", "clock", *PAIR, "seed"], "metric")
    clipped = {clock: agents.loc[True, clock] for clock in CLOCKS}
    means = {clock: each.groupby(PAIR).mean() for clock, each in clipped.items()}
    shown = {f"{metric}, {clock}": (clock, metric) for clock, metric in product(CLOCKS, MEASURES)}
    return Report(
        rows,
        lambda: quotes(means, agents.loc[False, "moves"]),
        {name: partial(grid, clipped, *of) for name, of in shown.items()},
        {name: partial(against_size, clipped, *of) for name, of in shown.items()},
        lambda: sentences(means, agents.loc[False, "moves"]),
    )


def corners(means: dict[str, pd.DataFrame]) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the mean of each corner and of the rest, by corner and clock."""
    return {
        name: {clock: corner(each[metric].unstack(), *large) for clock, each in means.items()}
        for name, (metric, *large) in CORNERS.items()
    }


def sweet_spot(means: pd.DataFrame) -> pd.Series:
    return means.reindex([SWEET_SPOT]).iloc[0]


def collapsed(unclipped: pd.DataFrame) -> pd.Series:
    return unclipped.lt(pd.Series(COLLAPSED)).any(axis=1)


def sentences(means: dict[str, pd.DataFrame], unclipped: pd.DataFrame) -> dict[str, Any]:
    """Return what the page says; agents without a clip are evaluated on moves."""
    good = {clock: each.ge(pd.Series(GOOD[clock])).all(axis=1) for clock, each in means.items()}
    pairs, usefulness = collapsed(unclipped).groupby(PAIR).any(), unclipped.usefulness.groupby(PAIR).mean()
    sides, spots = corners(means), {clock: sweet_spot(each) for clock, each in means.items()}
    claims = [
        *(all(inside < outside for inside, outside in each.values()) for each in sides.values()),
        all((spot >= pd.Series(GOOD[clock])).all() for clock, spot in spots.items()),
    ]
    return {
        "claims": claims,
        "sides": sides,
        "spots": spots,
        "good": good,
        "highest": {clock: each.usefulness.max() for clock, each in means.items()},
        "pairs": pairs,
        "stable": [pair_name(pair) for pair in pairs[~pairs].index],
        "worst": (pair_name(usefulness.idxmin()), usefulness.min()),
    }


def quotes(means: dict[str, pd.DataFrame], unclipped: pd.DataFrame) -> list[Quote]:
    said = []
    for name, sides in corners(means).items():
        letter, (a, b), (c, d) = CORNERS[name][0][0].upper(), sides["steps"], sides["moves"]
        measured = f"{letter} {a:.3f}, elsewhere {b:.3f}; evaluated on moves {c:.3f} and {d:.3f}"
        said.append(Quote(f"{name}, corner of the table", f"low {letter}", measured))
    (n, u), (high_n, high_u) = sweet_spot(means["steps"]), means["steps"].max()
    measured = f"N {n:.3f}, U {u:.3f}; highest of all {high_n:.3f} and {high_u:.3f}"
    said.append(Quote("λ = 0.9 and E = 64", "both high", measured))
    gone = collapsed(unclipped)
    measured = f"{gone.sum()} of {len(gone)} agents collapse in {gone.groupby(PAIR).ngroups} pairs of λ and E"
    return [*said, Quote("the same without the clip", "especially unstable", measured)]


def pair_name(pair: Any) -> str:
    return f"λ = {pair[0]:g}, E = {pair[1]}"


def grid(clipped: dict[str, pd.DataFrame], clock: str, metric: str) -> Table:
    """Return the table of means for λ × E."""
    good = GOOD[clock][metric]
    cells = clipped[clock][metric].groupby(PAIR).agg(marked(good, good - FAIR)).unstack(fill_value=MISSING)
    cells.index = [f"{lam:g}" for lam in cells.index]
    return as_table(cells, f"Mean {MEASURES[metric]}, evaluated on {clock}", ["λ ↓ E →", *map(str, cells.columns)])


def against_size(clipped: dict[str, pd.DataFrame], clock: str, metric: str) -> Plot:
    """Plot means and percentiles against E, with a line for each λ."""
    values = clipped[clock][metric].unstack("seed")
    lines = [
        Line(f"λ = {lam:g}", each.index.get_level_values("size"), each.to_numpy(), colour)
        for (lam, each), colour in zip(values.groupby("lam"), cycle(PALETTE), strict=False)
    ]
    title = f"{MEASURES[metric]}, evaluated on {clock}"
    return lines_plot(lines, title=title, xlabel="E, mini-episodes of a meta-episode", log="x")
