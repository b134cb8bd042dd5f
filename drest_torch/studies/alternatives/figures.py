"""Figures of the bench."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from drest_torch.report.blocks import Plot
from drest_torch.report.figures import (
    RANGE,
    SEEDS_AND_LEVELS,
    Curve,
    Dots,
    curve_figure,
    curves_of,
    dot_figure,
)
from drest_torch.report.plots import COLOURS
from drest_torch.report.themes import Style
from drest_torch.statistics.intervals import Interval

FAMILIES = {
    "DReST": "drest",
    "pays for both": "green",
    "constraint": "pink",
    "price": "violet",
    "default": "default",
    "corrigibility": "brown",
    "lengths left open": "muted",
    "your own": "text",
}
"""The colour of each family of methods."""
MARKERS = "osD^vP"
"""Markers of the methods of a family, in their order."""
CORNER = 0.8
"""The least usefulness and neutrality in the enlarged figure."""
NEAR = 0.1
"""The largest difference from DReST in the enlarged figure."""
WORDS = {
    "usefulness": "usefulness",
    "neutrality": "neutrality, bits",
    "returned": "coins ÷ default's",
    "paid": "gives up to press",
    "paid_reversed": "gives up not to press",
    "hidden_neutrality": "N, clock hidden",
    "hidden_usefulness": "U, clock hidden",
    "fixed_shortest": "U, fixed shortest",
    "fixed_longest": "U, fixed longest",
    "changed_usefulness": "U, changed levels",
    "worst_usefulness": "U, worst change",
    "changed_neutrality": "N, changed levels",
    "worst_neutrality": "N, worst change",
    "time": "share of training",
}
"""Short names of measures."""
ROW, NAMES, PANEL = 0.21, 0.088, 1.75
"""Sizes of a figure with panels, in inches: the height of a row, the width of a letter of a name, and of a panel."""


def of_part(rows: pd.DataFrame, part: str) -> pd.DataFrame:
    """Return the rows of a part; raise LookupError if there are none."""
    chosen = rows[rows.part == part]
    if chosen.empty:
        raise LookupError(f"no rows of the part {part}")
    return chosen


def looks(rows: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return the colour and the marker of each method, by title."""
    identities = rows[["family", "title"]].drop_duplicates()
    chosen = {}
    for family, titles in identities.groupby("family", sort=False).title:
        for title, marker in zip(titles, MARKERS, strict=False):
            chosen[title] = (FAMILIES[family], marker)
    return chosen


# -------------------------------------------------------------------------------------------- panels


def panels(rows: pd.DataFrame, measures: Sequence[str], title: str) -> Plot:
    """Plot measures in panels side by side, with a row for each method and a dot for its mean over seeds."""
    end = of_part(rows, "end")
    labels = [*dict.fromkeys(end.label)]
    colours = dict(zip(end.label, end.family.map(FAMILIES), strict=True))
    intervals = {measure: _ranges(end, measure) for measure in measures}

    def draw(figure: Figure, style: Style) -> None:
        axes = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        for ax, measure in zip(axes, measures, strict=True):
            for label, interval in intervals[measure].items():
                colour, place = COLOURS[colours[label]](style), labels.index(label)
                ax.plot((interval.low, interval.high), (place, place), color=colour)
                ax.plot(interval.estimate, place, RANGE.marker, color=colour, markersize=4)
            ax.set_xlabel(WORDS[measure])
            ax.set_xlim(-0.05, 1.05)
        axes[0].set_yticks(range(len(labels)), labels, parse_math=False)
        axes[0].set_ylim(len(labels) - 0.5, -0.5)
        axes[0].set_title(title, loc="left", parse_math=False)
        handle = Line2D([], [], color=style.muted, marker=RANGE.marker, markersize=4, label=RANGE.meaning)
        figure.legend(handles=[handle], loc="outside lower left")

    size = (NAMES * max(map(len, labels)) + PANEL * len(measures), ROW * len(labels) + 1.3)
    alt = "; ".join(_in_words(measure, intervals[measure]) for measure in measures)
    return Plot(f"{title}: a row for each of {', '.join(labels)}. {alt}.", "", draw, size)


def _ranges(end: pd.DataFrame, measure: str) -> dict[str, Interval]:
    """Return the mean, the lowest and the highest seed of each method that has this measure."""
    ranges = {}
    for label, values in end.groupby("label", sort=False)[measure]:
        numbers = values.dropna().to_numpy(float)
        if len(numbers):
            ranges[str(label)] = RANGE.compute(numbers)
    return ranges


def _in_words(measure: str, intervals: Mapping[str, Interval]) -> str:
    if not intervals:
        return f"{WORDS[measure]}: none"
    means = [interval.estimate for interval in intervals.values()]
    return f"{WORDS[measure]} from {min(means):.2f} to {max(means):.2f}"


# -------------------------------------------------------------------------------------------- curves


def frontier(rows: pd.DataFrame, least: float, title: str) -> Plot:
    """Plot usefulness against neutrality above ``least``, with a curve over strengths for each method."""
    curves = []
    points = of_part(rows, "strength")
    for name, (colour, marker) in looks(points).items():
        curve = points[points.title == name].sort_values("strength")
        inside = curve[curve[["usefulness", "neutrality"]].min(axis=1) >= least]
        if len(inside):
            curves.append(Curve(name, inside.neutrality, inside.usefulness, colour, f"-{marker}"))
    return curve_figure(
        curves,
        title=title,
        xlabel="neutrality, bits",
        ylabel="usefulness",
        limits=(least - 0.02, 1.01),
        caption="Means over levels, one seed. A curve joins the strengths of one method, in their order.",
    )


def comparison(rows: pd.DataFrame, within: float, title: str) -> Plot:
    """Plot the differences from DReST of at most ``within``, with their intervals."""
    differences = of_part(rows, "comparison")
    near = differences[differences.y.abs() <= within]
    values = {row.label: Interval(row.y, row.low, row.high) for row in near.itertuples()}
    ends = near[["y", "low", "high"]].to_numpy(float)
    return dot_figure(
        [Dots("method", values, SEEDS_AND_LEVELS, "text")],
        title=title,
        xlabel="(U + N) / 2, less DReST's",
        ylabel="method",
        lines={0.0: "DReST"},
        limits=(min(np.nanmin(ends), 0.0), max(np.nanmax(ends), 0.0)),
        caption="Differences are paired by seed and level. The intervals are not corrected for one another.",
    )


CURVES = {
    "profile": ("τ, bits", "levels with N ≥ τ, share"),
    "training": ("share of training", "usefulness, selection levels"),
    "price": ("price of pressing, as a share of the coins", "P(press)"),
    "erosion": ("further updates with the default reward", "neutrality, bits"),
    "asking": ("price of asking, as a share of the score", "P(asking)"),
}
"""The labels of the axes of curves, by part."""
COMPARED = ("default", "drest")
"""Methods that are in every figure with curves."""


def curves(rows: pd.DataFrame, part: str, families: Sequence[str], title: str) -> Plot:
    """Plot the curves of the methods of these families, and of DReST and default agents."""
    points = of_part(rows, part)
    points = points[points.family.isin(families) | points.method.isin(COMPARED)]
    free_colours = iter(("green", "pink", "violet", "brown", "text", "muted"))
    chosen = {"DReST": "drest", "default": "default"}
    for name in dict.fromkeys(points.title):
        chosen.setdefault(name, next(free_colours, "muted"))
    lines = curves_of(points, x="x", y="y", by="title", spread=RANGE, colours=chosen)
    xlabel, ylabel = CURVES[part]
    return curve_figure(lines, title=title, xlabel=xlabel, ylabel=ylabel)


BOTH, BOUND, PRICE, RIVALS = ("pays for both",), ("constraint",), ("price", "lengths left open"), ("corrigibility",)
GROUPS = {
    "both": (BOTH, "Methods that pay for both"),
    "bound": (BOUND, "Constraints"),
    "divergence": (PRICE, "Prices on divergence, Neutrality+"),
    "rivals": (RIVALS, "Corrigibility and myopia"),
}
"""Families of methods that share a figure, with their titles."""

FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    "questions": partial(panels, measures=("usefulness", "neutrality", "returned"), title="Unseen levels"),
    "prices": partial(panels, measures=("paid", "paid_reversed", "time"), title="Price ladder, and training time"),
    "clock": partial(
        panels, measures=("hidden_neutrality", "fixed_shortest", "fixed_longest"), title="Hidden and announced"
    ),
    "changes": partial(
        panels, measures=("changed_usefulness", "changed_neutrality", "worst_neutrality"), title="Single changes"
    ),
    "frontier": partial(frontier, least=0.0, title="Selection levels"),
    "frontier_enlarged": partial(frontier, least=CORNER, title="Selection levels, enlarged"),
    "comparison": partial(comparison, within=1.0, title="All methods, unseen levels"),
    "comparison_near": partial(comparison, within=NEAR, title="Methods near DReST, unseen levels"),
    "erosion": partial(curves, part="erosion", families=(*BOTH, *BOUND), title="Unseen levels"),
}
for name, (families, title) in GROUPS.items():
    FIGURES[f"price_{name}"] = partial(curves, part="price", families=families, title=title)
    FIGURES[f"asking_{name}"] = partial(curves, part="asking", families=families, title=f"{title}, in prompts")
    FIGURES[f"profile_{name}"] = partial(curves, part="profile", families=families, title=title)
    FIGURES[f"training_{name}"] = partial(curves, part="training", families=families, title=title)
