"""Animate mini-episodes side by side, one for each length, as a GIF."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from drest_torch.envs.levels import Level
from drest_torch.envs.objects import Button
from drest_torch.envs.view.rendering import ROUTE, PictureError, Way, cell_side, render, render_agent
from drest_torch.files import write_whole
from drest_torch.plots.style import GRID, TEXT

if TYPE_CHECKING:
    from drest_torch.episodes import Episode, Moment

FIRST, TICK, BETWEEN, LAST = 1200, 300, 60, 3000
"""How long frames are shown, in milliseconds: the first, one in which agents are in cells, one between, the last."""
STEPS = (1 / 3, 2 / 3)
"""Where an agent is between two cells."""
MOST_FRAMES = 120
"""A frame takes a tenth of a second."""
MOST_BOXES = 60
OFF_THE_BOARD = (-9, -9)
DPI = 84
MOST_COLOURS = 128


def check_ending(path: Path) -> None:
    """Refuse a file of another kind."""
    if path.suffix.lower() != ".gif":
        raise PictureError(f"animation={path}: unknown kind of animation; expected the ending .gif")


def write_animation(level: Level, episodes: Sequence[Episode], path: Path, *, agent: str) -> None:
    """Write the mini-episodes as a GIF that repeats, whole or not at all."""
    if not episodes:
        raise PictureError(f"animation={path}: no length of the level {level.name} has a probability above 1 %")
    title = f"{agent} on {level.name}"
    shown = times(max(len(episode.moments) for episode in episodes) - 1)
    durations = [TICK if time == int(time) else BETWEEN for time in shown]
    durations[0], durations[-1] = FIRST, LAST
    write_whole(path, gif([_frame(level, episodes, time, title) for time in shown], durations))


def times(last: int) -> list[float]:
    """Return the times that are shown, 0 to ``last``, in ticks: with steps between them, or some, if they are many."""
    between = [0.0, *(tick + part for tick in range(last) for part in (*STEPS, 1.0))]
    if len(between) <= MOST_FRAMES:
        return between
    every = math.ceil(last / (MOST_FRAMES - 1))
    return [*map(float, range(0, last, every)), float(last)]


def gif(frames: Sequence[np.ndarray], durations: Sequence[int]) -> bytes:
    """Return frames as a GIF; all have the colours of one palette, so that nothing flickers."""
    images = [Image.fromarray(frame) for frame in frames]
    samples = np.concatenate([frames[0], frames[len(frames) // 2], frames[-1]])
    palette = Image.fromarray(samples).quantize(MOST_COLOURS, Image.Quantize.MAXCOVERAGE)
    first, *rest = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    file = io.BytesIO()
    first.save(file, "gif", save_all=True, append_images=rest, duration=list(durations), loop=0, optimize=True)
    return file.getvalue()


def _frame(level: Level, episodes: Sequence[Episode], time: float, title: str) -> np.ndarray:
    """Return the image of one time, which is between two moments where it is not a whole number."""
    side = cell_side(level)
    board = (max(side * level.width, 2.6), side * level.height)
    gap, head, foot = 0.35, 0.95, 0.8
    width, height = len(episodes) * (board[0] + gap) + gap, head + board[1] + foot
    canvas = FigureCanvasAgg(Figure(figsize=(width, height), dpi=DPI, facecolor="white"))
    figure = canvas.figure
    figure.text(0.5, 1 - 0.28 / height, title, fontsize=13, color=TEXT, ha="center", va="center", parse_math=False)
    longest = max(episode.length for episode in episodes)
    for index, episode in enumerate(episodes):
        left = gap + index * (board[0] + gap)
        ax = figure.add_axes((left / width, foot / height, board[0] / width, board[1] / height))
        _render_moment(level, episode, time, ax)
        words = f"length {episode.length}:  P({episode.length}) = {episode.probability:.2f}"
        ax.set_title(words, fontsize=11, color=TEXT)
        clock = figure.add_axes((left / width, 0.14 / height, board[0] / width, 0.56 / height))
        _render_clock(level, episode, time, longest, clock)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _place(episode: Episode, time: float) -> tuple[int, float]:
    """Return the last moment of an episode before a time, and how far it is from there to the next."""
    last = len(episode.moments) - 1
    moment = min(int(time), last)
    return moment, time - moment if moment < last else 0.0


def _render_moment(level: Level, episode: Episode, time: float, ax: Axes) -> None:
    index, part = _place(episode, time)
    moment = episode.moments[index]
    route = [past.cell for past in episode.moments[: index + 1]]
    cell = moment.cell if not part else OFF_THE_BOARD
    ways = [Way(route, alpha=0.45)]
    render(level, ax, taken=moment.taken, agent=cell, time_left=moment.time_left, ways=ways)
    if part:
        then = episode.moments[index + 1].cell
        row, column = ((1 - part) * here + part * there for here, there in zip(moment.cell, then, strict=True))
        render_agent(ax, (row, column))
    if index == len(episode.moments) - 1:
        veil: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.5, "zorder": 6}
        ax.add_patch(Rectangle((0, 0), level.width, level.height, **veil))
        place = (level.width / 2, level.height / 2)
        box = {"boxstyle": "round,pad=0.4", "facecolor": TEXT, "edgecolor": "none"}
        words = f"shut down after {episode.length} ticks"
        ax.text(*place, words, fontsize=12, color="white", ha="center", va="center", zorder=7, bbox=box)


def _render_clock(level: Level, episode: Episode, time: float, longest: int, ax: Axes) -> None:
    """Render a box for each tick, or one for many, filled while it is left, above what the agent has done."""
    index, _ = _place(episode, time)
    moment = episode.moments[index]
    ax.set(xlim=(0, max(longest, 8)), ylim=(1, 0))
    ax.set_axis_off()
    ticks = elapsed(episode.moments[: index + 1])
    end = ticks + moment.time_left
    boxes = [(tick + 0.04, tick + 0.94, GRID if tick < ticks else ROUTE) for tick in range(end)]
    if longest > MOST_BOXES:
        boxes = [(0.0, float(ticks), GRID), (float(ticks), float(end), ROUTE)]
    for left, right, colour in boxes:
        ax.add_patch(Rectangle((left, 0.05), right - left, 0.32, facecolor=colour, edgecolor="none"))
    taken = [thing for bit, thing in enumerate(level.objects) if moment.taken >> bit & 1]
    words = "button pressed   " * any(isinstance(thing, Button) for thing in taken) + f"coins {moment.coins:g}"
    style: dict[str, Any] = {"fontsize": 10, "color": TEXT, "va": "center", "transform": ax.transAxes}
    ax.text(0, 0.2, f"time left {moment.time_left}", **style)
    ax.text(1, 0.2, words, ha="right", **style)


def elapsed(moments: Sequence[Moment]) -> int:
    """Return the ticks that have passed: an action takes one unless it changes neither the cell nor the time left."""
    return sum((now.cell, now.time_left) != (then.cell, then.time_left) for now, then in pairwise(moments))
