"""A level: a map of cells, a shutdown time and a clock; and its conversion from and to JSON objects and text.

Cells are separated by blanks:

    ``#`` wall, ``.`` floor, ``A`` the agent's start, or a world object such as ``C3`` or ``B4@0.5``. The docstring of
    each module in `drest_torch.envs.objects` says how its kind is written and what it does. A lottery is a line above
    the map, ``lottery a: 2/3 C2 +0 | 1/3 C5 +1``, and the cells ``La``.

Everything outside the map is wall. A single level is a ``.txt`` file: lines ``key: value``, then the map. A level set
is a ``.jsonl`` file with one JSON object per line. The rules (movement, coins, buttons) are in
:mod:`drest_torch.envs.dynamics.mdp`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import ascii_letters
from typing import Any

from drest_torch.envs.objects import KIND_OF, KINDS, Button, Coin, Lottery, WorldObject
from drest_torch.envs.objects.base import NUMBER, format_number
from drest_torch.envs.objects.button import MAX_TIME
from drest_torch.errors import LevelError, printable

MAX_OBJECTS = 32
"""The maximum number of coins, buttons and lotteries of a level; each takes one bit of a state."""
MAX_LENGTHS = 128
"""The maximum number of trajectory-lengths of a level with lotteries."""
MAX_SIDE = 64
"""The maximum number of rows, and of columns, of a map."""

CLOCKS = ("steps", "moves")
STUDY_KEYS = ("title", "rewarded", "wanted", "caveat")
_REQUIRED = ("name", "shutdown", "map")
_OPTIONAL = ("clock", "lotteries", *STUDY_KEYS)
_HEADER = re.compile(r"\s*(lottery\s+)?([^\s:]*)\s*:\s*(.*)")
_TEXT_KEYS = ("shutdown", "clock", "x", *STUDY_KEYS)


@dataclass(frozen=True)
class Level:
    """A gridworld. Its objects are sorted by kind, and each kind in reading order: row by row, left to right."""

    name: str
    shutdown: int
    walls: tuple[tuple[bool, ...], ...]
    start: tuple[int, int]
    objects: tuple[WorldObject, ...]
    """The objects that disappear when the agent enters their cell: coins, then buttons, then lotteries. Each takes one
    bit of a state."""
    fixtures: tuple[WorldObject, ...] = ()
    """The permanent objects."""
    clock: str = "steps"
    study: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: str = field(default="", compare=False)

    @property
    def height(self) -> int:
        """The number of rows of the map."""
        return len(self.walls)

    @property
    def width(self) -> int:
        """The number of columns of the map."""
        return len(self.walls[0])

    @property
    def coins(self) -> tuple[Coin, ...]:
        """The coins in reading order."""
        return tuple(thing for thing in self.objects if isinstance(thing, Coin))

    @property
    def buttons(self) -> tuple[Button, ...]:
        """The buttons in reading order."""
        return tuple(thing for thing in self.objects if isinstance(thing, Button))

    @property
    def lotteries(self) -> tuple[Lottery, ...]:
        """The lotteries in reading order."""
        return tuple(thing for thing in self.objects if isinstance(thing, Lottery))

    @property
    def lottery_names(self) -> dict[str, str]:
        """The name of each lottery of the map, by its text: a, b, … in reading order."""
        texts = dict.fromkeys(lottery.text for lottery in self.lotteries)
        return dict(zip(texts, ascii_letters, strict=False))

    @property
    def num_objects(self) -> int:
        """The number of bits of a state."""
        return len(self.objects)

    @property
    def features(self) -> frozenset[str]:
        """The optional features of the level, which observations include if the set has them (`objects.FEATURES`)."""
        return frozenset().union(*(thing.shows for thing in (*self.objects, *self.fixtures)))

    @property
    def max_time(self) -> int:
        """The length of a trajectory in which every button works and every lottery adds the most time."""
        return self.shutdown + sum(map(max, self._delays))

    @property
    def _delays(self) -> list[set[int]]:
        """The possible changes of the time by each button and each lottery."""
        of_buttons = [{0, button.delay} for button in self.buttons]
        return of_buttons + [{0, *(outcome.delay for outcome in lottery.outcomes)} for lottery in self.lotteries]

    @property
    def most_lengths(self) -> int:
        """A bound on the number of lengths: the number of sums of delays, or of ticks if some delays are negative."""
        if any(min(delays) < 0 for delays in self._delays):
            return self.max_time
        sums = {0}
        for delays in self._delays:
            sums = {total + delay for total in sums for delay in delays}
        return len(sums)

    @property
    def place(self) -> str:
        """The origin and name of the level, for messages."""
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
        """Return the text of each cell of the map, with this text of each object."""
        cells = [["#" if wall else "." for wall in row] for row in self.walls]
        cells[self.start[0]][self.start[1]] = "A"
        for thing in (*self.objects, *self.fixtures):
            cells[thing.row][thing.column] = text_of(thing)
        return cells


def check_clock(clock: object, place: str) -> None:
    """Refuse an unknown clock."""
    if clock not in CLOCKS:
        raise LevelError(f"{place}: unknown clock {clock!r:.40}; expected 'steps' or 'moves'")


def level_to_record(level: Level) -> dict[str, Any]:
    """Return the JSON object of a level: the inverse of :func:`level_from_record`."""
    record: dict[str, Any] = {"name": level.name, "shutdown": level.shutdown}
    if level.clock != "steps":
        record["clock"] = level.clock
    record |= {key: level.study[key] for key in STUDY_KEYS if key in level.study}
    if names := level.lottery_names:
        record["lotteries"] = {name: text for text, name in names.items()}
    return record | {"map": level.rows()}


def level_from_record(record: Any, *, source: str = "") -> Level:
    """Read one level from a parsed JSON object."""
    origin = source or "level"
    if not isinstance(record, dict):
        raise LevelError(f"{origin}: {record!r:.40}; expected a JSON object with {', '.join(_REQUIRED)}")
    if missing := [key for key in _REQUIRED if key not in record]:
        raise LevelError(f"{origin}: no key '{missing[0]}'; expected {', '.join(_REQUIRED)}")
    if unknown := [key for key in record if key not in _REQUIRED + _OPTIONAL]:
        raise LevelError(
            f"{origin}: unknown key '{unknown[0]:.40}'; expected one of {', '.join(_REQUIRED + _OPTIONAL)}"
        )
    shutdown, clock = record["shutdown"], record.get("clock", "steps")
    if type(shutdown) is not int or not 1 <= shutdown <= MAX_TIME:
        raise LevelError(f"{origin}: shutdown {shutdown!r:.40}; expected a whole number of ticks, 1 to {MAX_TIME}")
    check_clock(clock, origin)
    for key in ("name", *STUDY_KEYS):
        if key in record:
            _check_text(record[key], key, origin)
    rows = _rows(record["map"], origin)
    walls = tuple(tuple(cell == "#" for cell in row) for row in rows)
    start, objects = _on_map(rows, _lotteries(record.get("lotteries", {}), rows, origin), origin)
    for thing in objects:
        thing.check(walls, objects, _place(origin, thing.row, thing.column))
    by_kind = [thing for kind in KINDS for thing in objects if type(thing) is kind]
    level = Level(
        name=record["name"],
        shutdown=shutdown,
        walls=walls,
        start=start,
        objects=tuple(thing for thing in by_kind if thing.is_taken),
        fixtures=tuple(thing for thing in by_kind if not thing.is_taken),
        clock=clock,
        study={key: record[key] for key in STUDY_KEYS if key in record},
        source=source,
    )
    _check_size(level, origin)
    return level


def _place(origin: str, row: int, column: int) -> str:
    return f"{origin}, map row {row + 1}, column {column + 1}"


def _check_text(text: object, key: str, origin: str) -> None:
    """Refuse a value that is not one line of text."""
    if not isinstance(text, str) or text != text.strip() or len(text.splitlines()) != 1 or text != printable(text):
        raise LevelError(f"{origin}: {key} {text!r:.40}; expected one line of text with no blanks around it")


def _rows(rows: Any, origin: str) -> list[list[str]]:
    """Return the cells of a map, row by row."""
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise LevelError(f"{origin}: the map is {rows!r:.40}; expected a list of rows such as '# . A C3'")
    cells = [row.split() for row in rows]
    height, width = len(cells), len(cells[0]) if cells else 0
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise LevelError(f"{origin}: a map of {height} rows and {width} columns; expected 1 to {MAX_SIDE} of each")
    for number, row in enumerate(cells, start=1):
        if len(row) != width:
            raise LevelError(f"{origin}, map row {number}: {len(row)} cells; expected {width}, as in the first row")
    return cells


def _lotteries(named: Any, rows: list[list[str]], origin: str) -> dict[str, str]:
    """Return the texts of the lotteries by the names in cells such as ``La``."""
    if not isinstance(named, dict) or not all(isinstance(text, str) for text in named.values()):
        raise LevelError(f"{origin}: the lotteries are {named!r:.40}; expected an object of texts by name")
    cells = {cell for row in rows for cell in row}
    for name, text in named.items():
        if not re.fullmatch("[A-Za-z0-9]+", name):
            raise LevelError(f"{origin}: a lottery with the name '{name:.40}'; expected letters and digits, such as a")
        Lottery.parse(0, 0, text, f"{origin}, lottery {name:.40}")
        if f"L{name}" not in cells:
            raise LevelError(f"{origin}: lottery {name:.40}, but no cell 'L{name:.40}'; expected one in the map")
    return named


def _on_map(
    rows: list[list[str]], lotteries: Mapping[str, str], origin: str
) -> tuple[tuple[int, int], list[WorldObject]]:
    """Return the cell of the agent, and the objects in reading order."""
    starts, objects = [], []
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            place = _place(origin, r, c)
            if cell == "A":
                starts.append((r, c))
            elif cell[0] in Lottery.letters and cell[1:] not in lotteries:
                raise LevelError(
                    f"{place}: '{cell:.40}', but no lottery '{cell[1:]:.40}'; expected its outcomes, such as "
                    "1/2 C1 +0 | 1/2 C4 +2, in a line 'lottery a: …' above the map or under lotteries in JSON"
                )
            elif cell[0] in KIND_OF:
                text = lotteries[cell[1:]] if cell[0] in Lottery.letters else cell
                objects.append(KIND_OF[cell[0]].parse(r, c, text, place))
            elif cell not in ("#", "."):
                kinds = ", ".join(f"a {kind.noun} like '{kind.example}'" for kind in KINDS)
                raise LevelError(f"{place}: unknown cell '{cell:.40}'; expected '#', '.', 'A', {kinds}")
    if len(starts) != 1:
        raise LevelError(f"{origin}: {len(starts)} agents on the map; expected exactly one cell 'A'")
    return starts[0], objects


def _check_size(level: Level, origin: str) -> None:
    """Refuse a level that is too large, or without a coin."""
    most = max((outcome.coins for lottery in level.lotteries for outcome in lottery.outcomes), default=0)
    if not level.coins and most <= 0:
        raise LevelError(f"{origin}: the map has no coin; expected at least one cell like '{Coin.example}'")
    if level.num_objects > MAX_OBJECTS:
        raise LevelError(
            f"{origin}: {level.num_objects} coins, buttons and lotteries together; expected at most {MAX_OBJECTS}"
        )
    if level.max_time > MAX_TIME:
        raise LevelError(
            f"{origin}: {level.max_time} ticks from shutdown and all delays together; expected at most {MAX_TIME}"
        )
    if level.lotteries and level.most_lengths > MAX_LENGTHS:
        raise LevelError(
            f"{origin}: the delays of lotteries and buttons make up to {level.most_lengths} trajectory-lengths; "
            f"expected at most {MAX_LENGTHS}"
        )


# ------------------------------------------------------------------------ as text, in a .txt file


def parse_level(text: str, *, name: str = "level", source: str = "", x: float | None = None) -> Level:
    """Read one level from the text of a ``.txt`` file.

    The header lines are ``shutdown: 4`` (required), ``clock: steps`` or ``moves``, ``x: 1`` (the value of a coin
    ``Cx``, unless the argument sets it), the lotteries, and the purpose of a world: title, rewarded, wanted, caveat.
    """
    origin = source or name
    header: dict[str, Any] = {}
    lotteries: dict[str, str] = {}
    rows: list[str] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), start=1):
        match = _HEADER.fullmatch(line.rstrip())
        if match is None:
            rows += [line] if line.strip() else []
            continue
        is_lottery, key, value = match.groups()
        place, entries = f"{origin}:{number}", lotteries if is_lottery else header
        if not is_lottery and key not in _TEXT_KEYS:
            raise LevelError(f"{place}: unknown key '{key:.40}'; expected one of {', '.join(_TEXT_KEYS)}")
        if rows:
            raise LevelError(f"{place}: '{key:.40}' below a row of the map; expected it above the map")
        if key in entries:
            raise LevelError(f"{place}: '{key:.40}' for the second time; expected it once")
        entries[key] = value
    if "shutdown" not in header:
        raise LevelError(f"{origin}: no shutdown time; expected a line 'shutdown: 4' above the map")
    if re.fullmatch(r"[0-9]{1,9}", header["shutdown"]):
        header["shutdown"] = int(header["shutdown"])
    value_of_x = header.pop("x", None)
    if x is not None:
        value_of_x = format_number(x)
    if value_of_x is not None:
        rows = _with_x(rows, value_of_x, origin)
    return level_from_record({"name": name, **header, "lotteries": lotteries, "map": rows}, source=origin)


def _with_x(rows: list[str], x: str, origin: str) -> list[str]:
    """Return the rows of a map with this value in place of ``Cx``."""
    if not re.fullmatch(NUMBER, x):
        raise LevelError(f"{origin}: x={x:.40}; expected a number above 0")
    if not any("Cx" in row.split() for row in rows):
        raise LevelError(f"{origin}: x={x:.40}, but no coin 'Cx' in the map; expected one for x to be used")
    return [" ".join(f"C{x}" if cell == "Cx" else cell for cell in row.split()) for row in rows]


def format_level(level: Level) -> str:
    """Return the text of a level's ``.txt`` file, with aligned columns."""
    record = level_to_record(level)
    lines = [f"{key}: {record[key]}" for key in (*STUDY_KEYS, "shutdown", "clock") if key in record]
    lines += [f"lottery {name}: {text}" for name, text in record.get("lotteries", {}).items()]
    return "\n".join((*lines, aligned([row.split() for row in record["map"]]), ""))


def aligned(cells: Sequence[Sequence[str]]) -> str:
    """Return the rows of a map with aligned columns."""
    width = max(len(cell) for row in cells for cell in row)
    return "\n".join(" ".join(cell.ljust(width) for cell in row).rstrip() for row in cells)
