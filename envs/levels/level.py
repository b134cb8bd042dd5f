"""What a gridworld is.

A level is a map of cells, a shutdown time and a clock. Cells are separated by blanks:

    ``#`` wall, ``.`` floor, ``A`` the agent's start, or a world object such as ``C3`` or ``B4@0.5``: each module of
    `envs.objects` begins with how its kind is written and what it does.

Everything outside the map is wall. A single level is a ``.txt`` file: lines ``key: value``, then the
map. A level set is a ``.jsonl`` file with one JSON object a line. How the rules play out (movement,
coins, buttons) is not here but in :mod:`envs.dynamics.mdp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from drest_torch.errors import LevelError
from envs.objects import Button, Coin, WorldObject
from envs.objects.button import MAX_TIME

__all__ = [
    "CLOCKS",
    "MAX_OBJECTS",
    "MAX_SIDE",
    "MAX_TIME",
    "STUDY_KEYS",
    "Button",
    "Coin",
    "Level",
    "LevelError",
    "check_clock",
    "features_of",
]

MAX_OBJECTS = 32
"""Coins and buttons of one level together: each takes one bit of a state."""
MAX_SIDE = 64
"""Rows, and columns, of a map."""

CLOCKS = ("steps", "moves")
STUDY_KEYS = ("title", "rewarded", "wanted", "caveat")


@dataclass(frozen=True)
class Level:
    """One gridworld. Its objects stand kind by kind, each kind in reading order: row by row, left to right."""

    name: str
    shutdown: int
    walls: tuple[tuple[bool, ...], ...]
    start: tuple[int, int]
    objects: tuple[WorldObject, ...]
    """Those that are gone once they are entered: the coins, then the buttons. Each takes one bit of a state."""
    fixtures: tuple[WorldObject, ...] = ()
    """Those that stay."""
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
    def coins(self) -> tuple[Coin, ...]:
        return tuple(thing for thing in self.objects if isinstance(thing, Coin))

    @property
    def buttons(self) -> tuple[Button, ...]:
        return tuple(thing for thing in self.objects if isinstance(thing, Button))

    @property
    def num_objects(self) -> int:
        """Bits of a state."""
        return len(self.objects)

    @property
    def features(self) -> frozenset[str]:
        """What policies are shown only if a level set has it (the keys of `envs.objects.FEATURES`)."""
        return frozenset().union(*(thing.shows for thing in (*self.objects, *self.fixtures)))

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
        """Return the same map under another clock."""
        check_clock(clock, self.place)
        return replace(self, clock=clock)

    def rows(self) -> list[str]:
        """Return the map as text, one string a row, cells separated by one blank."""
        cells = [["#" if wall else "." for wall in row] for row in self.walls]
        cells[self.start[0]][self.start[1]] = "A"
        for thing in (*self.objects, *self.fixtures):
            cells[thing.row][thing.column] = thing.text
        return [" ".join(row) for row in cells]


def features_of(levels: Iterable[Level]) -> frozenset[str]:
    """Return the features that some of the levels have."""
    return frozenset().union(*(level.features for level in levels))


def check_clock(clock: object, place: str) -> None:
    """Refuse a clock that there is not."""
    if clock not in CLOCKS:
        raise LevelError(f"{place}: unknown clock {clock!r:.40}; expected 'steps' or 'moves'")
