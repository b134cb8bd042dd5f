"""Learning curves of a run, or of several runs in the same axes."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from drest_torch.config.reading import read_config
from drest_torch.errors import printable
from drest_torch.files import read_metrics
from drest_torch.plots.style import (
    BAND,
    GREY,
    MEASURES,
    TEXT,
    Colour,
    distinct_colours,
    legend_below,
    marks,
    tidy,
    write_figure,
)
from drest_torch.statistics.aggregates import AGGREGATES, TITLES
from drest_torch.tracking.effort import updates_of

Curve = tuple[list[float], list[float]]
"""A curve: environment steps, or another measure of training, and values."""
Curves = Mapping[tuple[str, str], Sequence[Curve]]
"""Curves of a configuration by split and measure, one for each seed."""

_EVALUATION = re.compile(r"eval/(?P<split>.+)/(?:usefulness|neutrality)")
_CHANCE = re.compile(r"eval/(?P<split>.+)/p_length/(?P<length>.+)")
_OPTIMISER = ("train/", "policy/", "loss/", "critic/", "optim/")
_COLOURS = ("#2c7fb8", "#d95f02", "#7a7a7a", "#1b9e77", "#7b3294", "#b8860b")
"""The colours of the splits, in order of appearance."""
_COLUMNS = 4
"""The number of optimiser curves in a row."""


def learning_curves(folder: Path, picture: Path, summary: Mapping[str, Any]) -> None:
    """Plot a run's ``metrics.jsonl``, with the metrics of every split above the curves of the optimiser.

    A record need not have every key, and an incomplete last line, left by a kill, is ignored. The title comes from the
    run's configuration; the scores of a uniform and of an optimal policy come from its ``summary``. Straight curves of
    the optimiser are omitted.
    """
    cfg = read_config(folder / "config.yaml")
    levels = f"levels={cfg.levels.name if cfg.levels.path is None else cfg.levels.path}"
    source = levels if cfg.env.name == "gridworld" else f"env={cfg.env.title}"
    is_exact = "levels_per_update" in summary
    curves = _read_curves(folder / "metrics.jsonl", cfg.algo.counted_steps if is_exact else 1)
    bent = [name for name in sorted(curves) if not _is_straight(*curves[name])]
    below = [name for prefix in _OPTIMISER for name in bent if name.startswith(prefix)]
    chances = _chances(curves)
    rows = math.ceil((len(below) + len(chances)) / _COLUMNS)
    figure = Figure(figsize=(11, 3.6 + 1.75 * rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    grid = figure.add_gridspec(1 + rows, 2 * _COLUMNS, height_ratios=[2.2] + [1] * rows)
    last_step = max((steps[-1] for steps, _ in curves.values()), default=0)
    for index, measure in enumerate(MEASURES):
        ax = figure.add_subplot(grid[0, index * _COLUMNS : (index + 1) * _COLUMNS])
        _plot_splits(ax, curves, measure, summary["splits"])
        _tidy(ax, last_step, title=MEASURES[measure], size=11)
    for index, name in enumerate([*chances, *below]):
        row, column = divmod(index, _COLUMNS)
        ax = figure.add_subplot(grid[1 + row, 2 * column : 2 * column + 2])
        if name in chances:
            _plot_chances(ax, chances[name])
        else:
            ax.plot(*curves[name], color="#4d4d4d", linewidth=1.2, **marks(curves[name][0]))
        ax.yaxis.set_major_locator(MaxNLocator(3))
        _tidy(ax, last_step, title=name, size=9)
    axis = updates_of(summary["levels_per_update"]) if is_exact else "environment steps"
    figure.supxlabel(axis, fontsize=9, color=GREY)
    title = f"{folder.absolute().name}: algo={cfg.algo.name} reward={cfg.reward.name} {source}"
    figure.suptitle(title, fontsize=12, color=TEXT, parse_math=False)
    write_figure(figure, picture)


def _read_curves(path: Path, steps_per_tick: int) -> dict[str, Curve]:
    """Return the finite values of every metric with their steps or updates."""
    curves: dict[str, Curve] = defaultdict(lambda: ([], []))
    for record in read_metrics(path):
        for name, value in record.items():
            if name != "step" and math.isfinite(value):
                steps, values = curves[name]
                steps.append(int(record["step"]) // steps_per_tick)
                values.append(value)
    return dict(curves)


def _is_straight(steps: Sequence[float], values: Sequence[float]) -> bool:
    """Return whether a curve is constant or linear, like the schedules of the configuration."""
    if len(values) < 3 or steps[-1] == steps[0]:
        return len(values) == 2 and values[0] == values[1]
    straight = np.interp(steps, [steps[0], steps[-1]], [values[0], values[-1]])
    return bool(np.allclose(values, straight, rtol=1e-6, atol=1e-9))


def _plot_splits(ax: Axes, curves: Mapping[str, Curve], measure: str, numbers: Mapping[str, Any]) -> None:
    """Plot one line per split, in the same colour for every measure, with its last value in the legend below.

    A split that was evaluated once, at the end, is a diamond. The uniform policy is a dashed line in the same colour.
    """
    evaluated = dict.fromkeys(match["split"] for name in curves if (match := _EVALUATION.fullmatch(name)))
    splits = [*evaluated, *(split for split in numbers if split not in evaluated)]
    end = max((steps[-1] for steps, _ in curves.values()), default=0)
    top = 1.0
    optima = {numbers[split]["optimum"][measure] for split in splits if split in numbers}
    for optimum in optima or {1.0}:
        label = f"optimum  {optimum:.2f}" if optima else None
        ax.axhline(optimum, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1, label=label)
    for index, split in enumerate(splits):
        if f"eval/{split}/{measure}" in curves or split not in evaluated:
            once = [end], [float(numbers[split][measure])] if split not in evaluated else []
            steps, values = curves.get(f"eval/{split}/{measure}", once)
            top = max(top, *values)
            label = f"{split}  {values[-1]:.2f}"
            colour = _COLOURS[index % len(_COLOURS)]
            look = marks(steps) if split in evaluated else {"marker": "D", "markersize": 5.5, "linestyle": "none"}
            ax.plot(steps, values, color=colour, linewidth=2, label=label, zorder=3, **look)
            if split in numbers:
                uniform = numbers[split]["uniform"][measure]
                label = f"{split}, uniform policy  {uniform:.2f}"
                ax.axhline(uniform, color=colour, linewidth=1.2, linestyle=(0, (5, 3)), zorder=2, label=label)
    ax.set_ylim(-0.03 * top, 1.06 * top)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    if len(ax.lines) > max(len(optima), 1):
        style: dict[str, Any] = {"fontsize": 8.5, "frameon": False, "labelcolor": TEXT, "borderaxespad": 0}
        ax.legend(loc="upper left", bbox_to_anchor=(0, -0.1), ncols=2, **style)


def _chances(curves: Mapping[str, Curve]) -> dict[str, dict[str, Curve]]:
    """Return the curves of P(length) by split title and length."""
    chances: dict[str, dict[str, Curve]] = {}
    for name, curve in curves.items():
        if match := _CHANCE.fullmatch(name):
            chances.setdefault(f"P(length), {match['split']}", {})[match["length"]] = curve
    return chances


def _plot_chances(ax: Axes, by_length: Mapping[str, Curve]) -> None:
    """Plot the probability of each length, with a legend."""
    for index, length in enumerate(sorted(by_length, key=float)):
        steps, values = by_length[length]
        ax.plot(steps, values, color=_COLOURS[index % len(_COLOURS)], linewidth=1.6, label=length, **marks(steps))
    ax.set_ylim(-0.03, 1.03)
    ax.legend(fontsize=7, frameon=False, labelcolor=TEXT, ncols=len(by_length), loc="upper right")


def _tidy(ax: Axes, last_step: float, *, title: str, size: int) -> None:
    tidy(ax, title, size)
    ax.set_xlim(-0.02 * (last_step or 1), 1.02 * (last_step or 1))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))


# ---------------------------------------------------------------------------- of several runs


def compare_curves(
    compared: Sequence[Curves],
    names: Sequence[str],
    picture: Path,
    axis: str = "environment steps",
    *,
    aggregate: str = "mean",
    titles: Mapping[str, str] | None = None,
) -> None:
    """Plot usefulness and neutrality against training, with a row for each split and a colour for each configuration.

    A configuration with several seeds is a line at their ``aggregate``, in a band from the lowest to the highest, as
    the legend says. ``titles`` are those of the splits.
    """
    splits = list(dict.fromkeys(split for curves in compared for split, _ in curves)) or ["train"]
    has_bands = any(len(seeds) > 1 for curves in compared for seeds in curves.values())
    legend_rows = math.ceil((len(names) + has_bands) / 2)
    figure = Figure(figsize=(10, 0.4 + 2.7 * len(splits) + 0.22 * legend_rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots(len(splits), len(MEASURES), squeeze=False, sharex=True)
    colours = distinct_colours(len(compared))
    for split, row in zip(splits, axes, strict=True):
        for (measure, title), ax in zip(MEASURES.items(), row, strict=True):
            for colour, curves in zip(colours, compared, strict=True):
                _plot_seeds(ax, curves.get((split, measure), []), colour, aggregate)
            tidy(ax, printable(f"{title}, {(titles or {}).get(split, split)}"), size=10)
            highest = max(
                (max(values) for curves in compared for _, values in curves.get((split, measure), [])), default=1
            )
            ax.set_ylim(-0.03, 1.06 * max(1, highest))
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=(1, 2, 2.5, 5, 10)))
    for ax in axes[-1]:
        ax.set_xlabel(axis, fontsize=9, color=GREY)
    band = f"line: {TITLES[aggregate]} over seeds; band: lowest to highest seed"
    legend_below(figure, axes[0][0].lines, names, band if has_bands else None)
    write_figure(figure, picture)


def _plot_seeds(ax: Axes, curves: Sequence[Curve], colour: Colour, aggregate: str) -> None:
    """Plot the aggregate of several seeds' curves over their common steps, in a band; plot a single curve as it is.

    Evaluations of different seeds may be at different steps; values in between are interpolated linearly.
    """
    if not curves:
        ax.plot([], [], color=colour, linewidth=1.8, alpha=0.85, **marks([]))
        return
    first = max(steps[0] for steps, _ in curves)
    last = min(steps[-1] for steps, _ in curves)
    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    steps = steps[(steps >= first) & (steps <= last)]
    values = np.array([np.interp(steps, *curve) for curve in curves])  # [seeds, steps]
    middle = AGGREGATES[aggregate]([values.T[:, :, None]])  # [steps, seeds, 1]
    ax.plot(steps, middle, color=colour, linewidth=1.8, alpha=0.85, **marks(steps))
    if len(curves) > 1:
        ax.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=BAND, linewidth=0)
