"""The class of a level: a map of cells, a shutdown time and a clock.

Cells are separated by blanks:

    ``#`` wall, ``.`` floor, ``A`` the agent's start, or a world object such as ``C3`` or ``B4@0.5``. The docstring of
    each module in `drest_torch.envs.objects` says how its kind is written and what it does. A lottery is a line above
    the map, ``lottery a: 2/3 C2 +0 | 1/3 C5 +1``, and the cells ``La``.

Everything outside the map is wall. A single level is a ``.txt`` file: lines ``key: value``, then the map. A level set
is a ``.jsonl`` file with one JSON object per line. The rules (movement, coins, buttons) are in
:mod:`drest_torch.envs.dynamics.mdp`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from string import ascii_letters

from drest_torch.envs.objects import Button, Coin, Lottery, WorldObject
from drest_torch.errors import LevelError

MAX_OBJECTS = 32
"""The limit of coins, buttons and lotteries of one level together: each takes one bit of a state."""
MAX_LENGTHS = 128
"""The limit of trajectory-lengths of a level with lotteries."""
MAX_SIDE = 64
"""The limit of rows, and of columns, of a map."""

CLOCKS = ("steps", "moves")
STUDY_KEYS = ("title", "rewarded", "wanted", "caveat")


@dataclass(frozen=True)
class Level:
    """A gridworld. Its objects are sorted by kind, and each kind in reading order: row by row, left to right."""

    name: str
    shutdown: int
    walls: tuple[tuple[bool, ...], ...]
    start: tuple[int, int]
    objects: tuple[WorldObject, ...]
    """The objects that are gone once the agent enters their cell: the coins, then the buttons, then the lotteries. Each
    takes one bit of a state."""
    fixtures: tuple[WorldObject, ...] = ()
    """The objects that stay."""
    clock: str = "steps"
    study: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: str = field(default="", compare=False)

    @property
    def height(self) -> int:
        """Return the number of rows of the map."""
        return len(self.walls)

    @property
    def width(self) -> int:
        """Return the number of columns of the map."""
        return len(self.walls[0])

    @property
    def coins(self) -> tuple[Coin, ...]:
        """Return the coins in reading order."""
        return tuple(thing for thing in self.objects if isinstance(thing, Coin))

    @property
    def buttons(self) -> tuple[Button, ...]:
        """Return the buttons in reading order."""
        return tuple(thing for thing in self.objects if isinstance(thing, Button))

    @property
    def lotteries(self) -> tuple[Lottery, ...]:
        """Return the lotteries in reading order."""
        return tuple(thing for thing in self.objects if isinstance(thing, Lottery))

    @property
    def lottery_names(self) -> dict[str, str]:
        """Return the name of each lottery of the map, by its text: a, b, … in reading order."""
        texts = dict.fromkeys(lottery.text for lottery in self.lotteries)
        return dict(zip(texts, ascii_letters, strict=False))

    @property
    def num_objects(self) -> int:
        """Return the number of bits of a state."""
        return len(self.objects)

    @property
    def features(self) -> frozenset[str]:
        """Return the features of the level that observations show only if a set has them (`objects.FEATURES`)."""
        return frozenset().union(*(thing.shows for thing in (*self.objects, *self.fixtures)))

    @property
    def max_time(self) -> int:
        """Return the length of a trajectory in which every button works and every lottery adds the most time."""
        return self.shutdown + sum(map(max, self._delays))

    @property
    def _delays(self) -> list[set[int]]:
        """Return what each button and each lottery can add to the time."""
        outcomes = [lottery.outcomes for lottery in self.lotteries]
        return [{0, button.delay} for button in self.buttons] + [{0, *(one.delay for one in each)} for each in outcomes]

    @property
    def most_lengths(self) -> int:
        """Return a bound on the number of lengths, the number of sums of delays, or all ticks if some are negative."""
        if any(min(delays) < 0 for delays in self._delays):
            return self.max_time
        sums = {0}
        for delays in self._delays:
            sums = {total + delay for total in sums for delay in delays}
        return len(sums)

    @property
    def place(self) -> str:
        """Return the origin and name of the level, for messages."""
        return f"{self.source or 'level'} ({self.name})"

    def with_clock(self, clock: str) -> Level:
        """Return the same map under another clock."""
        check_clock(clock, self.place)
        return replace(self, clock=clock)

    def rows(self) -> list[str]:
        """Return the map as text: one string per row, cells separated by one blank."""
        names = self.lottery_names
        cells = self.cells(lambda thing: f"L{names[thing.text]}" if isinstance(thing, Lottery) else thing.text)
        return [" ".join(row) for row in cells]

    def cells(self, text_of: Callable[[WorldObject], str]) -> list[list[str]]:
        """Return the text of each cell of the map, given those of objects."""
        cells = [["#" if wall else "." for wall in row] for row in self.walls]
        cells[self.start[0]][self.start[1]] = "A"
        for thing in (*self.objects, *self.fixtures):
            cells[thing.row][thing.column] = text_of(thing)
        return cells


def features_of(levels: Iterable[Level]) -> frozenset[str]:
    """Return the features that some of the levels have."""
    return frozenset().union(*(level.features for level in levels))


def check_clock(clock: object, place: str) -> None:
    """Refuse an unknown clock."""
    if clock not in CLOCKS:
        raise LevelError(f"{place}: unknown clock {clock!r:.40}; expected 'steps' or 'moves'")
