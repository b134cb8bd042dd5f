"""The reference simulator against what anyone can check with a finger on the map."""

import pytest

from drest_torch.envs.levels import parse_level
from tests.helpers.simulator import DOWN, LEFT, RIGHT, UP, Simulator, searched_optima

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


@pytest.mark.parametrize(
    ("rows", "shutdown", "clock", "optima"),
    [
        # Two ticks: the coin at once, or the button at once and back for the coin, on tick 3 of 5.
        ("C1 A B3", 2, "steps", {2: 1.0, 5: 0.25}),
        # Three ticks: the coin first, and the button on the last tick.
        ("C1 A B3", 3, "steps", {3: 1.0, 6: 1.0}),
        # A button of chance leaves the shorter length open where a sure one is in the way.
        ("A B2 C1", 2, "steps", {2: 0.0, 4: 0.5}),
        ("A B2@0.1 C1", 2, "steps", {2: 0.5, 4: 0.5}),
        # An agent that cannot move has one length, or none.
        ("A # C1", 2, "steps", {2: 0.0}),
        ("A # C1", 2, "moves", {}),
    ],
)
def test_optima_by_hand(rows, shutdown, clock, optima):
    assert searched_optima(level_of(rows, shutdown, clock), 0.5) == optima
