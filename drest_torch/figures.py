"""A run in pictures: its learning curves, and its policy on levels as the paper's Figure 4 draws it."""

from __future__ import annotations

import json
import math
import os
import re
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator
from torch import Tensor

from envs.levels import Level
from envs.mdp import NUM_ACTIONS
from envs.propagator import Reachable
from envs.rendering import Panel, PictureError, draw

_TEXT, _GREY, _GRID = "#222222", "#8a8a8a", "#e6e6e6"


def _write(figure: Figure, path: Path) -> None:
    """Write a picture as PNG, whole or not at all, cut to what is drawn."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, format="png", dpi=160, bbox_inches="tight", pad_inches=0.15)
        os.replace(partial, path)
    except OSError as error:
        raise PictureError(f"{path}: the picture cannot be written ({error.strerror})") from None
    finally:
        with suppress(OSError):
            partial.unlink()


# -------------------------------------------------------------------------------- learning curves

Curve = tuple[list[int], list[float]]
"""Steps and values."""

_MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality (bits)"}
_EVALUATION = re.compile(r"eval/(?P<split>.+)/(?:usefulness|neutrality)")
_OPTIMISER = ("train/", "policy/", "loss/", "critic/", "optim/")
_COLOURS = ("#2c7fb8", "#d95f02", "#7a7a7a", "#1b9e77", "#7b3294", "#b8860b")
"""Of the splits, in the order in which they are first met."""
_COLUMNS = 4
"""Optimiser's curves in a row."""
_POINTS = 40
"""A curve of more than twice as many points is drawn pale, with its moving average over it."""


def learning_curves(metrics_file: Path, picture: Path) -> None:
    """Draw a run's ``metrics.jsonl``: the exact metrics of every split above, the optimiser's curves below.

    A record need not have every key; a last line that was torn off by a kill is left out.
    """
    curves = _read_curves(metrics_file)
    below = [name for prefix in _OPTIMISER for name in sorted(curves) if name.startswith(prefix)]
    rows = math.ceil(len(below) / _COLUMNS)
    figure = Figure(figsize=(11, 3.6 + 1.75 * rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    grid = figure.add_gridspec(1 + rows, 2 * _COLUMNS, height_ratios=[2.2] + [1] * rows)
    last_step = max((steps[-1] for steps, _ in curves.values()), default=0)
    for index, measure in enumerate(_MEASURES):
        ax = figure.add_subplot(grid[0, index * _COLUMNS : (index + 1) * _COLUMNS])
        _draw_splits(ax, curves, measure)
        _tidy(ax, last_step, title=_MEASURES[measure], size=11)
    for index, name in enumerate(below):
        row, column = divmod(index, _COLUMNS)
        ax = figure.add_subplot(grid[1 + row, 2 * column : 2 * column + 2])
        _draw_noisy(ax, curves[name], "#4d4d4d")
        ax.yaxis.set_major_locator(MaxNLocator(3))
        _tidy(ax, last_step, title=name, size=9)
    figure.supxlabel("environment steps", fontsize=9, color=_GREY)
    _write(figure, picture)


def _read_curves(path: Path) -> dict[str, Curve]:
    """Every metric with its steps; values that are no finite number are left out."""
    curves: dict[str, Curve] = defaultdict(lambda: ([], []))
    for record in _records(path):
        for name, value in record.items():
            if name != "step" and isinstance(value, (int, float)) and math.isfinite(value):
                steps, values = curves[name]
                steps.append(record["step"])
                values.append(value)
    return dict(curves)


def _records(path: Path) -> list[dict[str, Any]]:
    *lines, _ = path.read_text(encoding="utf-8").split("\n")  # a line is whole once its end is written
    return [json.loads(line) for line in lines]


def _draw_splits(ax: Axes, curves: Mapping[str, Curve], measure: str) -> None:
    """One line a split, its colour the same for every measure, and its last value in the legend."""
    splits = dict.fromkeys(match["split"] for name in curves if (match := _EVALUATION.fullmatch(name)))
    top = 1.0
    ax.axhline(1, color=_GREY, linewidth=0.8, linestyle=(0, (4, 4)), zorder=1)
    for index, split in enumerate(splits):
        if f"eval/{split}/{measure}" in curves:
            steps, values = curves[f"eval/{split}/{measure}"]
            top = max(top, *values)
            label = f"{split}  {values[-1]:.2f}"
            colour = _COLOURS[index % len(_COLOURS)]
            ax.plot(steps, values, color=colour, linewidth=2, label=label, zorder=3, **_marks(steps))
    ax.set_ylim(-0.03 * top, 1.06 * top)
    ax.yaxis.set_major_locator(MaxNLocator(5))
    if ax.lines[1:]:
        ax.legend(loc="best", fontsize=9, frameon=True, framealpha=0.85, edgecolor="none", labelcolor=_TEXT)


def _draw_noisy(ax: Axes, curve: Curve, colour: str) -> None:
    steps, values = curve
    window = len(values) // _POINTS
    if window > 1:
        ax.plot(steps, values, color=colour, linewidth=0.8, alpha=0.25)
        values = _moving_average(values, window)
    ax.plot(steps, values, color=colour, linewidth=1.4, **_marks(steps))


def _moving_average(values: Sequence[float], window: int) -> list[float]:
    """The mean over a window around each value, which is smaller at both ends."""
    around = np.ones(window)
    total = np.convolve(values, around, "same")
    return (total / np.convolve(np.ones(len(values)), around, "same")).tolist()


def _marks(steps: Sequence[int]) -> dict[str, Any]:
    """Few points are shown as such; one alone would be no line."""
    return {"marker": "o", "markersize": 3.5} if len(steps) <= _POINTS else {}


def _tidy(ax: Axes, last_step: int, *, title: str, size: int) -> None:
    ax.set_title(title, fontsize=size, color=_TEXT, loc="left")
    ax.set_xlim(-0.02 * (last_step or 1), 1.02 * (last_step or 1))
    ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    ax.xaxis.set_major_formatter(EngFormatter(sep=""))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    ax.tick_params(labelsize=8, length=0, colors=_TEXT)
    ax.grid(color=_GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.spines["bottom"].set(visible=True, color=_GREY)


# ---------------------------------------------------------------------------------------- policies

RARELY = 0.01
"""Cells where the agent acts less often than this, on average, are left empty."""


@dataclass(frozen=True)
class LevelNumbers:
    """What stands below a level's picture."""

    usefulness: float
    neutrality: float
    length_probabilities: Mapping[int, float]
    """P(L = l) for each length l."""
    sampled: bool = False
    """Whether they are estimates."""


def policy_pictures(
    reachable: Reachable,
    policies: Mapping[str, Tensor],
    levels_to_draw: Sequence[int],
    folder: Path,
    *,
    numbers: Sequence[LevelNumbers],
) -> list[Path]:
    """Write one PNG a level with its policies (see `PolicyDrawings`); return the files.

    ``levels_to_draw`` are indices into the level set, and ``numbers`` has an entry for each level of it.
    """
    drawings = PolicyDrawings(reachable, policies)
    drawn = [reachable.mdp.levels[index] for index in levels_to_draw]
    paths = [folder / name for name in _file_names(drawn)]
    for index, level, path in zip(levels_to_draw, drawn, paths, strict=True):
        _write(_policy_figure(level, drawings.rows(index), _caption(numbers[index])), path)
    return paths


@dataclass(frozen=True)
class PolicyRow:
    """Panels that stand side by side."""

    title: str
    panels: list[Panel]


class PolicyDrawings:
    """Action probabilities [N, 4] in reachable states by their titles: a row each, under its title with P(L = l).

    A policy alone needs no title.
    """

    def __init__(self, reachable: Reachable, policies: Mapping[str, Tensor]) -> None:
        self.reachable = reachable
        self._each = [
            (title, each, reachable.visits(each), reachable.propagate(each).probability)
            for title, each in policies.items()
        ]

    def rows(self, level_index: int) -> list[PolicyRow]:
        level = self.reachable.mdp.levels[level_index]
        count = int(self.reachable.num_lengths[level_index])
        lengths = self.reachable.lengths[level_index, :count].tolist()
        rows = []
        for title, policy, visits, probability in self._each:
            does = _length_probabilities(dict(zip(lengths, probability[level_index, :count].tolist(), strict=True)))
            panels = policy_panels(level, self.reachable, policy, visits, level_index)
            rows.append(PolicyRow(title and f"{title}:   {does}", panels))
        return rows


def policy_arrows(
    reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int, *, pressed: bool
) -> np.ndarray:
    """[H, W, 4] the probability of each action in each cell of a level, before or after the first button.

    A policy may see the time and the coins left: the probability at a cell is the mean over the states
    there, weighted by how likely the agent is to act in them. It is NaN where that is rare.
    """
    mdp, states = reachable.mdp, reachable.states
    level = mdp.levels[level_index]
    button_is_gone = (states.taken >> len(level.coins)) != 0
    of_interest = (mdp.level_of(states.spot) == level_index) & (button_is_gone == pressed)
    cell = states.spot[of_interest] - level_index * mdp.num_cells
    weight = visits.detach()[of_interest].double()
    weighted = weight.unsqueeze(-1) * probabilities.detach()[of_interest]
    there = weight.new_zeros(mdp.num_cells).index_add(0, cell, weight)
    total = weight.new_zeros(mdp.num_cells, NUM_ACTIONS).index_add(0, cell, weighted)
    arrows = torch.where(there < RARELY, math.nan, there).reciprocal().unsqueeze(-1) * total
    return arrows.reshape(mdp.height, mdp.width, NUM_ACTIONS)[: level.height, : level.width].cpu().numpy()


def policy_panels(
    level: Level, reachable: Reachable, probabilities: Tensor, visits: Tensor, level_index: int
) -> list[Panel]:
    """The policy before a button was entered and after it.

    A lone button is not drawn once it is gone; of several it is not known which is.
    """
    before, after = (
        policy_arrows(reachable, probabilities, visits, level_index, pressed=pressed) for pressed in (False, True)
    )
    if not level.buttons:
        return [Panel(arrows=before)]
    alone = len(level.buttons) == 1
    button = f"B{level.buttons[0].delay}" if alone else "a button"
    gone = 1 << len(level.coins) if alone else 0
    return [Panel(f"before {button}", arrows=before), Panel(f"after {button}", taken=gone, arrows=after)]


def _caption(numbers: LevelNumbers) -> str:
    lengths = _length_probabilities(numbers.length_probabilities)
    measures = f"usefulness {numbers.usefulness:.2f}   neutrality {numbers.neutrality:.2f}"
    if numbers.sampled:
        measures += "   (sampled)"
    return f"{measures}\n{textwrap.fill(lengths, 70, replace_whitespace=False)}"


def _length_probabilities(probabilities: Mapping[int, float]) -> str:
    return "   ".join(f"P({length})\u00a0=\u00a0{p:.2f}" for length, p in probabilities.items())


def _policy_figure(level: Level, rows: Sequence[PolicyRow], caption: str) -> Figure:
    """The rows one below the other, the level's name above them and the caption below; all in inches."""
    side = min(0.75, max(0.3, 8 / max(level.height, level.width)))  # of a cell
    gap, between = 0.35, 0.95
    across, high = side * level.width, side * level.height
    width = max(len(row.panels) for row in rows) * (across + gap) - gap
    height = len(rows) * (high + between) - between
    figure = Figure(figsize=(width, height), facecolor="white")
    words: dict[str, Any] = {"color": _TEXT, "va": "bottom"}
    for down, row in enumerate(rows):
        bottom = height - high - down * (high + between)
        for index, panel in enumerate(row.panels):
            ax = figure.add_axes((index * (across + gap) / width, bottom / height, across / width, high / height))
            draw(level, ax, taken=panel.taken, arrows=panel.arrows)
            ax.set_title(panel.title, fontsize=10, color=_TEXT)
        if row.title:
            figure.text(0, (bottom + high + 0.34) / height, row.title, fontsize=10, ha="left", **words)
    head = (0.34 if rows[0].panels[0].title else 0.12) + (0.36 if rows[0].title else 0)
    figure.text(0.5, 1 + head / height, level.name, fontsize=12, ha="center", parse_math=False, **words)
    figure.text(0.5, -0.12 / height, caption, fontsize=10, color=_TEXT, ha="center", va="top", linespacing=1.5)
    return figure


def _file_names(levels: Sequence[Level]) -> list[str]:
    """A name for the file of each level: plain, short, and different even where case makes no difference."""
    names: list[str] = []
    for level in levels:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", level.name).strip("._-")[:80] or "level"
        name, again = plain, 1
        while name.casefold() in (other.casefold() for other in names):
            again += 1
            name = f"{plain}-{again}"
        names.append(name)
    return [f"{name}.png" for name in names]
