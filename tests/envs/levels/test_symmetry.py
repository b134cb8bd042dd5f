"""Symmetries and canonical keys, against coordinates worked out one by one."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.actions import STEPS
from drest_torch.envs.levels import level_from_record, level_to_record, parse_level
from drest_torch.envs.levels.symmetry import canonical_key, symmetries
from tests.helpers.simulator import MIXED, levels, random_levels

TEXT = "shutdown: 3\nA C1 #\n. B2@0.5 C2.5"
"""Its map looks like no other symmetry of it."""


def framed(level, up, down, left, right):
    """The same level within so many more rows and columns of wall."""
    width = level.width + left + right
    rows = [("#" * left + "." * level.width + "#" * right).replace("", " ").split() for _ in level.walls]
    for row, cells in zip(rows, level.rows(), strict=True):
        row[left : left + level.width] = cells.split()
    rows = [["#"] * width] * up + rows + [["#"] * width] * down
    return level_from_record(level_to_record(level) | {"map": [" ".join(row) for row in rows]})


def things_by_place(level):
    """All that a level says of its map, as a dict from (row, column)."""
    cells = {(r, c): "#" if wall else "." for r, row in enumerate(level.walls) for c, wall in enumerate(row)}
    cells[level.start] = "A"
    cells |= {(coin.row, coin.column): ("C", coin.value) for coin in level.coins}
    cells |= {(door.row, door.column): ("D", *STEPS[door.direction]) for door in level.fixtures}
    return cells | {(button.row, button.column): ("B", button.delay, button.chance) for button in level.buttons}


def forms(level):
    """The level in all eight ways, each as its rules and its cells without walls, counted from their corner."""
    free = {at: what for at, what in things_by_place(level).items() if what != "#"}
    ways = [lambda r, c: (r, c), lambda r, c: (c, -r), lambda r, c: (-r, -c), lambda r, c: (-c, r)]
    ways += [lambda r, c, way=way: way(r, -c) for way in ways]

    def seen(what, way):
        return ("D", *way(*what[1:])) if what[0] == "D" else what

    return [
        (level.shutdown, level.clock, to_corner({way(*at): seen(what, way) for at, what in free.items()}))
        for way in ways
    ]


def to_corner(cells):
    top, left = min(r for r, _ in cells), min(c for _, c in cells)
    return {(r - top, c - left): what for (r, c), what in cells.items()}


def test_the_eight_symmetries_by_hand():
    assert [level.rows() for level in symmetries(parse_level(TEXT))] == [
        ["A C1 #", ". B2@0.5 C2.5"],
        [". A", "B2@0.5 C1", "C2.5 #"],
        ["C2.5 B2@0.5 .", "# C1 A"],
        ["# C2.5", "C1 B2@0.5", "A ."],
        ["# C1 A", "C2.5 B2@0.5 ."],
        ["C2.5 #", "B2@0.5 C1", ". A"],
        [". B2@0.5 C2.5", "A C1 #"],
        ["A .", "C1 B2@0.5", "# C2.5"],
    ]


@given(levels(4, lotteries=(0, 0, 1), **MIXED), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_keys_are_equal_for_all_symmetries_and_translations(levels, frame):
    for level in levels:
        for turned in symmetries(level):
            assert canonical_key(framed(turned, *frame)) == canonical_key(level)


def test_keys_agree_with_a_comparison_by_hand():
    # On maps of 2 by 2 many pairs are the same, and many more all but the same.
    few = {"max_rows": 2, "max_columns": 2, "max_coins": 2, "max_buttons": 1, "max_ticks": 3, "decimals": False}
    levels = [replace(level, study={"title": level.name}) for level in random_levels(300, 4, **few, **MIXED)]
    keys, ways = [canonical_key(level) for level in levels], [forms(level) for level in levels]
    same = 0
    for i in range(len(levels)):
        for j in range(i):
            expected = ways[i][0] in ways[j]
            same += expected
            assert (keys[i] == keys[j]) == expected
    assert 30 < same < 10_000
