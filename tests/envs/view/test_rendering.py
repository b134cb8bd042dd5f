"""Maps as text and as pictures: what stands in each cell is what is drawn there."""

import re
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyArrow

from drest_torch.envs.levels import format_level, parse_level, world
from drest_torch.envs.view.rendering import PictureError, Way, arrows_text, render, save_picture, to_text

SHORT = [(4, 2), (4, 1), (4, 0), (3, 0), (2, 0)]  # in `example`: to C2
LONG = [(4, 2), (3, 2), (3, 3), (3, 4), (4, 4), (3, 4), (2, 4), (1, 4), (0, 4)]  # to B4, then C3
COLOURS = {"#": (77, 77, 77), "C": (249, 211, 91), "B": (220, 235, 245), "A": (255, 255, 255), ".": (255, 255, 255)}


def axes_of(level, **over):
    ax = Figure().add_subplot()
    render(level, ax, **over)
    return ax


def labels(ax):
    return sorted(patch.get_gid() for patch in ax.patches if patch.get_gid())


def test_colours_add_nothing_but_colour():
    level = parse_level("shutdown: 3\nA C12.5 .\n# B4@0.5 C3")
    coloured = to_text(level)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines()
    assert [row.split() for row in plain] == [row.split() for row in level.rows()]
    assert format_level(level).endswith(f"\n{to_text(level, colour=False)}\n")
    assert len({len(row) for row in plain}) == 1
    styles = {kind: re.search(rf"\x1b\[([0-9;]+)m +{re.escape(kind)}", coloured)[1] for kind in "#.ACB"}
    assert len(set(styles.values())) == 5


def test_a_route_is_arrows_on_the_floor_and_one_sign_a_tick():
    text = to_text(world("example"), colour=False, route=SHORT)
    rows = [" ".join(row.split()) for row in text.splitlines()[2:]]
    assert rows == ["C2 # C1 # .", "↑ # . . .", "↑ ← A # B4"]
    assert arrows_text(LONG) == "↑→→↓↑↑↑↑"
    assert arrows_text([(0, 0), (0, 0), (0, 1), (0, 0)]) == "·→←"


@pytest.mark.parametrize("name", ["example", "lopsided"])
def test_every_cell_of_the_picture_has_the_colour_of_what_is_there(name, tmp_path):
    level = world(name)
    save_picture(level, tmp_path / "level.png")
    pixels = np.rint(imread(tmp_path / "level.png")[..., :3] * 255).astype(int)
    margin = 0.15 * 160  # inches * dots
    side = (pixels.shape[0] - 2 * margin) / level.height
    for r, row in enumerate(level.rows()):
        for c, cell in enumerate(row.split()):
            y, x = int(margin + (r + 0.5 - 0.18) * side), int(margin + (c + 0.5) * side)
            assert tuple(pixels[y, x]) == COLOURS[cell[0]], (name, r, c, cell)


def test_the_picture_names_its_objects_but_what_is_taken():
    level = world("example")
    assert labels(axes_of(level)) == ["4", "A", "B4", "C1", "C2", "C3"]
    assert labels(axes_of(level, taken=0b1000)) == ["4", "A", "C1", "C2", "C3"]
    assert labels(axes_of(level, taken=0b0001)) == ["4", "A", "B4", "C1", "C2"]  # C3 is the first in reading order


@pytest.mark.parametrize("cell", ["C0.123456", "B12@0.125", "C3"])
def test_text_fits_its_cell(cell):
    ax = axes_of(parse_level(f"shutdown: 5\nA {cell} C1"))
    box = next(patch for patch in ax.patches if patch.get_gid() == cell).get_path().get_extents()
    assert 1.2 < box.x0 < box.x1 < 1.8
    assert 0.2 < box.y0 < box.y1 < 0.8


def test_opacity_of_an_arrow_is_the_probability():
    level = world("example")
    arrows = np.full((5, 5, 4), np.nan)
    arrows[4, 2] = [0.5, 0, 0.25, 0.25]
    drawn = [patch for patch in axes_of(level, arrows=arrows).patches if isinstance(patch, FancyArrow)]
    assert [patch.get_alpha() for patch in drawn] == [0.5, 0.25, 0.25]  # the 0 is left out, as is NaN
    up, left, right = (patch.get_path().get_extents() for patch in drawn)
    assert 4 < up.y0 < up.y1 < 4.5  # y points down
    assert 2 < left.x0 < left.x1 < 2.5 < right.x0 < right.x1 < 3


@pytest.mark.parametrize("route", [SHORT, LONG, [*SHORT, *SHORT[::-1]], [(4, 2), (4, 2), (4, 1)]])
def test_a_route_is_drawn_through_its_cells_alone(route):
    (line,) = axes_of(world("example"), ways=[Way(route)]).lines
    points = line.get_xydata()
    steps = np.linspace(0, 1, 50)[:, None]
    dense = np.concatenate([here + steps * (there - here) for here, there in pairwise(points)])
    assert {(int(y), int(x)) for x, y in dense} == set(route)


def test_a_way_back_lies_beside_the_way_there():
    (line,) = axes_of(parse_level("shutdown: 9\nA . C1"), ways=[Way([(0, 0), (0, 1), (0, 0)])]).lines
    there, back = line.get_xydata()[0], line.get_xydata()[-1]
    assert there[1] > 0.5 > back[1]


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_pictures_in_every_format(ending, tmp_path):
    path = tmp_path / "new" / f"level.{ending}"
    save_picture(world("lopsided"), path)
    assert path.stat().st_size > 1000
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with pytest.raises(PictureError, match=r"unknown kind of picture; expected the ending \.png, \.pdf, \.svg"):
        save_picture(world("lopsided"), path.with_suffix(".gif"))
