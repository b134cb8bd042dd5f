"""The reference simulator against what anyone can check with a finger on the map."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from drest_torch.envs.levels import Button, Level, parse_level, world
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
    random_policy,
    sample_policy,
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


# ------------------------------------------------------------------------------ the paper's worlds

# (world, actions, (tick, value) of every coin): the last action ends the mini-episode, none before it does.
PLAYED = [
    ("example", "UUDR", [(2, 1)]),
    ("example", "LLUU", [(4, 2)]),
    ("example", "URRDUUUU", [(8, 3)]),
    ("example", "URRDULLU", [(8, 1)]),
    ("example", "DDDD", []),
    ("fewer_for_longer", "LLU", [(3, 3)]),
    ("fewer_for_longer", "LLL", [(3, 2)]),
    ("fewer_for_longer", "DDDLLL", [(6, 1)]),
    ("one_coin_only", "RRRD", [(4, 1)]),
    ("one_coin_only", "DDDRRRUU", [(8, 1)]),
    ("hidden_treasure", "LLLL", [(4, 1)]),
    ("hidden_treasure", "LUURUULLRR", [(6, 2)]),
    ("hidden_treasure", "LUURULLLLU", [(10, 3)]),
    ("equal_value", "LUU", [(3, 1)]),
    ("equal_value", "RRRUUU", [(6, 1)]),
    ("around_the_corner", "DRRU", [(4, 1)]),
    ("around_the_corner", "UUURDRRU", [(8, 2)]),
    ("spacious", "DDL", [(3, 2)]),
    ("spacious", "LLLUU", [(5, 3)]),
    ("royal_road", "UUUUR", [(5, 1)]),
    ("royal_road", "UUUULL", [(6, 2)]),
    ("last_moment", "RDRDR", [(5, 1)]),
    ("last_moment", "RDRDDDLL", [(8, 3)]),
    ("last_moment", "RDRDDDRR", [(8, 2)]),
    ("lopsided", "DR", [(2, 1)]),
    ("lopsided", "LUUL", [(4, 1)]),
]


@pytest.mark.parametrize(("name", "keys", "coins"), PLAYED)
def test_action_strings_end_when_and_collect_what_the_map_says(
    name: str, keys: str, coins: list[tuple[int, float]]
) -> None:
    state = Simulator(world(name))
    collected = []
    for key in keys:
        assert not state.done
        value = state.step(KEYS[key])
        if value:
            collected.append((state.ticks, value))
    assert state.done
    assert state.ticks == len(keys)
    assert collected == coins


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


def test_the_treasure_is_the_best_without_a_discount() -> None:
    assert searched_optima(world("hidden_treasure"), 1.0) == {4: 1.0, 10: 3.0}


@pytest.mark.parametrize("x", [0.01, 1.0, 70.5])
def test_lopsided_offers_1_or_x(x: float) -> None:
    assert searched_optima(world("lopsided", x=x), 1.0) == {2: 1.0, 4: x}


# ------------------------------------------------------------------------------------ single rules


def test_what_is_visible_at_the_start_of_the_example() -> None:
    state = Simulator(world("example"))
    assert (state.row, state.column) == (4, 2)
    assert state.coins_present == (True, True, True)
    assert state.buttons_present == (True,)
    assert (state.time_left, state.ticks, state.done) == (4, 0, False)
    assert state.observation == (2, 4, 1, 1, 1, 1)


def test_observations_along_the_way_of_the_example() -> None:
    state = Simulator(world("example"))
    seen = []
    for key in "UURR":
        state.step(KEYS[key])
        seen.append((state.observation, state.time_left))
    # Coins in reading order: C3, C2, C1. C1 goes at the second action; to the right of it is a wall.
    assert seen == [
        ((2, 3, 1, 1, 1, 1), 3),
        ((2, 2, 1, 1, 0, 1), 2),
        ((2, 2, 1, 1, 0, 1), 1),
        ((2, 2, 1, 1, 0, 1), 0),
    ]


def test_a_coin_and_a_button_are_there_once() -> None:
    level = level_of("C2 A B3", shutdown=4)
    state, collected = play(level, "LRRLRLL")
    assert collected == [2, 0, 0, 0, 0, 0, 0]
    assert (state.ticks, state.time_left, state.done) == (7, 0, True)
    assert state.observation == (0, 0, 0, 0)


def test_a_button_adds_its_delay_at_the_moment_it_is_entered() -> None:
    state = Simulator(level_of("A B5 . C1", shutdown=3))
    state.step(RIGHT)
    assert (state.time_left, state.ticks) == (7, 1)
    state.step(LEFT)
    state.step(RIGHT)
    assert (state.time_left, state.ticks) == (5, 3)


def test_a_button_on_the_last_tick_saves_the_mini_episode() -> None:
    state, _ = play(level_of("A . B1 C4", shutdown=2), "RR")
    assert (state.time_left, state.done) == (1, False)
    assert state.step(RIGHT) == 4
    assert (state.ticks, state.done) == (3, True)


def test_a_coin_on_the_last_tick_counts_and_one_step_further_does_not() -> None:
    assert searched_optima(level_of("A . C4", shutdown=2), 0.5) == {2: 2.0}
    assert searched_optima(level_of("A . . C4", shutdown=2), 0.5) == {2: 0.0}


def test_no_action_after_the_end() -> None:
    state, _ = play(level_of("A C1", shutdown=1), "R")
    with pytest.raises(RuntimeError, match="ended"):
        state.step(LEFT)


@pytest.mark.parametrize("action", [-1, 4])
def test_there_are_four_actions(action: int) -> None:
    with pytest.raises(ValueError, match=r"expected 0 \(up\)"):
        Simulator(world("example")).step(action)


BUMPS = [("U", "the edge above"), ("D", "a wall below"), ("L", "the edge to the left"), ("R", "a wall to the right")]


@pytest.mark.parametrize(("key", "why"), BUMPS)
def test_a_bump_takes_a_tick_of_the_clock_of_steps(key: str, why: str) -> None:
    state, collected = play(level_of("A #", "# C1", shutdown=3), key)
    assert collected == [0]
    assert state.state == (0, 0, (True,), (), 2), why
    assert state.ticks == 1


@pytest.mark.parametrize(("key", "why"), BUMPS)
def test_a_bump_changes_nothing_on_the_clock_of_moves(key: str, why: str) -> None:
    state, collected = play(level_of("A #", "# C1", shutdown=3, clock="moves"), key * 10)
    assert collected == [0] * 10
    assert state.state == (0, 0, (True,), (), 3), why
    assert state.ticks == 0


def test_the_far_edges_are_walls_too() -> None:
    state, _ = play(level_of("C1 .", ". A", shutdown=5), "DR")
    assert (state.row, state.column, state.ticks) == (1, 1, 2)


def test_a_bump_at_a_cell_whose_coin_is_gone_collects_nothing() -> None:
    _, collected = play(level_of("A C3", shutdown=4), "RRRR")
    assert collected == [3, 0, 0, 0]


def test_on_the_clock_of_moves_the_discount_counts_moves() -> None:
    level = level_of("A . C4", shutdown=2, clock="moves")
    state, total = Simulator(level), 0.0
    for key in "UURDR":
        tick = state.ticks
        total += 0.5**tick * state.step(KEYS[key])
    assert (state.ticks, state.done, total) == (2, True, 2.0)


def test_a_button_that_fails_disappears_and_adds_nothing() -> None:
    level = level_of("A B3@0.5 C1", shutdown=2)
    works, _ = play(level, "R", button_works=True)
    fails, _ = play(level, "R", button_works=False)
    assert works.state == (0, 1, (True,), (False,), 4)
    assert fails.state == (0, 1, (True,), (False,), 1)


def test_the_outcome_of_a_button_is_asked_once_when_it_is_entered() -> None:
    asked = []

    def works(button: Button) -> bool:
        asked.append(button.chance)
        return True

    state = Simulator(level_of("A . B3@0.25 C1", shutdown=3))
    for key in "URRLR":
        state.step(KEYS[key], button_works=works)
    assert asked == [0.25]
    assert (state.ticks, state.time_left) == (5, 1)


# ------------------------------------------------------------------------------------------ optima


def test_optima_of_a_corridor_by_hand() -> None:
    # Two ticks: the coin at once, or the button at once and back for the coin, on tick 3 of 5.
    assert exhaustive_optima(level_of("C1 A B3", shutdown=2), 0.5) == {2: 1.0, 5: 0.25}
    # Three ticks: the coin first, and the button on the last tick.
    assert exhaustive_optima(level_of("C1 A B3", shutdown=3), 0.5) == {3: 1.0, 6: 1.0}


def test_two_buttons_make_four_lengths() -> None:
    optima = exhaustive_optima(level_of("B1 A B2", ". C1 .", shutdown=3), 1.0)
    assert optima == {3: 1.0, 4: 1.0, 5: 1.0, 6: 1.0}


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


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.3])
def test_searched_and_exhaustive_optima_agree(gamma: float) -> None:
    rng = random.Random(1)
    several = 0
    for _ in range(40):
        level = random_level(rng, max_ticks=5, chances=True, clock=None)
        exhaustive = exhaustive_optima(level, gamma)
        assert searched_optima(level, gamma) == exhaustive, level.rows()
        several += len(exhaustive) > 1
    assert several >= 20


# ---------------------------------------------------------------------------------------- policies

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


def test_a_policy_that_only_bumps() -> None:
    def up(state: Simulator) -> list[int]:
        return [1, 0, 0, 0]

    assert enumerate_policy(level_of("A C1", shutdown=3), up, 1.0) == {3: (1, 0)}
    assert enumerate_policy(level_of("A C1", shutdown=3, clock="moves"), up, 1.0) == {}
    with pytest.raises(RuntimeError, match="only bump"):
        sample_policy(level_of("A C1", shutdown=3, clock="moves"), up, 1.0, random.Random(0))


def test_mass_that_gets_stuck_appears_under_no_length() -> None:
    def left_or_right_then_up(state: Simulator) -> list[Any]:
        return [1, 0, 0, 0] if state.observation[0] == 0 else [0, 0, QUARTER, 3 * QUARTER]

    level = level_of(". A C1", shutdown=1, clock="moves")
    assert enumerate_policy(level, left_or_right_then_up, 1.0) == {1: (1, 3 * QUARTER)}
    # Left, 1/4: stuck. Right, 3/4: then left 1/4 (and the end) or right 3/4 (the coin, and the end).
    longer = level_of(". A . C1", shutdown=2, clock="moves")
    assert enumerate_policy(longer, left_or_right_then_up, 1.0) == {2: (3 * QUARTER, 9 * QUARTER**2)}


def test_a_policy_may_look_at_the_time() -> None:
    def right_at_first(state: Simulator) -> list[int]:
        return [0, 0, 0, 1] if state.time_left > 2 else [0, 0, 1, 0]

    assert enumerate_policy(level_of("C8 A . C1", shutdown=4), right_at_first, 0.5) == {4: (1, 0.5)}
    assert enumerate_policy(level_of("C8 A . C1", shutdown=3), right_at_first, 0.5) == {3: (1, 2.0)}


@pytest.mark.parametrize("clock", ["steps", "moves"])
def test_a_sampled_mini_episode_of_a_policy_without_a_choice(clock: str) -> None:
    def right(state: Simulator) -> list[int]:
        return [0, 0, 0, 1]

    level = level_of("A C1 B2 C4 . .", shutdown=3, clock=clock)
    assert sample_policy(level, right, 0.5, random.Random(0)) == (5, 1.0 + 0.25 * 4)
    assert enumerate_policy(level, right, 0.5) == {5: (1, 2.0)}


@pytest.mark.parametrize("sees_time", [False, True])
def test_what_a_policy_is_sure_to_do(sees_time: bool) -> None:
    rng = random.Random(2)
    for number in range(30):
        level = random_level(rng, max_ticks=6, chances=True, clock=None)
        found = enumerate_policy(level, random_policy(number, sees_time=sees_time), 0.9)
        optima = searched_optima(level, 0.9)
        assert set(found) == set(optima)  # the policy gives every action some probability
        assert math.isclose(sum(chance for chance, _ in found.values()), 1)
        for length, (chance, coins) in found.items():
            assert 0 <= coins <= chance * optima[length] * (1 + 1e-12)


@pytest.mark.parametrize("clock", ["steps", "moves"])
@pytest.mark.parametrize("sees_time", [False, True])
def test_sampled_mini_episodes_agree_with_enumerated_ones(clock: str, sees_time: bool) -> None:
    plays = 4000
    level = level_of("C2 B2@0.5 C0.5", "B1 A .", "# . C1", shutdown=3, clock=clock)
    policy = random_policy(7, sees_time=sees_time)
    expected = enumerate_policy(level, policy, 0.9)
    assert len(expected) == 4
    rng = random.Random(3)
    sampled = [sample_policy(level, policy, 0.9, rng) for _ in range(plays)]
    counts = Counter(length for length, _ in sampled)
    assert set(counts) <= set(expected)
    for length, (chance, coins) in expected.items():
        # Five standard deviations; a mini-episode holds at most 3.5.
        assert abs(counts[length] / plays - chance) < 5 * math.sqrt(chance * (1 - chance) / plays)
        found = sum(total for at, total in sampled if at == length) / plays
        assert abs(found - coins) < 5 * 3.5 * math.sqrt(chance / plays)


# ----------------------------------------------------------------------------------- random levels


def test_random_levels_keep_their_promises() -> None:
    rng = random.Random(4)
    levels = [random_level(rng, max_ticks=6, chances=True, clock=None) for _ in range(150)]
    for level in levels:
        assert level.max_time <= 6
        assert 1 <= len(level.coins) <= 3
        assert 1 <= len(level.buttons) <= 3
        assert level.height <= 4
        assert level.width <= 4
        start = Simulator(level)
        assert not all(start.is_bump(action) for action in ACTIONS)
        assert max(searched_optima(level, 1.0).values()) > 0
    # All kinds turn up.
    assert {level.clock for level in levels} == {"steps", "moves"}
    assert {len(level.coins) for level in levels} == {1, 2, 3}
    assert {len(level.buttons) for level in levels} == {1, 2, 3}
    assert any(coin.value % 1 for level in levels for coin in level.coins)
    assert any(button.chance < 1 for level in levels for button in level.buttons)
    assert any(button.chance == 1 for level in levels for button in level.buttons)
    assert any(any(row) for level in levels for row in level.walls)
    assert {level.height for level in levels} == {level.width for level in levels} == {1, 2, 3, 4}


def test_random_levels_have_only_what_is_asked_for() -> None:
    rng = random.Random(5)
    for _ in range(40):
        level = random_level(rng, buttons=False, decimals=False, clock="moves")
        assert level.buttons == ()
        assert level.clock == "moves"
        assert all(coin.value == int(coin.value) for coin in level.coins)
        sure = random_level(rng)
        assert sure.clock == "steps"
        assert all(button.chance == 1 for button in sure.buttons)


def test_random_levels_are_the_same_for_the_same_seed() -> None:
    first, second, other = (random_level(random.Random(seed)) for seed in (6, 6, 7))
    assert first == second
    assert first != other
