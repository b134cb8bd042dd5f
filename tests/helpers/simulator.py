"""The rules of a gridworld in plain Python, one mini-episode and one action at a time.

Written from the paper's prose (section 3), for readability. It shares no code with the tensors of the package. Tests
compare the tensors with it, and benchmarks measure their speed-up.

A *policy* here is a function from a :class:`Simulator` (its state) to the four probabilities of up, down, left and
right. A policy as in the paper depends only on ``observation``; a policy that observes the time may also depend on
``time_left``.
"""

import random
from collections.abc import Callable, Sequence
from copy import copy
from fractions import Fraction
from functools import cache
from string import ascii_lowercase
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from drest_torch.envs.levels import Button, Coin, Level, Lottery, parse_level
from drest_torch.envs.objects import Door, WorldObject

UP, DOWN, LEFT, RIGHT = ACTIONS = range(4)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""The change of row and column by each action."""

Policy = Callable[["Simulator"], Sequence[Any]]


class Simulator:
    """A mini-episode in a level, from its start."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.row, self.column = level.start
        self.present = (True,) * len(level.objects)
        self.time_left = level.shutdown
        self.ticks = 0

    @property
    def done(self) -> bool:
        return self.time_left == 0

    @property
    def observation(self) -> tuple[int, ...]:
        """The observation of the paper: x, y, then for each coin, button and lottery 1, or 0 once it is taken."""
        return (self.column, self.row, *map(int, self.present))

    @property
    def state(self) -> tuple[Any, ...]:
        """Everything on which the future depends; the elapsed time is not a part of it."""
        return (self.row, self.column, self.present, self.time_left)

    def copy(self) -> "Simulator":
        return copy(self)

    def is_wall(self, row: int, column: int) -> bool:
        """Return whether a cell is a wall or outside the map."""
        walls = self.level.walls
        inside = 0 <= row < len(walls) and 0 <= column < len(walls[row])
        return not inside or walls[row][column]

    def target(self, action: int) -> tuple[int, int]:
        """Return the cell to which an action tries to move."""
        down, right = MOVES[action]
        return self.row + down, self.column + right

    def is_bump(self, action: int) -> bool:
        """Return whether an action runs into a wall, or out of a one-way door against its direction."""
        for door in self.level.fixtures:
            if isinstance(door, Door) and (door.row, door.column) == (self.row, self.column):
                return action != door.direction
        return self.is_wall(*self.target(action))

    def ahead(self, action: int) -> WorldObject | None:
        """Return the coin, button or lottery that an action would enter, if any."""
        if self.is_bump(action):
            return None
        for thing, present in zip(self.level.objects, self.present, strict=True):
            if present and (thing.row, thing.column) == self.target(action):
                return thing
        return None

    def step(self, action: int, button_works: bool | Callable[[Button], bool] = True, outcome: int = 0) -> float:
        """Take an action, and return the value of the collected coin, or 0.

        ``button_works``: whether a button that is entered now adds its delay; may be a function of the button.
        ``outcome``: the index of the outcome of a lottery that is entered now.
        """
        if self.done:
            raise RuntimeError("the mini-episode has ended")
        collected, entered = 0.0, self.ahead(action)
        if not self.is_bump(action):
            self.row, self.column = self.target(action)
        elif self.level.clock == "moves":
            return collected
        if entered is not None:
            index = self.level.objects.index(entered)
            self.present = (*self.present[:index], False, *self.present[index + 1 :])
        if isinstance(entered, Coin):
            collected = entered.value
        elif isinstance(entered, Button):
            if button_works(entered) if callable(button_works) else button_works:
                self.time_left += entered.delay
        elif isinstance(entered, Lottery):
            _, collected, delay = entered.outcomes[outcome]
            # A tick is subtracted below; the time left does not fall below 0.
            self.time_left = max(1, self.time_left + delay)
        self.time_left -= 1
        self.ticks += 1
        return collected


def outcomes(state: Simulator, action: int) -> list[tuple[Fraction, Simulator, float]]:
    """Return all outcomes of an action: (probability, next state, value of the coin)."""
    entered, results = state.ahead(action), []
    options: list[tuple[Fraction, dict[str, Any]]] = [(Fraction(1), {})]
    if isinstance(entered, Lottery):
        options = [(outcome.chance, {"outcome": number}) for number, outcome in enumerate(entered.outcomes)]
    elif isinstance(entered, Button):
        works = Fraction(entered.chance)
        options = [(works, {"button_works": True}), (1 - works, {"button_works": False})]
    for chance, luck in options:
        if chance > 0:
            after = state.copy()
            results.append((chance, after, after.step(action, **luck)))
    return results


def searched_optima(level: Level, gamma: float) -> dict[int, float]:
    """Return m(l) for every possible length: the largest discounted coins of a mini-episode of that length.

    Searches all actions and outcomes, tick by tick; of equal states at the same tick it keeps the best.

    With buttons of chance this is also the largest expectation given the length: for a fixed sequence of actions,
    buttons decide how long the mini-episode lasts, but not what it collects until then.
    """
    best: dict[int, float] = {}
    start = Simulator(level)
    layer: dict[tuple[Any, ...], tuple[Simulator, float]] = {start.state: (start, 0.0)}
    while layer:
        following: dict[tuple[Any, ...], tuple[Simulator, float]] = {}
        for state, total in layer.values():
            if state.done:
                best[state.ticks] = max(total, best.get(state.ticks, total))
                continue
            for action in ACTIONS:
                for _, after, collected in outcomes(state, action):
                    reached = total + gamma**state.ticks * collected
                    is_better = after.state not in following or following[after.state][1] < reached
                    if after.ticks > state.ticks and is_better:
                        following[after.state] = (after, reached)
        layer = following
    return dict(sorted(best.items()))


def enumerate_policy(level: Level, policy: Policy, gamma: float) -> dict[int, tuple[Any, Any]]:
    """Return by length: (its probability, the sum of probability x discounted coins); impossible lengths are left out.

    Enumerates all sequences of actions and all outcomes of buttons. Probabilities that are fractions stay exact.

    Under the clock 'moves' a bump changes nothing and the policy acts again, so its probabilities are conditioned on a
    move. A state in which it can only bump has no end: its probability belongs to no length, and the sum is below 1.
    """
    by_length: dict[int, tuple[Any, Any]] = {}

    def play(state: Simulator, probability: Any, total: float) -> None:
        if state.done:
            chance, coins = by_length.get(state.ticks, (0, 0))
            by_length[state.ticks] = (chance + probability, coins + probability * total)
            return
        tried = {action: chance for action, chance in enumerate(policy(state)) if chance > 0}
        if level.clock == "moves":
            tried = {action: chance for action, chance in tried.items() if not state.is_bump(action)}
            moving = sum(tried.values())  # 1 - the probability of a bump
            tried = {action: chance / moving for action, chance in tried.items()}
        for action, chance in tried.items():
            for luck, after, collected in outcomes(state, action):
                play(after, probability * chance * luck, total + gamma**state.ticks * collected)

    play(Simulator(level), Fraction(1), 0.0)
    return dict(sorted(by_length.items()))


def uniform_policy(state: Simulator) -> list[Fraction]:
    """Return probability 1/4 for every action."""
    return [Fraction(1, 4)] * 4


def random_policy(seed: int, *, sees_time: bool = False) -> Policy:
    """Return a policy with random, fixed probabilities for each observation (and time left)."""

    @cache
    def chances(*seen: Any) -> list[float]:
        rng = random.Random(f"{seed} {seen}")
        weights = [rng.random() ** 2 + 0.01 for _ in ACTIONS]
        return [weight / sum(weights) for weight in weights]

    return lambda state: chances(state.observation, state.time_left if sees_time else None)


def random_level(
    rng: random.Random,
    *,
    name: str = "random",
    max_side: int = 4,
    max_buttons: int = 3,
    max_ticks: int = 8,
    buttons: bool = True,
    chances: bool = False,
    decimals: bool = True,
    doors: bool = False,
    lotteries: int = 0,
    clock: str | None = "steps",
) -> Level:
    """Return a small level, a function of the state of ``rng``; smaller random numbers make a smaller level.

    It has up to ``max_side`` rows and columns, 1 to 3 coins (with ``decimals`` some of decimal value) and 1 to
    ``max_buttons`` buttons (none without ``buttons``; with ``chances`` some work only with a probability). No
    trajectory is longer than ``max_ticks``. The agent can move and collect a coin in time, but not at every length.
    With ``doors`` half of the remaining floor is one-way doors. ``clock`` None: a random clock.
    """
    least = 2 + buttons + lotteries
    while True:
        # The larger of two numbers, because larger maps are more varied.
        rows = max(rng.randint(-(-least // max_side), max_side) for _ in range(2))
        columns = max(rng.randint(-(-least // rows), max_side) for _ in range(2))
        num_coins = rng.randint(1, min(3, 1 + rows * columns - least))
        room = rows * columns - least - num_coins + 2
        num_buttons = rng.randint(1, min(max_buttons, room, max_ticks - 1)) if buttons else 0
        shutdown = rng.randint(1, max_ticks - num_buttons)
        spare = max_ticks - shutdown - num_buttons
        things = ["A"]
        for _ in range(num_coins):
            whole = not decimals or rng.random() < 0.6
            things.append(f"C{rng.randint(1, 5)}" if whole else f"C{rng.randint(1, 400) / 100}")
        for _ in range(num_buttons):
            extra = rng.randint(0, spare)
            spare -= extra
            chance = f"@{rng.randint(1, 19) / 20}" if chances and rng.random() > 0.3 else ""
            things.append(f"B{1 + extra}{chance}")
        named = []
        for name_of_lottery in ascii_lowercase[:lotteries]:
            text, most = _random_lottery(rng, spare)
            spare -= most
            named.append(f"lottery {name_of_lottery}: {text}")
            things.append(f"L{name_of_lottery}")
        share_of_walls = rng.uniform(0, 0.4)
        things += ["#" if rng.random() > 1 - share_of_walls else "." for _ in range(len(things), rows * columns)]
        rng.shuffle(things)
        if doors:
            _put_doors(rng, things, rows, columns)
        header = [f"shutdown: {shutdown}", f"clock: {clock or rng.choice(('steps', 'moves'))}", *named]
        cells = [" ".join(things[row * columns : (row + 1) * columns]) for row in range(rows)]
        level = parse_level("\n".join(header + cells), name=name)
        if _has_a_coin_in_reach(level):
            return level


MIXED = {"chances": (False, True), "doors": (False, True), "clock": None}
"""Options for levels of every kind except those with lotteries."""


def random_levels(rngs: int | Sequence[random.Random], seed: int = 0, **options: Any) -> list[Level]:
    """Return a numbered random level for each generator in ``rngs``; each level uses a random member of an option's
    tuple."""
    if isinstance(rngs, int):
        rngs = [random.Random(f"{seed} {number}") for number in range(rngs)]
    levels = []
    for number, rng in enumerate(rngs):
        chosen = {key: rng.choice(value) if isinstance(value, tuple) else value for key, value in options.items()}
        levels.append(random_level(rng, name=str(number), **chosen))
    return levels


def levels(most: int = 8, **options: Any) -> SearchStrategy[list[Level]]:
    """Return a strategy for at most ``most`` `random_levels`, which shrinks to a single small level."""
    rngs = st.lists(st.randoms(use_true_random=False), min_size=1, max_size=most)
    return rngs.map(lambda chosen: random_levels(chosen, **options))


def _random_lottery(rng: random.Random, most_delay: int) -> tuple[str, int]:
    """Return the text of a lottery of up to 3 outcomes, and its longest delay of shutdown."""
    kinds = [(coins, delay) for coins in (-1, 0, 1, 2.5, 7) for delay in range(-2, min(most_delay, 3) + 1)]
    chosen = rng.sample(kinds, rng.randint(1, 3))
    weights = [rng.randint(1, 3) for _ in chosen]
    chances = [Fraction(weight, sum(weights)) for weight in weights]
    outcomes = [f"{chance} C{coins} {delay:+}" for chance, (coins, delay) in zip(chances, chosen, strict=True)]
    return " | ".join(outcomes), max(0, *(delay for _, delay in chosen))


def _put_doors(rng: random.Random, things: list[str], rows: int, columns: int) -> None:
    """Turn cells of the floor into one-way doors that do not lead into walls."""
    for cell in range(rows * columns):
        row, column = divmod(cell, columns)
        ways = [(sign, row + down, column + right) for sign, (down, right) in zip("^v<>", MOVES, strict=True)]
        inside = [way for way in ways if 0 <= way[1] < rows and 0 <= way[2] < columns]
        open_ways = [sign for sign, r, c in inside if things[r * columns + c] != "#"]
        if things[cell] == "." and open_ways and rng.random() > 0.5:
            things[cell] = rng.choice(open_ways)


def _has_a_coin_in_reach(level: Level) -> bool:
    states = [Simulator(level)]
    seen = set()
    for state in states:  # the list grows in the loop
        if state.state not in seen and not state.done:
            seen.add(state.state)
            reached = []
            for action in ACTIONS:
                reached += outcomes(state, action)
            if any(collected > 0 for _, _, collected in reached):
                return True
            states += [after for _, after, _ in reached]
    return False
