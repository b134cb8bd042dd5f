"""Symmetries by hand, and keys that are equal only for symmetric levels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.levels import level_from_record, level_to_record, parse_level
from drest_torch.envs.levels.symmetry import canonical_key, symmetries
from tests.helpers.simulator import MIXED, levels


def framed(level, up, down, left, right):
    """Return the level within this number of extra rows and columns of wall."""
    wall = " ".join("#" * (left + level.width + right))
    rows = [" ".join(["#"] * left + [row] + ["#"] * right) for row in level.rows()]
    return level_from_record(level_to_record(level) | {"map": [wall] * up + rows + [wall] * down})


def test_the_eight_symmetries_by_hand():
    level = parse_level("shutdown: 3\nA C1 #\n> B2@0.5 C2.5")  # a map without symmetries
    assert [symmetry.rows() for symmetry in symmetries(level)] == [
        ["A C1 #", "> B2@0.5 C2.5"],
        ["v A", "B2@0.5 C1", "C2.5 #"],
        ["C2.5 B2@0.5 <", "# C1 A"],
        ["# C2.5", "C1 B2@0.5", "A ^"],
        ["# C1 A", "C2.5 B2@0.5 <"],
        ["C2.5 #", "B2@0.5 C1", "^ A"],
        ["> B2@0.5 C2.5", "A C1 #"],
        ["A v", "C1 B2@0.5", "# C2.5"],
    ]


@given(levels(4, lotteries=(0, 0, 1), **MIXED), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_keys_are_equal_for_moved_symmetries(levels, frame):
    for level in levels:
        for turned in symmetries(level):
            assert canonical_key(framed(turned, *frame)) == canonical_key(level)


@pytest.mark.parametrize(
    "changed",
    [
        "shutdown: 4\nclock: moves\n\nA C1\n.  B2",
        "shutdown: 5\n\nA C1\n.  B2",
        "shutdown: 4\n\nA C2\n.  B2",
        "shutdown: 4\n\nA C1\n.  B2@0.5",
        "shutdown: 4\n\nA C1\n#  B2",
        "shutdown: 4\n\nA B2\nC1 .",
    ],
)
def test_keys_differ_where_the_task_does(changed):
    level = parse_level("shutdown: 4\n\nA C1\n.  B2")
    assert canonical_key(parse_level(changed)) != canonical_key(level)
