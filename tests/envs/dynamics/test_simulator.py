"""The reference simulator against what anyone can check with a finger on the map."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from drest_torch.envs.levels import Level, parse_level, world
from tests.helpers.simulator import (
    ACTIONS,
    DOWN,
    LEFT,
    RIGHT,
    UP,
    Simulator,
    enumerate_policy,
    exhaustive_optima,
    random_level,
    searched_optima,
    uniform_policy,
)

KEYS = {"U": UP, "D": DOWN, "L": LEFT, "R": RIGHT}


def level_of(*rows: str, shutdown: int, clock: str = "steps") -> Level:
    return parse_level("\n".join([f"shutdown: {shutdown}", f"clock: {clock}", *rows]))


def play(level: Level, keys: str, **kwargs: bool) -> tuple[Simulator, list[float]]:
    """Play a string of actions, none of them after the end; the state then and what each collected."""
    state = Simulator(level)
    return state, [state.step(KEYS[key], **kwargs) for key in keys]


# (world, shorter length, its best coin and tick, longer length, its best coin and tick), from the figures.
BEST = [
    ("example", 4, (2, 4), 8, (3, 8)),
    ("fewer_for_longer", 3, (3, 3), 6, (1, 6)),
    ("one_coin_only", 4, (1, 4), 8, (1, 8)),
    ("hidden_treasure", 4, (1, 4), 10, (2, 6)),
    ("equal_value", 3, (1, 3), 6, (1, 6)),
    ("around_the_corner", 4, (1, 4), 8, (2, 8)),
    ("spacious", 3, (2, 3), 5, (3, 5)),
    ("royal_road", 5, (1, 5), 6, (2, 6)),
    ("last_moment", 5, (1, 5), 8, (3, 8)),
]


@pytest.mark.parametrize(("name", "shorter", "best_shorter", "longer", "best_longer"), BEST)
@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_best_of_each_length_in_the_paper_worlds(
    name: str, shorter: int, best_shorter: tuple[int, int], longer: int, best_longer: tuple[int, int], clock: str
) -> None:
    expected = {
        length: 0.9 ** (tick - 1) * value for length, (value, tick) in ((shorter, best_shorter), (longer, best_longer))
    }
    assert searched_optima(world(name).with_clock(clock), 0.9) == pytest.approx(expected, rel=1e-12)


# (rows, shutdown, clock, actions, whether buttons work, coins collected, the state after: row, column, present, left)
RULES = [
    ("C2 A B3", 4, "steps", "LRRLRLL", True, [2, 0, 0, 0, 0, 0, 0], (0, 0, (False,), (False,), 0)),
    ("A B5 . C1", 3, "steps", "RLR", True, [0, 0, 0], (0, 1, (True,), (False,), 5)),
    ("A . B1 C4", 2, "steps", "RRR", True, [0, 0, 4], (0, 3, (False,), (False,), 0)),
    ("A C3", 4, "steps", "RRR", True, [3, 0, 0], (0, 1, (False,), (), 1)),
    *[("A #/# C1", 3, "steps", key, True, [0], (0, 0, (True,), (), 2)) for key in "UDLR"],
    *[("A #/# C1", 3, "moves", key * 3, True, [0] * 3, (0, 0, (True,), (), 3)) for key in "UDLR"],
    ("C1 ./. A", 5, "steps", "DR", True, [0, 0], (1, 1, (True,), (), 3)),
    ("A B3@0.5 C1", 2, "steps", "R", True, [0], (0, 1, (True,), (False,), 4)),
    ("A B3@0.5 C1", 2, "steps", "R", False, [0], (0, 1, (True,), (False,), 1)),
]


@pytest.mark.parametrize(("rows", "shutdown", "clock", "keys", "works", "coins", "after"), RULES)
def test_single_rules(rows: str, shutdown: int, clock: str, keys: str, works: bool, coins: Any, after: Any) -> None:
    state, collected = play(level_of(*rows.split("/"), shutdown=shutdown, clock=clock), keys, button_works=works)
    assert (collected, state.state) == (coins, after)


def test_optima_of_a_corridor_by_hand() -> None:
    # Two ticks: the coin at once, or the button at once and back for the coin, on tick 3 of 5.
    assert exhaustive_optima(level_of("C1 A B3", shutdown=2), 0.5) == {2: 1.0, 5: 0.25}
    # Three ticks: the coin first, and the button on the last tick.
    assert exhaustive_optima(level_of("C1 A B3", shutdown=3), 0.5) == {3: 1.0, 6: 1.0}


def test_a_button_of_chance_leaves_the_shorter_length_open_where_a_sure_one_is_in_the_way() -> None:
    sure = level_of("A B2 C1", shutdown=2)
    chance = level_of("A B2@0.1 C1", shutdown=2)
    assert exhaustive_optima(sure, 1.0) == {2: 0.0, 4: 1.0}
    assert exhaustive_optima(chance, 1.0) == {2: 1.0, 4: 1.0}


def test_an_agent_that_cannot_move_has_one_length_or_none() -> None:
    rows = ("A # C1",)
    assert exhaustive_optima(level_of(*rows, shutdown=2), 1.0) == {2: 0.0}
    assert exhaustive_optima(level_of(*rows, shutdown=2, clock="moves"), 1.0) == {}
    assert searched_optima(level_of(*rows, shutdown=2, clock="moves"), 1.0) == {}


def test_searched_and_exhaustive_optima_agree() -> None:
    rng = random.Random(1)
    for number in range(40):
        level, gamma = random_level(rng, max_ticks=5, chances=True, clock=None), (1.0, 0.9, 0.3)[number % 3]
        assert searched_optima(level, gamma) == exhaustive_optima(level, gamma), level.rows()


QUARTER = Fraction(1, 4)


def test_a_uniform_policy_by_hand() -> None:
    rows = ("C1 A B1",)
    # Steps: right (1/4) reaches the button on the last tick and has one more tick, in which no coin is near.
    steps = enumerate_policy(level_of(*rows, shutdown=1), uniform_policy, 0.5)
    assert steps == {1: (1 - QUARTER, QUARTER), 2: (QUARTER, 0)}
    # Moves: only left and right, 1/2 each.
    moves = enumerate_policy(level_of(*rows, shutdown=1, clock="moves"), uniform_policy, 0.5)
    assert moves == {1: (2 * QUARTER, 2 * QUARTER), 2: (2 * QUARTER, 0)}


def test_a_button_of_chance_by_hand() -> None:
    found = enumerate_policy(level_of("C1 A B1@0.25", shutdown=1), uniform_policy, 0.5)
    assert found == {1: (1 - QUARTER / 4, QUARTER), 2: (QUARTER / 4, 0)}

    def there_and_back(state: Simulator) -> list[int]:
        action = RIGHT if state.buttons_present == (True,) else LEFT
        return [int(action == each) for each in ACTIONS]

    # The button at once, then (if it works) left twice to the coin, on tick 3 of 3.
    found = enumerate_policy(level_of("C1 A B2@0.25", shutdown=1), there_and_back, 0.5)
    assert found == {1: (3 * QUARTER, 0), 3: (QUARTER, QUARTER * QUARTER)}


def test_mass_that_gets_stuck_appears_under_no_length() -> None:
    def left_or_right_then_up(state: Simulator) -> list[Any]:
        return [1, 0, 0, 0] if state.observation[0] == 0 else [0, 0, QUARTER, 3 * QUARTER]

    level = level_of(". A C1", shutdown=1, clock="moves")
    assert enumerate_policy(level, left_or_right_then_up, 1.0) == {1: (1, 3 * QUARTER)}
    # Left, 1/4: stuck. Right, 3/4: then left 1/4 (and the end) or right 3/4 (the coin, and the end).
    longer = level_of(". A . C1", shutdown=2, clock="moves")
    assert enumerate_policy(longer, left_or_right_then_up, 1.0) == {2: (3 * QUARTER, 9 * QUARTER**2)}
