"""Maps as text and as pictures: every cell shows its content."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrow

from drest_torch.envs.levels import parse_level, world
from drest_torch.envs.view.rendering import StyledRoute, arrows_text, render, to_text

SHORT = [(4, 2), (4, 1), (4, 0), (3, 0), (2, 0)]  # in `example`: to C2
LONG = [(4, 2), (3, 2), (3, 3), (3, 4), (4, 4), (3, 4), (2, 4), (1, 4), (0, 4)]  # to B4, then C3


def axes_of(level, **over):
    ax = Figure().add_subplot()
    render(level, ax, **over)
    return ax


def test_a_route_is_arrows_on_the_floor_of_a_map():
    text = to_text(world("example"), colour=False, route=SHORT)
    rows = [" ".join(row.split()) for row in text.splitlines()[2:]]
    assert rows == ["C2 # C1 # .", "↑ # . . .", "↑ ← A # B4"]


def test_the_text_of_a_route_has_one_sign_for_each_tick():
    assert arrows_text(LONG) == "↑→→↓↑↑↑↑"
    assert arrows_text([(0, 0), (0, 0), (0, 1), (0, 0)]) == "·→←"


def test_a_picture_has_labels_of_the_remaining_objects():
    for taken, gone in ((0, set()), (0b1000, {"B4"}), (0b0001, {"C3"})):  # C3 is the first in reading order
        names = [patch.get_gid() for patch in axes_of(world("example"), taken=taken).patches if patch.get_gid()]
        assert sorted(names) == sorted({"4", "A", "B4", "C1", "C2", "C3"} - gone)


def test_an_arrow_is_thicker_the_more_likely_its_move():
    level = world("example")
    arrows = np.full((5, 5, 4), np.nan)
    arrows[4, 2] = [0.5, 0, 0.25, 0.25]
    drawn = [patch for patch in axes_of(level, arrows=arrows).patches if isinstance(patch, FancyArrow)]
    up, left, right = (patch.get_path().get_extents() for patch in drawn)  # the 0 is left out, as is NaN
    assert up.width == pytest.approx(0.04 + 0.5 * 0.18)
    assert left.height == right.height == pytest.approx(0.04 + 0.25 * 0.18)
    assert 4 < up.y0 < up.y1 < 4.5  # y points down
    assert 2 < left.x0 < left.x1 < 2.5 < right.x0 < right.x1 < 3


@pytest.mark.parametrize("route", [SHORT, LONG, [*SHORT, *SHORT[::-1]], [(4, 2), (4, 2), (4, 1)]])
def test_a_route_is_drawn_only_through_its_cells(route):
    (line,) = axes_of(world("example"), routes=[StyledRoute(route)]).lines
    points = line.get_xydata()
    steps = np.linspace(0, 1, 50)[:, None]
    dense = np.concatenate([start + steps * (end - start) for start, end in pairwise(points)])
    assert {(int(y), int(x)) for x, y in dense} == set(route)


def test_opposite_moves_of_a_route_do_not_overlap():
    (line,) = axes_of(parse_level("shutdown: 9\nA . C1"), routes=[StyledRoute([(0, 0), (0, 1), (0, 0)])]).lines
    outward, back = line.get_xydata()[0], line.get_xydata()[-1]
    assert outward[1] > 0.5 > back[1]
