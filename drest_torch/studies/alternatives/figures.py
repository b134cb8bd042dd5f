"""Figures and tables of the study of alternatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import (
    RANGE,
    SEEDS_AND_LEVELS,
    Curve,
    Dots,
    curve_figure,
    curves_of,
    dot_figure,
)
from drest_torch.report.tables import MISSING, difference_text, mean_range, table_of
from drest_torch.statistics.intervals import Interval
from drest_torch.studies.alternatives.measured import ALWAYS, SHORT

FAMILIES = {
    "DReST": "drest",
    "pays for both": "green",
    "constraint": "pink",
    "price": "violet",
    "default": "default",
}
"""The colour of each family of objectives."""
OWN_COLOURS = {"DReST": "drest", "default ÷ m": "default"}
PROFILE_COLOURS = ("green", "pink", "violet", "brown")
"""Colours in performance profiles of objectives that `OWN_COLOURS` does not name."""
MARKERS = "osD^v"
"""Markers of the objectives of a family, in their order."""
CORNER = 0.8
"""The least usefulness and neutrality in the enlarged figure."""
NEAR = 0.1
"""The largest difference from DReST in the enlarged figure."""


def of_part(rows: pd.DataFrame, part: str) -> pd.DataFrame:
    """Return the rows of a part."""
    return rows[rows.part == part]


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of agents at the compared strengths."""
    end = of_part(rows, "end")
    return end[end.compared.astype(bool)]


def by_strength(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean usefulness and neutrality over seeds for each strength of each objective."""
    end = of_part(rows, "end")
    plain = end[~end.bit.astype(bool)]
    groups = plain.groupby(["family", "objective", "strength"], sort=False, dropna=False)
    return groups[["usefulness", "neutrality"]].mean().reset_index()


def looks(rows: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the colour and the marker of each objective."""
    objectives = by_strength(rows).drop_duplicates("objective")
    styles: dict[str, tuple[str, str]] = {}
    for family, titles in objectives.groupby("family", sort=False).objective:
        styles |= {title: (FAMILIES[family], marker) for title, marker in zip(titles, MARKERS, strict=False)}
    return styles


def frontier(rows: pd.DataFrame, least: float, title: str) -> Plot:
    """Plot usefulness against neutrality above ``least``, with a curve over strengths for each objective."""
    curves = []
    points = by_strength(rows)
    for objective, (colour, marker) in looks(rows).items():
        curve = points[points.objective == objective].sort_values("strength")
        inside = curve[curve[["usefulness", "neutrality"]].min(axis=1) >= least]
        if len(inside):
            curves.append(Curve(objective, inside.neutrality, inside.usefulness, colour, f"-{marker}"))
    caption = "Means over levels and seeds. A curve joins the strengths of one objective, in their order."
    return curve_figure(
        curves,
        title=title,
        xlabel="neutrality, bits",
        ylabel="usefulness",
        limits=(least - 0.02, 1.01),
        caption=caption,
    )


def comparison(rows: pd.DataFrame, within: float, title: str) -> Plot:
    """Plot the differences from DReST of at most ``within``, with their intervals."""
    differences = of_part(rows, "comparison")
    near = differences[differences.apart.abs() <= within]
    values = {row.label: Interval(row.apart, row.low, row.high) for row in near.itertuples()}
    ends = near[["apart", "low", "high"]].to_numpy(float)
    return dot_figure(
        [Dots("alternative", values, SEEDS_AND_LEVELS, "text")],
        title=title,
        xlabel="(U + N) / 2, less DReST's",
        ylabel="objective",
        lines={0.0: "DReST"},
        limits=(min(np.nanmin(ends), 0.0), max(np.nanmax(ends), 0.0)),
        caption="Differences are paired by seed and level. The intervals are not corrected for one another.",
    )


def profile(rows: pd.DataFrame, families: Sequence[str], title: str) -> Plot:
    """Plot the performance profiles of the objectives of these families."""
    points = of_part(rows, "profile")
    points = points[points.family.isin(families)]
    labels = dict(zip(points.objective, points.label, strict=True))
    free_colours = iter(PROFILE_COLOURS)
    colours = {title: OWN_COLOURS.get(title) or next(free_colours) for title in labels}
    curves = curves_of(points, x="tau", y="share", by="objective", spread=RANGE, colours=colours, labels=labels)
    return curve_figure(curves, title=title, xlabel="τ, bits", ylabel="levels with N ≥ τ, share")


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "frontier": partial(frontier, least=0.0, title="Unseen levels"),
    "frontier_enlarged": partial(frontier, least=CORNER, title="Unseen levels, enlarged"),
    "comparison": partial(comparison, within=1.0, title="All objectives, unseen levels"),
    "comparison_near": partial(comparison, within=NEAR, title="Objectives near DReST, unseen levels"),
    "profile_both": partial(profile, families=("DReST", "pays for both"), title="Objectives that pay for both"),
    "profile_constraint": partial(profile, families=("DReST", "constraint"), title="Constraints"),
    "profile_price": partial(profile, families=("DReST", "price", "default"), title="Prices on divergence"),
}

# -------------------------------------------------------------------------------------------- tables

SPREAD = "The mean, the lowest and the highest seed."


def comparison_table(rows: pd.DataFrame) -> Table:
    """Return the table of each objective's usefulness and neutrality, with its difference from DReST."""
    cells = _cells(compared(rows), {"usefulness": "usefulness", "neutrality": "neutrality (bits)"})
    differences = of_part(rows, "comparison").set_index("label")
    cells["(U + N) / 2, less DReST's"] = [_difference(differences, label) for label in cells.index]
    cells["p"] = [_p_value(differences, label) for label in cells.index]
    note = (
        f"{SPREAD} Differences have 95 % intervals over seeds and levels, not corrected for one another; the p values "
        "are corrected after Holm for all comparisons."
    )
    return table_of(cells, "At the strength that is compared, unseen levels", first="objective", note=note)


def _cells(chosen: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    means = chosen.groupby("label", sort=False)[[*columns]].agg(mean_range)
    return means.rename(columns=columns)


def _difference(differences: pd.DataFrame, label: str) -> str:
    if label not in differences.index:
        return MISSING
    row = differences.loc[label]
    if np.isnan(row.low):
        return f"{row.apart:+.3f}"
    return difference_text(row.apart, row.low, row.high)


def _p_value(differences: pd.DataFrame, label: str) -> str:
    if label not in differences.index or np.isnan(differences.p[label]):
        return MISSING
    p = differences.p[label]
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def bounds_table(rows: pd.DataFrame) -> Table:
    """Return the table of violations of the constraints' bounds, on training and on unseen levels."""
    constrained = compared(rows).dropna(subset=["missed"])
    heads = {"missed": "misses its bound by, unseen levels", "missed_training": "by, training levels"}
    note = (
        f"{SPREAD} A bound is one on the mean over the training levels; that on P(l) is in parts of 1/k. "
        "The number is 0 where an agent meets its bound."
    )
    return table_of(_cells(constrained, heads), "Constraints and their bounds", first="objective", note=note)


def levels_table(rows: pd.DataFrame) -> Table:
    """Return the table of the shares of levels that are far from neutral, which means hide."""
    heads = {
        "short": f"neutrality below {SHORT:g}",
        "always": f"one length at least {ALWAYS:.0%}",
        "p_longer": "P(longer), mean",
    }
    cells = _cells(compared(rows), heads)
    return table_of(cells, "Shares of unseen levels", first="objective", note=SPREAD)


def bits_table(rows: pd.DataFrame) -> Table:
    """Return the table of agents with a private bit and without."""
    end = of_part(rows, "end")
    with_bit = end[end.bit.astype(bool)].assign(label=lambda f: f.label + ", a private bit")
    without = compared(rows)
    without = without[without.objective.isin(with_bit.objective.unique())]
    heads = {
        "usefulness": "usefulness",
        "neutrality": "neutrality (bits)",
        "given_bit": "neutrality given the bit (bits)",
    }
    cells = _cells(pd.concat([without, with_bit]), heads)
    return table_of(cells, "With and without a private bit, unseen levels", first="objective", note=SPREAD)


TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {
    "found": comparison_table,
    "bounds": bounds_table,
    "levels": levels_table,
    "bits": bits_table,
}
