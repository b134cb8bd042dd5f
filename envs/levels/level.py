"""Levels as text: what a gridworld is, and how it is read and written.

A level is a map of cells, a shutdown time and a clock. Cells are separated by blanks:

    ``#`` wall, ``.`` floor, ``A`` the agent's start, ``C3`` a coin of value 3 (``C0.5`` is allowed),
    ``B4`` a button that delays shutdown by 4, ``B4@0.5`` one that does so only with chance 0.5.

Everything outside the map is wall. A single level is a ``.txt`` file: lines ``key: value``, then the
map. A level set is a ``.jsonl`` file with one JSON object a line. How the rules play out (movement,
coins, buttons) is not here but in :mod:`envs.dynamics.mdp`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from drest_torch.errors import UserError

MAX_OBJECTS = 32
"""Coins and buttons of one level together: each takes one bit of a state."""
MAX_SIDE = 64
"""Rows, and columns, of a map."""
MAX_TIME = 1023
"""Longest trajectory-length: the shutdown time and all delays together."""

CLOCKS = ("steps", "moves")
STUDY_KEYS = ("title", "rewarded", "wanted", "caveat")


class LevelError(UserError):
    """A level that breaks a rule of the format; the message says where and what was expected."""


@dataclass(frozen=True)
class Coin:
    row: int
    column: int
    value: float


@dataclass(frozen=True)
class Button:
    row: int
    column: int
    delay: int
    chance: float = 1.0


@dataclass(frozen=True)
class Level:
    """One gridworld. Coins and buttons stand in reading order: row by row, left to right."""

    name: str
    shutdown: int
    walls: tuple[tuple[bool, ...], ...]
    start: tuple[int, int]
    coins: tuple[Coin, ...]
    buttons: tuple[Button, ...]
    clock: str = "steps"
    study: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: str = field(default="", compare=False)

    @property
    def height(self) -> int:
        return len(self.walls)

    @property
    def width(self) -> int:
        return len(self.walls[0])

    @property
    def num_objects(self) -> int:
        return len(self.coins) + len(self.buttons)

    @property
    def by_chance(self) -> bool:
        """Whether it has a button that does not always work: observations then show the chances."""
        return any(button.chance < 1 for button in self.buttons)

    @property
    def max_time(self) -> int:
        """The length of a trajectory in which every button works."""
        return self.shutdown + sum(button.delay for button in self.buttons)

    @property
    def place(self) -> str:
        """Where the level comes from, for messages."""
        return f"{self.source or 'level'} ({self.name})"

    def with_clock(self, clock: str) -> Level:
        """The same map under another clock."""
        check_clock(clock, self.place)
        return replace(self, clock=clock)

    def rows(self) -> list[str]:
        """The map as text, one string a row, cells separated by one blank."""
        cells = [["#" if wall else "." for wall in row] for row in self.walls]
        cells[self.start[0]][self.start[1]] = "A"
        for coin in self.coins:
            cells[coin.row][coin.column] = f"C{format_number(coin.value)}"
        for button in self.buttons:
            chance = "" if button.chance == 1 else f"@{format_number(button.chance)}"
            cells[button.row][button.column] = f"B{button.delay}{chance}"
        return [" ".join(row) for row in cells]


def check_clock(clock: object, place: str) -> None:
    if clock not in CLOCKS:
        raise LevelError(f"{place}: unknown clock {clock!r:.40}; expected 'steps' or 'moves'")


def format_number(value: float) -> str:
    """The shortest decimal text, without an exponent, that reads back as the same number."""
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
