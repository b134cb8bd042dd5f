"""Figures of studies: curves, rows of dots and performance profiles, each with a legend that explains its marks.

A study makes a figure from its rows: `curves_of`, `dots_of` or `profile_of` groups them, `curve_figure` or `dot_figure`
plots the groups. A `Spread` is the interval or range around a value. Each kind of spread has its own mark, which the
legend explains, so that a range of seeds is not mistaken for a confidence interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS, PALETTE
from drest_torch.report.themes import Style
from drest_torch.statistics.intervals import Interval, t_interval

MOST_TICKS = 12
"""The maximum number of values with a tick of their own on a logarithmic axis."""
LEGEND_ROW, HANDLE, LETTER = 0.21, 0.55, 0.078
"""Sizes in a legend, in inches: the height of a row, and the widths of a mark and of a letter."""


@dataclass(frozen=True)
class Spread:
    """The interval or range around a value: its meaning in the legend, how it is computed, and its mark."""

    meaning: str
    compute: Callable[[np.ndarray], Interval]
    """A function from the values [n] at one point to the estimate and the two ends."""
    marker: str
    """The marker of the estimate."""
    end: str = ""
    """The marker at both ends of a dot's line; empty: no marker."""
    dashes: Any = "-"
    """The line style of a dot's line, and of the edges of a band."""
    fill: float = 0.0
    """Opacity of a band around a curve."""
    edge: float = 0.0
    """Width of the edges of a band."""


def _exact(values: np.ndarray) -> Interval:
    value = float(values.mean())
    return Interval(value, value, value)


def _range(values: np.ndarray) -> Interval:
    return Interval(float(values.mean()), float(values.min()), float(values.max()))


def _percentiles(values: np.ndarray) -> Interval:
    return Interval(float(values.mean()), *map(float, np.percentile(values, (10, 90))))


def _worst(values: np.ndarray) -> Interval:
    return Interval(float(values.mean()), float(values.min()), float(values.mean()))


EXACT = Spread("", _exact, "o")
"""No spread: the value is exact, or only its mean is shown."""
CONFIDENCE = Spread("mean, 95 % confidence interval", t_interval, "o", end="|", fill=0.22)
"""The spread for many independent values. For few seeds use `RANGE`, because a t interval covers too little if some
seeds collapse."""
SEEDS_AND_LEVELS = Spread("mean, 95 % bootstrap interval over seeds and levels", _exact, "o", end="|", fill=0.22)
"""The spread of rows with ``low`` and ``high`` from `drest_torch.statistics.bootstrap.over_seeds_and_levels`."""
RANGE = Spread("mean, lowest and highest seed", _range, "D", fill=0.10, edge=0.8)
AGENTS = Spread("mean, 10th to 90th percentile of agents", _percentiles, "s", dashes=(0, (1, 1)), fill=0.14, edge=0.8)
WORST_CASE = Spread("mean, and worst case", _worst, "o", end="v", dashes=(0, (4, 3)), edge=1.2)


# -------------------------------------------------------------------------------------------- curves


@dataclass(frozen=True)
class Curve:
    """A curve, or marks without a line, with their spread."""

    label: str
    """The meaning, for the legend."""
    x: Sequence[float] | np.ndarray
    """[X]"""
    y: Sequence[float] | np.ndarray
    """[X]"""
    colour: str = ""
    """A name of `drest_torch.report.plots.COLOURS`; empty: the next colour of the palette."""
    look: str = "-"
    """A line, marks, or both, in matplotlib's notation."""
    spread: Spread = EXACT
    low: Sequence[float] | np.ndarray | None = None
    """[X], the lower end of the spread; None: no spread."""
    high: Sequence[float] | np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.label.strip():
            raise ValueError("a curve needs a label: the legend says what it means")
        for name in ("x", "y"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), float))


def curves_of(
    rows: pd.DataFrame,
    *,
    x: str,
    y: str,
    by: str,
    spread: Spread,
    colours: Mapping[Any, str] | None = None,
    labels: Mapping[Any, str] | None = None,
    look: str = "-o",
) -> list[Curve]:
    """Return a curve for each value of the column ``by``, over the values of ``x``.

    Rows with the same ``x`` are seeds or agents, which ``spread`` summarises. Rows that already summarise many agents
    have the columns ``low`` and ``high`` besides ``y``.
    """
    curves = []
    for name, group in rows.groupby(by, sort=False):
        places = group.groupby(x)
        if "low" in rows and not group.low.isna().all():
            middle, low, high = (places[column].mean() for column in (y, "low", "high"))
        else:
            intervals = places[y].agg(lambda values: spread.compute(values.to_numpy(float)))
            middle = intervals.map(lambda interval: interval.estimate)
            low = intervals.map(lambda interval: interval.low)
            high = intervals.map(lambda interval: interval.high)
        curve = Curve(
            str((labels or {}).get(name, name)),
            middle.index.to_numpy(float),
            middle.to_numpy(float),
            (colours or {}).get(name, ""),
            look,
            spread,
            low.to_numpy(float),
            high.to_numpy(float),
        )
        curves.append(curve)
    return curves


def profile_of(
    rows: pd.DataFrame,
    *,
    value: str,
    by: str,
    spread: Spread,
    seed: str = "seed",
    colours: Mapping[Any, str] | None = None,
    labels: Mapping[Any, str] | None = None,
    points: int = 101,
) -> list[Curve]:
    """Return performance profiles: the share of levels whose value is at least τ, for τ from 0 to 1.

    Rows are levels. Rows with the same ``seed`` belong to one agent; ``spread`` summarises the agents.
    """
    thresholds = np.linspace(0, 1, points)
    shares = []
    for (name, agent), group in rows.groupby([by, seed], sort=False):
        values = np.sort(group[value].to_numpy(float))
        at_least = 1 - np.searchsorted(values, thresholds - 1e-9) / len(values)
        shares.append(pd.DataFrame({by: name, seed: agent, "tau": thresholds, "share": at_least}))
    return curves_of(
        pd.concat(shares), x="tau", y="share", by=by, spread=spread, colours=colours, labels=labels, look="-"
    )


def curve_figure(
    curves: Iterable[Curve],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    caption: str = "",
    log: str = "",
    limits: tuple[float, float] | None = (-0.03, 1.05),
    width: float = 4.8,
) -> Plot:
    """Plot curves; ``log`` holds the letters of the logarithmic axes, and ``limits`` are the limits of y.

    The axes are 2.9 inches high, and the legend stands below them.
    """
    curves = _coloured([*curves])
    if not curves:
        raise ValueError(f"the figure '{title}' has no curve")

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        for curve in curves:
            draw_curve(ax, curve, COLOURS[curve.colour](style))
        for axis in log:
            ax.set(**{f"{axis}scale": "log"})
        places = np.unique(np.concatenate([np.asarray(curve.x, float) for curve in curves]))
        if "x" in log and len(places) <= MOST_TICKS:
            ax.set_xticks(places, [f"{place:g}" for place in places])
            ax.minorticks_off()
        if limits is not None:
            ax.set_ylim(limits)
        ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
        draw_legend(figure, [handle_of(curve, style) for curve in curves], [curve.spread for curve in curves], style)

    lines = [curve for curve in curves if "-" in curve.look]
    ends = "; ".join(f"{curve.label} from {curve.y[0]:.3g} to {curve.y[-1]:.3g}" for curve in lines)
    size = (width, 2.9 + legend_height([curve.label for curve in curves], [curve.spread for curve in curves], width))
    return Plot(f"{title}: {ylabel} against {xlabel}. {ends}.", caption, draw, size)


def _coloured(curves: list[Curve]) -> list[Curve]:
    palette = cycle(PALETTE)
    return [curve if curve.colour else _with_colour(curve, next(palette)) for curve in curves]


def _with_colour(curve: Curve, colour: str) -> Curve:
    return Curve(curve.label, curve.x, curve.y, colour, curve.look, curve.spread, curve.low, curve.high)


def draw_curve(ax: Axes, curve: Curve, colour: str) -> None:
    """Draw a curve and its spread."""
    spread = curve.spread
    if curve.low is not None and curve.high is not None and spread is not EXACT:
        if spread.fill:
            ax.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=spread.fill, linewidth=0)
        if spread.edge:
            for end in (curve.low, curve.high):
                ax.plot(curve.x, end, color=colour, linewidth=spread.edge, linestyle=spread.dashes)
    ax.plot(curve.x, curve.y, curve.look, color=colour, markersize=4)


def handle_of(curve: Curve, style: Style) -> Line2D:
    """Return the mark of a curve in the legend."""
    handle = Line2D([], [], color=COLOURS[curve.colour](style), markersize=4, label=curve.label)
    handle.set_linestyle("-" if "-" in curve.look else "none")
    handle.set_marker(curve.look.replace("-", "") or "none")
    return handle


def draw_legend(
    figure: Figure, handles: list[Any], spreads: Iterable[Spread], style: Style, dots: bool = False
) -> None:
    """Put a legend below the figure, with an entry for each curve and each kind of spread."""
    for spread in _meanings(spreads).values():
        mark: Line2D | Patch
        if dots:
            mark = Line2D([], [], color=style.muted, marker=spread.marker, markersize=4, linestyle=spread.dashes)
        else:
            mark = Patch(
                facecolor=style.muted, alpha=0.5, edgecolor=style.muted, linestyle=spread.dashes, linewidth=spread.edge
            )
        mark.set_label(spread.meaning)
        handles.append(mark)
    columns = _columns([str(handle.get_label()) for handle in handles], figure.get_figwidth())
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, columnspacing=1.2)


def _meanings(spreads: Iterable[Spread]) -> dict[str, Spread]:
    return {spread.meaning: spread for spread in spreads if spread.meaning}


def _columns(labels: Sequence[str], width: float) -> int:
    """Return the largest number of columns in which a legend of these labels is at most ``width`` inches wide."""
    for columns in (4, 3, 2):
        height = math.ceil(len(labels) / columns)
        longest = [max(map(len, labels[start : start + height])) for start in range(0, len(labels), height)]
        if HANDLE * len(longest) + LETTER * sum(longest) <= width:
            return len(longest)
    return 1


def legend_height(labels: Iterable[str], spreads: Iterable[Spread], width: float) -> float:
    """Return the height in inches of a legend with these labels and an entry for each kind of spread."""
    labels = [*labels, *_meanings(spreads)]
    return LEGEND_ROW * math.ceil(len(labels) / _columns(labels, width))


# ---------------------------------------------------------------------------------------------- dots


@dataclass(frozen=True)
class Dots:
    """A series of dots: a value and its spread for each row."""

    label: str
    values: Mapping[str, Interval]
    spread: Spread
    colour: str = ""


def dots_of(
    rows: pd.DataFrame,
    *,
    row: str,
    value: str,
    by: str,
    spread: Spread,
    colours: Mapping[Any, str] | None = None,
    labels: Mapping[Any, str] | None = None,
) -> list[Dots]:
    """Return a series for each value of the column ``by``, with a dot for each value of ``row``."""
    series = []
    for name, group in rows.groupby(by, sort=False):
        places = group.groupby(row, sort=False)[value]
        values = {str(place): spread.compute(numbers.to_numpy(float)) for place, numbers in places}
        series.append(Dots(str((labels or {}).get(name, name)), values, spread, (colours or {}).get(name, "")))
    return series


def dot_figure(
    series: Sequence[Dots],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    caption: str = "",
    lines: Mapping[float, str] | None = None,
    limits: tuple[float, float] = (0.0, 1.0),
    log: bool = False,
) -> Plot:
    """Plot a row for each name with a dot for each series; ``lines`` maps vertical lines to their meanings."""
    names = list(dict.fromkeys(name for dots in series for name in dots.values))
    if not names:
        raise ValueError(f"the figure '{title}' has no dot")
    colours = [dots.colour or colour for dots, colour in zip(series, cycle(PALETTE), strict=False)]
    least, most = limits

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        handles = []
        for place, meaning in (lines or {}).items():
            ax.axvline(place, color=style.muted, linewidth=1, linestyle=(0, (4, 4)))
            handles.append(Line2D([], [], color=style.muted, linewidth=1, linestyle=(0, (4, 4)), label=meaning))
        for index, (dots, name) in enumerate(zip(series, colours, strict=True)):
            colour = COLOURS[name](style)
            offset = 0.17 * (index - (len(series) - 1) / 2)
            for row, interval in dots.values.items():
                _draw_dot(ax, interval, names.index(row) + offset, colour=colour, spread=dots.spread, limits=limits)
            handles.append(Line2D([], [], color=colour, marker=dots.spread.marker, markersize=4, label=dots.label))
        if log:
            ax.set_xscale("log")
        margin = 0.0 if log else 0.03 * (most - least)
        ax.set_xlim(least - margin, most + margin)
        ax.set_yticks(range(len(names)), names, parse_math=False)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_title(title, parse_math=False)
        ax.set(xlabel=xlabel, ylabel=ylabel)
        draw_legend(figure, handles, [dots.spread for dots in series], style, dots=True)

    ends = "; ".join(f"{dots.label} from {_extreme(dots, min):.2f} to {_extreme(dots, max):.2f}" for dots in series)
    labels = [*(lines or {}).values(), *(dots.label for dots in series)]
    width = max(5.2, 3 + 0.085 * max(map(len, names)))
    size = (width, 0.46 * len(names) + 1.1 + legend_height(labels, [dots.spread for dots in series], width))
    return Plot(f"{title}: {xlabel}, a row for each of {', '.join(names)}. {ends}.", caption, draw, size)


def _draw_dot(ax: Axes, at: Interval, y: float, *, colour: str, spread: Spread, limits: tuple[float, float]) -> None:
    if not np.isfinite(at.estimate):
        return
    low, high = np.clip((at.low, at.high), *limits)
    if spread is not EXACT:
        ax.plot((low, high), (y, y), color=colour, linestyle=spread.dashes)
    if spread.end:
        ends = [end for end in (low, high) if end != at.estimate]
        ax.plot(ends, [y] * len(ends), spread.end, color=colour)
    ax.plot(at.estimate, y, spread.marker, color=colour, markersize=4)


def _extreme(dots: Dots, extreme: Callable[[Iterable[float]], float]) -> float:
    return extreme(interval.estimate for interval in dots.values.values())
