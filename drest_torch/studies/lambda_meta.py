"""Neutrality and usefulness by λ and E, with clipped rewards (Figure 7 of the paper)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pandas as pd

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.tabular_job import TabularTraining, last
from drest_torch.limits import limited
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import AGENTS, curve_figure, curves_of
from drest_torch.report.tables import MISSING, PAPER, count, marked, table_of
from drest_torch.studies.engine import StudyConfig, value
from drest_torch.studies.shapes import falls, rises
from drest_torch.studies.shared import EXAMPLE, tables_job, title

WORLD = "example"
CLOCKS = ("steps", "moves")
"""Clocks of evaluation; all agents are trained on moves."""
CLOCK_NAMES = {"steps": "every step counts", "moves": "moves count"}
MEASURES = {"neutrality": "neutrality (bits)", "usefulness": "usefulness"}
SWEET_SPOT = (0.9, 64)
"""λ and E of the paper's other experiments."""
PAPER_SWEET_SPOT = "N 0.9945, U 0.900"
"""The result of the agents in the paper's Figure 3, which have this λ and E, without the clip."""
GOOD = {"steps": {"neutrality": 0.99, "usefulness": 0.85}, "moves": {"neutrality": 0.99, "usefulness": 0.99}}
"""The smallest values that count as high, by clock of evaluation. The paper's largest usefulness is 0.94."""
FAIR = 0.1
"""The distance below a high value that still counts as fair."""
COLLAPSED = {"neutrality": 0.1, "usefulness": 0.5}
"""The values below which an agent has collapsed."""
BETWEEN = (0.1, 0.9)
"""The range of neutrality in which an agent is neither neutral nor always takes the same length."""
CORNER = 2
"""The number of values of λ, and of E, in a corner of the table."""
WEAK, STRONG = "small E and large λ", "large E and small λ"
"""The corners of the table in which the incentive to be neutral is the weakest and the strongest."""


@dataclass
class Config(StudyConfig):
    agents: int = limited(at_least=1, default=8)
    """Agents for each pair of λ and E."""
    lams: list[float] = value([0.5, 0.75, 0.9, 0.95, 0.99])
    """Values of λ."""
    sizes: list[int] = value([8, 16, 32, 64, 128, 256, 512, 1024])
    """Values of E."""
    mini_episodes: int = 131072
    """Mini-episodes of each agent: a multiple of every E."""
    unclipped: list[Any] = value(
        [[0.5, 8], [0.9, 64], [0.99, 1024], [0.75, 64], [0.5, 64], [0.9, 1024], [0.5, 1024]],
    )
    """Pairs of λ and E that are also trained without the clip. Each takes minutes if agents collapse."""
    training: TabularTraining = value(replace(EXAMPLE, clip=5.0))
    """The training; λ, E, the meta-episodes and the interval of evaluations follow from the values above."""


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
        label = f"lambda={key.lam:g}-E={key.size}"
        clip = cfg.training.clip
        if not key.clipped:
            label, clip = f"{label}-unclipped", None
        metas = cfg.mini_episodes // key.size
        training: dict[str, Any] = {"lam": key.lam, "episodes_per_meta": key.size, "meta_episodes": metas}
        training |= {"world": WORLD, "reward": "drest", "clip": clip}
        training |= {"evaluate_every": metas, "evaluated_on": CLOCKS}
        runs[key] = tables_job(cfg, label, clock="moves", **training)
    return runs


# ---------------------------------------------------------------------------------------------- rows


def rows(cfg: Config, done: Mapping[Key, Result]) -> pd.DataFrame:
    """Return a row for each agent and clock of evaluation, at the end of training."""
    parts = []
    for key, result in done.items():
        for clock in CLOCKS:
            ends = {metric: last(result, clock, metric).round(5) for metric in MEASURES}
            agents = pd.DataFrame({**key._asdict(), "clock": clock, **ends})
            parts.append(agents.rename_axis("seed").reset_index())
    return pd.concat(parts, ignore_index=True)


def agents_of(rows: pd.DataFrame, *, clock: str, clipped: bool = True) -> pd.DataFrame:
    """Return the rows of agents with or without the clip, evaluated on this clock."""
    return rows[(rows.clipped == clipped) & (rows.clock == clock)]


def means(rows: pd.DataFrame, clock: str, metric: str) -> pd.DataFrame:
    """Return the mean of agents with the clip for each λ (index) and E (columns), both ascending."""
    return agents_of(rows, clock=clock).pivot_table(metric, "lam", "size")


def corner(table: pd.DataFrame, name: str) -> tuple[float, float]:
    """Return the mean of a corner of a table [λ, E], and the mean of all other pairs."""
    corners = {WEAK: (slice(-CORNER, None), slice(CORNER)), STRONG: (slice(CORNER), slice(-CORNER, None))}
    values = table.to_numpy()
    inside = values[corners[name]]
    return float(inside.mean()), float((values.sum() - inside.sum()) / (values.size - inside.size))


def sweet_spot(rows: pd.DataFrame, clock: str) -> pd.Series:
    """Return the means of both measures at the paper's λ and E."""
    agents = agents_of(rows, clock=clock)
    return agents[(agents.lam == SWEET_SPOT[0]) & (agents["size"] == SWEET_SPOT[1])][[*MEASURES]].mean()


def collapsed(agents: pd.DataFrame) -> pd.Series:
    """Return for each agent whether it has collapsed, by λ and E."""
    has_collapsed = agents[[*COLLAPSED]].lt(pd.Series(COLLAPSED)).any(axis=1)
    return pd.Series(has_collapsed.to_numpy(), index=pd.MultiIndex.from_frame(agents[["lam", "size"]]))


def twins(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return which agents have collapsed without the clip and with it, for the same pairs of λ and E."""
    without = collapsed(agents_of(rows, clock="moves", clipped=False))
    clipped = collapsed(agents_of(rows, clock="moves"))
    return without, clipped[clipped.index.isin(without.index)]


# -------------------------------------------------------------------------------------------- claims


def weak_incentive_costs_neutrality(rows: pd.DataFrame) -> bool:
    """Return whether neutrality is lower with small E and large λ than elsewhere, on both clocks."""
    return all(inside < rest for inside, rest in _corners(rows, "neutrality", WEAK).values())


def strong_incentive_costs_usefulness(rows: pd.DataFrame) -> bool:
    """Return whether usefulness is lower with large E and small λ than elsewhere, on both clocks."""
    return all(inside < rest for inside, rest in _corners(rows, "usefulness", STRONG).values())


def sweet_spot_is_high(rows: pd.DataFrame) -> bool:
    """Return whether neutrality and usefulness are high at the paper's λ and E, on both clocks."""
    return all((sweet_spot(rows, clock) >= pd.Series(GOOD[clock])).all() for clock in CLOCKS)


def neutrality_rises_at_large_lambda(rows: pd.DataFrame) -> bool:
    """Return whether neutrality at the largest λ rises in E up to the best E."""
    curve = means(rows, "moves", "neutrality").iloc[-1]
    return rises(curve.loc[: curve.idxmax()])


def usefulness_falls_at_small_lambda(rows: pd.DataFrame) -> bool:
    """Return whether usefulness at the smallest λ falls in E from E = 64 on."""
    return falls(means(rows, "moves", "usefulness").iloc[0].loc[64:])


def between(rows: pd.DataFrame) -> pd.Series:
    """Return for each agent with a weak incentive whether it is neither neutral nor always takes the same length."""
    agents = agents_of(rows, clock="moves")
    large_lams = sorted(agents.lam.unique())[-CORNER:]
    weak = agents[agents.lam.isin(large_lams) & (agents["size"] <= SWEET_SPOT[1])]
    return weak.neutrality.between(*BETWEEN)


CLAIMS: dict[str, Callable[[pd.DataFrame], bool]] = {
    "Small E and large λ score low on neutrality, as in the paper: {weak_n} in this corner of the table, {weak_rest} "
    "elsewhere.": weak_incentive_costs_neutrality,
    "Large E and small λ cost usefulness, as in the paper: {strong_u} in this corner, {strong_rest} elsewhere.": (
        strong_incentive_costs_usefulness
    ),
    "λ = 0.9 and E = 64 is a sweet spot, as in the paper: neutrality {spot_n}, usefulness {spot_u}.": (
        sweet_spot_is_high
    ),
    "With the largest λ, 0.99, neutrality rises in E without a break, up to E = {best_size}.": (
        neutrality_rises_at_large_lambda
    ),
    "With the smallest λ, 0.5, usefulness falls in E from E = 64 on.": usefulness_falls_at_small_lambda,
    "Usefulness is lower in every cell when the same agents are evaluated on the clock that counts every step: bumps "
    "into walls cost time there.": (
        lambda rows: bool((means(rows, "steps", "usefulness") < means(rows, "moves", "usefulness")).all(axis=None))
    ),
    "Where the incentive is weak, nearly every agent is neutral or always takes the same length: with the two largest "
    "values of λ and E of up to 64, {between} agents have a neutrality between 0.1 and 0.9.": (
        lambda rows: between(rows).mean() < 0.1
    ),
    "Without the clip training is unstable, as in the paper: {gone} agents collapse, against {gone_clipped} with the "
    "clip and the same λ and E.": lambda rows: twins(rows)[0].mean() > twins(rows)[1].mean(),
}


def _corners(rows: pd.DataFrame, metric: str, name: str) -> dict[str, tuple[float, float]]:
    return {clock: corner(means(rows, clock, metric), name) for clock in CLOCKS}


# ------------------------------------------------------------------------------------------- numbers


def stable(rows: pd.DataFrame) -> str:
    """Return the pairs of λ and E in which no agent collapses without the clip."""
    without, _ = twins(rows)
    gone = without.groupby(level=[0, 1], sort=False).any()
    return "; ".join(f"λ = {lam:g}, E = {size}" for lam, size in gone[~gone].index) or "none"


def good_cells(rows: pd.DataFrame, clock: str) -> str:
    """Return the number of cells in which both measures are high: ``3 of 40``."""
    high = [means(rows, clock, metric) >= least for metric, least in GOOD[clock].items()]
    return count((high[0] & high[1]).to_numpy().ravel())


NUMBERS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "weak_n": lambda rows: f"{_corners(rows, 'neutrality', WEAK)['steps'][0]:.3f}",
    "weak_rest": lambda rows: f"{_corners(rows, 'neutrality', WEAK)['steps'][1]:.3f}",
    "strong_u": lambda rows: f"{_corners(rows, 'usefulness', STRONG)['steps'][0]:.3f}",
    "strong_rest": lambda rows: f"{_corners(rows, 'usefulness', STRONG)['steps'][1]:.3f}",
    "spot_n": lambda rows: f"{sweet_spot(rows, 'steps').neutrality:.3f}",
    "spot_u": lambda rows: f"{sweet_spot(rows, 'steps').usefulness:.3f}",
    "best_size": lambda rows: means(rows, "moves", "neutrality").iloc[-1].idxmax(),
    "gone": lambda rows: count(twins(rows)[0]),
    "gone_clipped": lambda rows: count(twins(rows)[1]),
    "gone_pairs": lambda rows: count(twins(rows)[0].groupby(level=[0, 1]).any()),
    "stable": stable,
    "good_steps": partial(good_cells, clock="steps"),
    "good_moves": partial(good_cells, clock="moves"),
    "between": lambda rows: count(between(rows)),
    "agents": lambda rows: agents_of(rows, clock="moves").groupby(["lam", "size"]).size().max(),
}


# -------------------------------------------------------------------------------- figures and tables


def against_size(rows: pd.DataFrame, clock: str, metric: str) -> Plot:
    """Plot a measure against E, with a curve for each λ."""
    agents = agents_of(rows, clock=clock)
    labels = {lam: f"λ = {lam:g}" for lam in agents.lam}
    curves = curves_of(agents, x="size", y=metric, by="lam", spread=AGENTS, labels=labels)
    return curve_figure(
        curves,
        title=f"{title(WORLD)}, {CLOCK_NAMES[clock]}",
        xlabel="E, mini-episodes of a meta-episode",
        ylabel=MEASURES[metric],
        log="x",
    )


def grid(rows: pd.DataFrame, clock: str, metric: str) -> Table:
    """Return the table of means, with a row for each λ and a column for each E."""
    good = GOOD[clock][metric]
    cells = means(rows, clock, metric).map(lambda value: marked(good, good - FAIR)(pd.Series([value])))
    cells.index = pd.Index([f"{lam:g}" for lam in cells.index])
    caption = f"Mean {MEASURES[metric]} where {CLOCK_NAMES[clock]}"
    return table_of(cells, caption, first="λ ↓ E →", note=f"✓ {good:g} or more, ◐ {good - FAIR:g} or more.")


def paper_table(rows: pd.DataFrame) -> Table:
    """Return the table of the paper's statements on Figure 7 next to our measurements, by clock of evaluation."""
    measured: dict[str, dict[str, str]] = {}
    for clock in CLOCKS:
        weak, weak_rest = corner(means(rows, clock, "neutrality"), WEAK)
        strong, strong_rest = corner(means(rows, clock, "usefulness"), STRONG)
        spot = sweet_spot(rows, clock)
        texts = {
            f"{WEAK}: neutrality": f"{weak:.3f} (elsewhere {weak_rest:.3f})",
            f"{STRONG}: usefulness": f"{strong:.3f} (elsewhere {strong_rest:.3f})",
            "λ = 0.9, E = 64": f"N {spot.neutrality:.3f}, U {spot.usefulness:.3f}",
        }
        measured[CLOCK_NAMES[clock]] = texts
    cells = pd.DataFrame(measured)
    cells.insert(1, PAPER, ["low", "some cost", f"both high; {PAPER_SWEET_SPOT} in Figure 3"])
    note = (
        f"A corner of the table is {CORNER} × {CORNER} pairs of λ and E. The paper prints Figure 7 without numbers; "
        "its text names the corners. Its figures show the clock on which every step counts."
    )
    return table_of(cells, "What the paper says of Figure 7", first="cells", note=note)


def unclipped_table(rows: pd.DataFrame) -> Table:
    """Return the table of the pairs that are trained without the clip, next to the same pairs with it."""
    columns = {}
    for name, clipped in ("without the clip", False), ("with the clip", True):
        agents = agents_of(rows, clock="moves", clipped=clipped)
        ends = agents.groupby(["lam", "size"])[[*MEASURES]].mean()
        gone = collapsed(agents).groupby(level=[0, 1]).agg(count)
        columns[f"collapsed {name}"] = gone
        columns[f"N, U {name}"] = ends.apply(lambda row: f"{row.neutrality:.3f}, {row.usefulness:.3f}", axis=1)
    cells = pd.DataFrame(columns).dropna(subset=["collapsed without the clip"]).fillna(MISSING)
    cells.index = pd.Index([f"{lam:g} / {size}" for lam, size in cells.index])
    note = (
        f"An agent has collapsed if its usefulness is below {COLLAPSED['usefulness']:g} or its neutrality below "
        f"{COLLAPSED['neutrality']:g}. Moves count."
    )
    return table_of(cells, "Training without the clip", first="λ / E", note=note)


_VIEWS = {f"{metric}_{clock}": {"clock": clock, "metric": metric} for clock, metric in product(CLOCKS, MEASURES)}
FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    name: partial(against_size, **view) for name, view in _VIEWS.items()
}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "paper": paper_table,
    **{name: partial(grid, **view) for name, view in _VIEWS.items()},
    "unclipped": unclipped_table,
}
