"""Symmetries and canonical keys, against coordinates worked out one by one."""

import random
from dataclasses import replace

import pytest
import torch

from drest_torch.envs.actions import STEPS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import LevelError, level_from_record, level_to_record, parse_level, world
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, canonical_key, symmetries, transform
from tests.helpers.simulator import every, random_levels

TEXT = "shutdown: 3\nA C1 #\n. B2@0.5 C2.5"
"""Its map looks like no other symmetry of it."""


MIXED = {"max_ticks": 7, "chances": True, "doors": every(2), "clock": None}
"""Options of random levels."""


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


def test_the_level_itself_comes_first_and_a_ninth_is_refused():
    level = parse_level(TEXT)
    assert symmetries(level)[0] == level
    for index in (-1, NUM_SYMMETRIES):
        with pytest.raises(LevelError, match=f"symmetry {index}; expected a number from 0 to 7"):
            transform(level, index)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_lengths_and_optima_are_the_same_under_all_symmetries_and_in_a_frame(gamma):
    levels = random_levels(100, 2, **MIXED)
    optima = solve(compile_levels(levels), gamma)
    for index in range(NUM_SYMMETRIES):
        turned = solve(compile_levels([framed(transform(level, index), 1, 0, 0, 2) for level in levels]), gamma)
        assert torch.equal(turned.lengths, optima.lengths)
        assert torch.equal(turned.best_return, optima.best_return)


def test_keys_are_equal_for_all_symmetries_and_translations():
    rng = random.Random(3)
    for level in random_levels(200, 3, **MIXED):
        for turned in symmetries(level):
            moved = framed(turned, *(rng.randint(0, 2) for _ in range(4)))
            assert canonical_key(moved) == canonical_key(level)


def test_keys_agree_with_a_comparison_by_hand():
    # On maps of 2 by 2 many pairs are the same, and many more all but the same.
    few = {"max_rows": 2, "max_columns": 2, "max_coins": 2, "max_buttons": 1, "max_ticks": 3, "decimals": False}
    levels = random_levels(250, 4, doors=every(2), **few)
    keys, ways = [canonical_key(level) for level in levels], [forms(level) for level in levels]
    same = 0
    for i in range(len(levels)):
        for j in range(i):
            expected = ways[i][0] in ways[j]
            same += expected
            assert (keys[i] == keys[j]) == expected
    assert 30 < same < 10_000


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("shutdown: 3", "shutdown: 4"),
        TEXT.replace("shutdown: 3", "shutdown: 3\nclock: moves"),
        TEXT.replace("C2.5", "C2.6"),
        TEXT.replace("B2@0.5", "B3@0.5"),
        TEXT.replace("B2@0.5", "B2@0.4"),
        TEXT.replace("B2@0.5", "B2"),
        TEXT.replace("#", "."),
        TEXT.replace("#", "<"),
        TEXT.replace("#", "v"),
        TEXT.replace("A C1", "C1 A"),
        TEXT.replace("C1 #", "# C1"),
    ],
)
def test_any_rule_of_a_level_makes_a_difference(text):
    assert canonical_key(parse_level(text)) != canonical_key(parse_level(TEXT))


def test_name_study_and_source_make_no_difference():
    level = world("example")
    other = replace(level, name="other", study={}, source="elsewhere.txt")
    assert canonical_key(level) == canonical_key(other)
