"""Rendering of levels as coloured text for terminals, and as pictures in the style of the paper's Figures 2 and 4.

A *route* is a list of (row, column) from the start. A policy is an array ``arrows`` [H, W, 4] with the probability of
each action (up, down, left, right) in each cell, NaN for cells without arrows. ``taken`` has a bit for each coin and
button that was taken, coins first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Circle, FancyArrow, PathPatch, Polygon, Rectangle
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from drest_torch.envs.actions import STEPS
from drest_torch.envs.levels import Level
from drest_torch.envs.levels.level import aligned
from drest_torch.envs.objects import KINDS, WorldObject
from drest_torch.errors import UserError
from drest_torch.files import write_whole

Cell = tuple[int, int]
Point = tuple[float, float]
Route = Sequence[Cell]

ARROWS = "↑↓←→"
JUMP = "↷"
"""The symbol of a move to a cell that is not a neighbour."""
BUMP = "·"
PICTURE_FORMATS = ("png", "pdf", "svg")
MARGIN = 0.15
"""The margin around the board of a picture, in inches."""


class PictureError(UserError):
    """A picture that cannot be written; the message names the picture and the reason."""


# ------------------------------------------------------------------------------------------- text

_INK = "38;5;236"
_STYLES = {
    "#": "38;5;240;48;5;240",
    ".": "38;5;250;48;5;255",
    "A": "1;38;5;160;48;5;255",
    "path": f"1;{_INK};48;5;224",
    **{letter: kind.style for kind in KINDS for letter in kind.letters},
}


def to_text(level: Level, *, colour: bool = True, route: Route | None = None) -> str:
    """Return the map with one line per row, and arrows on the floor cells of a route.

    Without a route and ``colour`` this is the map of a level's file, with aligned columns.
    """
    rows = [row.split() for row in level.rows()]
    if route:  # each cell gets the arrow of the route's last exit, and the end of the route a ring
        arrows = {cell: _arrow(cell, next_cell) for cell, next_cell in pairwise(route) if cell != next_cell}
        for (row, column), arrow in (arrows | {route[-1]: "o"}).items():
            if rows[row][column] == ".":
                rows[row][column] = arrow
    if not colour:
        return aligned(rows)
    width = max(len(cell) for row in rows for cell in row)
    return "\n".join("".join(_coloured(cell, width) for cell in row) for row in rows)


def arrows_text(route: Route) -> str:
    """Return a route as a line of arrows, one per tick; a dot is a bump."""
    return "".join(_arrow(cell, next_cell) for cell, next_cell in pairwise(route))


def _arrow(cell: Cell, next_cell: Cell) -> str:
    if cell == next_cell:
        return BUMP
    step = (next_cell[0] - cell[0], next_cell[1] - cell[1])
    return ARROWS[STEPS.index(step)] if step in STEPS else JUMP


def _coloured(cell: str, width: int) -> str:
    style = _STYLES.get(cell[0], _STYLES["path"])
    return f"\x1b[{style}m {cell.center(width)} \x1b[0m"


# --------------------------------------------------------------------------------------- pictures


@dataclass(frozen=True)
class BoardStyle:
    """The colours of a board."""

    floor: str
    wall: str
    wall_edge: str
    grid: str
    text: str
    pale: str


LIGHT = BoardStyle("white", "#4d4d4d", "#6e6e6e", "#bdbdbd", "#222222", "#c4c4c4")
ROUTE, OTHER_ROUTE = "#2c7fb8", "#e66101"
"""Two colours for routes, distinguishable by colour-blind people."""
_LABEL = "#222222"
_ARROW = "#d7191c"
_FONT = FontProperties(family="DejaVu Sans", weight="bold")
_LANE = 0.08
"""The distance of a route to the right of the cells' centres."""
_RIGHT = _LANE * 1j
_RAREST = 0.01
"""The probability that an action must exceed to have an arrow."""
_SHAFT, _HEAD = (0.008, 0.08), (0.04, 0.22)
"""The widths of the shaft and of the head of an arrow for the probabilities 0 and 1, in cells."""


@dataclass(frozen=True)
class StyledRoute:
    """A route with its colour and opacity in a picture."""

    route: Route
    colour: str = ROUTE
    alpha: float = 1.0
    width: float = 2.6
    """The width of the line in points."""


@dataclass(frozen=True)
class Panel:
    """One view of a level in a picture: the taken objects and the policy."""

    title: str = ""
    taken: int = 0
    arrows: np.ndarray | None = None


def render(
    level: Level,
    ax: Axes,
    *,
    taken: int = 0,
    arrows: np.ndarray | None = None,
    routes: Sequence[StyledRoute] = (),
    agent: Cell | None = None,
    time_left: int | None = None,
    style: BoardStyle = LIGHT,
) -> None:
    """Render a level into axes in the style of the paper's Figure 2, with one unit per cell.

    With ``arrows``, show the policy as in Figure 4: the width of an arrow grows with its probability. With ``agent``
    and ``time_left``, show a moment of a mini-episode.
    """
    _render_board(level, ax, style)
    for styled in routes:
        _render_route(styled, ax)
    if arrows is not None:
        for row, column, action in np.argwhere(np.nan_to_num(arrows) > _RAREST):
            probability = min(arrows[row, column, action], 1.0)
            x = column + 0.5
            y = row + 0.5
            render_arrow(ax, x, y, STEPS[action], float(probability))
    remaining = [thing for bit, thing in enumerate(level.objects) if not taken >> bit & 1]
    for thing in (*level.fixtures, *remaining):
        render_object(thing, ax, thing.column + 0.5, thing.row + 0.5)
    if agent is None:
        row, column = level.start
        write(ax, "A", column + 0.5, row + 0.5, height=0.3, colour=style.pale if taken else style.text)
    else:
        render_agent(ax, agent, style)
    # The time left is in the bottom-right corner of the map, in small type.
    text = str(level.shutdown if time_left is None else time_left)
    colour = "white" if level.walls[-1][-1] else style.text
    write(ax, text, level.width - 0.09, level.height - 0.09, height=0.13, colour=colour, corner=True)


def render_agent(ax: Axes, cell: Point, style: BoardStyle = LIGHT) -> None:
    """Render the agent as a disc in a cell (row, column), or between cells."""
    x = cell[1] + 0.5
    y = cell[0] + 0.5
    ax.add_patch(Circle((x, y), 0.3, facecolor=style.text, edgecolor=style.floor, linewidth=1.5, zorder=4.3))
    write(ax, "A", x, y - 0.01, height=0.26, colour=style.floor)


def frame(level: Level, *, taken: int, agent: Cell, time_left: int) -> np.ndarray:
    """Return a moment of a mini-episode as an image [height, width, 3] with integers up to 255."""
    side = cell_side(level)
    canvas = FigureCanvasAgg(Figure(figsize=(side * level.width, side * level.height), dpi=80, facecolor="white"))
    render(level, canvas.figure.add_axes((0, 0, 1, 1)), taken=taken, agent=agent, time_left=time_left)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def cell_side(level: Level) -> float:
    """Return the side of a cell in inches: smaller on large maps."""
    return min(0.75, max(0.3, 8 / max(level.height, level.width)))


def save_picture(level: Level, path: Path) -> None:
    """Write a level as a picture, atomically."""
    kind = path.suffix[1:].lower()
    if kind not in PICTURE_FORMATS:
        raise PictureError(f"{path}: unknown kind of picture; expected the ending .{', .'.join(PICTURE_FORMATS)}")
    side = cell_side(level)
    width, height = side * level.width + 2 * MARGIN, side * level.height + 2 * MARGIN
    figure = Figure(figsize=(width, height), facecolor="white")
    box = (MARGIN / width, MARGIN / height, side * level.width / width, side * level.height / height)
    render(level, figure.add_axes(box))
    picture = BytesIO()
    figure.savefig(picture, format=kind, dpi=160)
    write_whole(path, picture.getvalue(), lambda why: PictureError(f"{path}: the picture cannot be written ({why})"))


def _render_board(level: Level, ax: Axes, style: BoardStyle) -> None:
    height, width = level.height, level.width
    ax.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    ax.set_axis_off()
    ax.add_patch(Rectangle((0, 0), width, height, facecolor=style.floor, edgecolor="none", zorder=0))
    edge: dict[str, Any] = {"facecolor": style.wall, "edgecolor": style.wall_edge, "linewidth": 0.8, "zorder": 1.5}
    for row, column in np.argwhere(level.walls):
        ax.add_patch(Rectangle((column, row), 1, 1, **edge))
    lines = [((0, row), (width, row)) for row in range(1, height)]
    lines += [((column, 0), (column, height)) for column in range(1, width)]
    ax.add_collection(LineCollection(lines, colors=style.grid, linewidths=0.8, zorder=1))
    frame = Rectangle((0, 0), width, height, fill=False, edgecolor=style.wall, linewidth=2, zorder=5, clip_on=False)
    ax.add_patch(frame)


def render_object(thing: WorldObject, ax: Axes, x: float, y: float) -> None:
    """Render an object with its label, centred at (x, y)."""
    ax.add_patch(thing.patch(x, y))
    lines = thing.label.splitlines()
    for line, label in enumerate(lines):
        below = (line - (len(lines) - 1) / 2) * 0.4 / len(lines)
        write(ax, label, x, y + below, height=0.21 / len(lines), widest=0.5, colour=_LABEL)


def render_arrow(ax: Axes, x: float, y: float, step: Cell, probability: float) -> None:
    """Render the arrow of a move (down, right) at the edge of the cell around (x, y), above its content.

    Its width grows with the probability.
    """
    down, right = step
    shaft = float(np.interp(probability, (0, 1), _SHAFT))
    head = float(np.interp(probability, (0, 1), _HEAD))
    ax.add_patch(
        FancyArrow(
            x + 0.24 * right,
            y + 0.24 * down,
            0.24 * right,
            0.24 * down,
            width=shaft,
            head_width=head,
            head_length=0.14,
            length_includes_head=True,
            color=_ARROW,
            linewidth=0,
            zorder=4.2,
        )
    )


def _render_route(styled: StyledRoute, ax: Axes) -> None:
    """Render a route as a line on the right of the cells' centres, so that opposite moves do not overlap."""
    centres = [complex(column + 0.5, row + 0.5) for row, column in styled.route]  # x + iy; y points down
    moves = [(centre, after) for centre, after in pairwise(centres) if centre != after]
    if not moves:
        return
    # Directions have length 1, even for moves to distant cells.
    faces = [(after - centre) / abs(after - centre) for centre, after in moves]
    end, face = moves[-1][1], faces[-1]
    points = [moves[0][0] + (0.22 + _RIGHT) * faces[0]]
    for (_, centre), before, then in zip(moves, faces, faces[1:], strict=False):
        turn = (before.conjugate() * then).imag
        if turn:  # for a right turn (1) the corner is before the centre, for a left turn (-1) behind it
            points.append(centre + (_RIGHT - turn * _LANE) * before)
        else:
            points += [centre + _RIGHT * before, centre + _RIGHT * then]
    neck, tip = (end + (along + _RIGHT) * face for along in (-0.49, -0.34))
    line = np.array([*points, neck])
    shape: dict[str, Any] = {"color": styled.colour, "alpha": styled.alpha, "zorder": 2}
    ax.plot(line.real, line.imag, linewidth=styled.width, solid_joinstyle="round", solid_capstyle="butt", **shape)
    half = (0.035 * styled.width + 0.01) * 1j * face
    corners = np.array([tip, neck + half, neck - half])
    ax.add_patch(Polygon(np.column_stack((corners.real, corners.imag)), linewidth=0, **shape))


def write(
    ax: Axes,
    text: str,
    x: float,
    y: float,
    *,
    height: float,
    widest: float = math.inf,
    colour: str = LIGHT.text,
    corner: bool = False,
) -> None:
    """Write text as an outline in units of cells, so that it scales with the picture.

    The text is centred on (x, y), or has its bottom-right ``corner`` there.
    """
    path = TextPath((0, 0), text, size=1, prop=_FONT)
    box = path.get_extents()
    scale = min(height / _FIGURE_HEIGHT, widest / box.width)
    anchor = (box.x1, box.y0) if corner else ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
    place = Affine2D().translate(-anchor[0], -anchor[1]).scale(scale, -scale).translate(x, y)
    patch = PathPatch(path.transformed(place), facecolor=colour, edgecolor="none", zorder=4.5)
    patch.set_gid(text)
    ax.add_patch(patch)


_FIGURE_HEIGHT = TextPath((0, 0), "8", size=1, prop=_FONT).get_extents().height
