"""The reference simulator against what anyone can check with a finger on the map."""

import pytest

from drest_torch.envs.levels import parse_level
from tests.helpers.simulator import DOWN, LEFT, RIGHT, UP, Simulator

KEYS = {"U": UP, "D": DOWN, "L": LEFT, "R": RIGHT}


def level_of(rows, shutdown, clock="steps"):
    return parse_level("\n".join([f"shutdown: {shutdown}", f"clock: {clock}", *rows.split("/")]))


# (rows, shutdown, clock, actions, whether buttons work, coins collected, the state after)
RULES = [
    ("C2 A B3", 4, "steps", "LRRLRLL", True, [2, 0, 0, 0, 0, 0, 0], (0, 0, (False, False), 0)),
    ("A B5 . C1", 3, "steps", "RLR", True, [0, 0, 0], (0, 1, (True, False), 5)),
    ("A . B1 C4", 2, "steps", "RRR", True, [0, 0, 4], (0, 3, (False, False), 0)),
    ("A C3", 4, "steps", "RRR", True, [3, 0, 0], (0, 1, (False,), 1)),
    *[("A #/# C1", 3, "steps", key, True, [0], (0, 0, (True,), 2)) for key in "UDLR"],
    *[("A #/# C1", 3, "moves", key * 3, True, [0] * 3, (0, 0, (True,), 3)) for key in "UDLR"],
    ("C1 ./. A", 5, "steps", "DR", True, [0, 0], (1, 1, (True,), 3)),
    ("A B3@0.5 C1", 2, "steps", "R", True, [0], (0, 1, (True, False), 4)),
    ("A B3@0.5 C1", 2, "steps", "R", False, [0], (0, 1, (True, False), 1)),
]


@pytest.mark.parametrize(("rows", "shutdown", "clock", "keys", "works", "coins", "after"), RULES)
def test_single_rules(rows, shutdown, clock, keys, works, coins, after):
    state = Simulator(level_of(rows, shutdown, clock))
    collected = [state.step(KEYS[key], button_works=works) for key in keys]
    assert (collected, state.state) == (coins, after)
