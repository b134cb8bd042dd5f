"""Levels as text: what a gridworld is, and how it is read and written.

A level is a map of cells, a shutdown time and a clock. Cells are separated by blanks:

    ``#`` wall, ``.`` floor, ``A`` the agent's start, ``C3`` a coin of value 3 (``C0.5`` is allowed),
    ``B4`` a button that delays shutdown by 4, ``B4@0.5`` one that does so only with chance 0.5.

Everything outside the map is wall. A single level is a ``.txt`` file: lines ``key: value``, then the
map. A level set is a ``.jsonl`` file with one JSON object a line. How the rules play out (movement,
coins, buttons) is not here but in :mod:`envs.mdp`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

MAX_OBJECTS = 32
"""Coins and buttons of one level together: each takes one bit of a state."""
MAX_SIDE = 64
"""Rows, and columns, of a map."""
MAX_TIME = 1023
"""Longest trajectory-length: the shutdown time and all delays together."""

CLOCKS = ("steps", "moves")
STUDY_KEYS = ("title", "rewarded", "wanted", "caveat")
WORLDS = (
    "example",
    "lopsided",
    "fewer_for_longer",
    "one_coin_only",
    "hidden_treasure",
    "equal_value",
    "around_the_corner",
    "spacious",
    "royal_road",
    "last_moment",
)
"""The ten gridworlds of the paper (Figures 2, 5 and 8)."""
PAPER_WORLDS = tuple(name for name in WORLDS if name != "lopsided")
"""The running example and the eight of Figure 8: the nine that have no free parameter."""

_NUMBER = r"\d+(?:\.\d+)?"
_COIN = re.compile(rf"C({_NUMBER}|x)")
_BUTTON = re.compile(rf"B(-?\d+)(?:@(-?{_NUMBER}))?")
_HEADER = re.compile(r"([a-z]+):\s*(.*)")


class LevelError(ValueError):
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
    def max_time(self) -> int:
        """The length of a trajectory in which every button works."""
        return self.shutdown + sum(button.delay for button in self.buttons)

    @property
    def place(self) -> str:
        """Where the level comes from, for messages."""
        return f"{self.source or 'level'} ({self.name})"

    def with_clock(self, clock: str) -> Level:
        """The same map under another clock."""
        _check_clock(clock, self.place)
        return replace(self, clock=clock)

    def rows(self) -> list[str]:
        """The map as text, one string a row, cells separated by one blank."""
        cells = [["#" if wall else "." for wall in row] for row in self.walls]
        cells[self.start[0]][self.start[1]] = "A"
        for coin in self.coins:
            cells[coin.row][coin.column] = f"C{_number(coin.value)}"
        for button in self.buttons:
            chance = "" if button.chance == 1 else f"@{_number(button.chance)}"
            cells[button.row][button.column] = f"B{button.delay}{chance}"
        return [" ".join(row) for row in cells]


# ---------------------------------------------------------------------------------------- the map


def parse_map(
    rows: Sequence[Sequence[tuple[str, str]]],
    *,
    name: str,
    shutdown: int,
    clock: str = "steps",
    study: Mapping[str, str] | None = None,
    source: str = "",
    x: float | None = None,
) -> Level:
    """Build a level from rows of ``(cell, place)`` pairs; ``place`` is what a message calls the cell.

    ``x`` is the value of a coin written ``Cx``.
    """
    here = source or name
    if not rows:
        raise LevelError(f"{here}: the map is empty; expected rows of cells such as '# . A C3 B4'")
    walls: list[tuple[bool, ...]] = []
    starts: list[tuple[int, int, str]] = []
    coins: list[Coin] = []
    buttons: list[Button] = []
    for r, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LevelError(
                f"{row[0][1].rpartition(', ')[0] if row else here}: row {r + 1} of the map has {len(row)} cells; "
                f"expected {len(rows[0])}, as in row 1"
            )
        for c, (cell, place) in enumerate(row):
            if cell == "A":
                starts.append((r, c, place))
            elif cell.startswith("C"):
                coins.append(Coin(r, c, _coin_value(cell, place, x)))
            elif cell.startswith("B"):
                buttons.append(_button(r, c, cell, place))
            elif cell not in ("#", "."):
                raise LevelError(
                    f"{place}: unknown cell '{cell}'; expected '#', '.', 'A', a coin like 'C3' or a button like 'B4'"
                )
        walls.append(tuple(cell == "#" for cell, _ in row))
    if not starts:
        raise LevelError(f"{here}: the map has no agent; expected exactly one cell 'A'")
    if len(starts) > 1:
        raise LevelError(f"{starts[1][2]}: a second agent; expected exactly one cell 'A' (the first: {starts[0][2]})")
    if not coins:
        raise LevelError(f"{here}: the map has no coin; expected at least one cell like 'C3'")
    _check_clock(clock, here)
    level = Level(
        name, shutdown, tuple(walls), starts[0][:2], tuple(coins), tuple(buttons), clock, dict(study or {}), source
    )
    _check_limits(level, here)
    return level


def _coin_value(cell: str, place: str, x: float | None) -> float:
    match = _COIN.fullmatch(cell)
    if match is None:
        raise LevelError(f"{place}: '{cell}' is no coin; expected C and a positive number, such as C3 or C0.5")
    if match[1] == "x":
        if x is None:
            raise LevelError(f"{place}: the coin 'Cx' has no value; expected one to be given as x, such as x=3")
        value = float(x)
    else:
        value = float(match[1])
    if not (0 < value < math.inf):
        raise LevelError(f"{place}: a coin of value {_number(value)}; expected a value above 0")
    return value


def _button(row: int, column: int, cell: str, place: str) -> Button:
    match = _BUTTON.fullmatch(cell)
    if match is None:
        raise LevelError(
            f"{place}: '{cell}' is no button; expected B and a whole number, such as B4, or with a chance, B4@0.5"
        )
    delay, chance = int(match[1]), float(match[2] or 1)
    if delay < 1:
        raise LevelError(f"{place}: a button with delay {delay}; expected a delay of at least 1")
    if not 0 < chance <= 1:
        raise LevelError(f"{place}: a button that works with chance {match[2]}; expected a chance above 0, at most 1")
    return Button(row, column, delay, chance)


def _check_clock(clock: object, here: str) -> None:
    if clock not in CLOCKS:
        raise LevelError(f"{here}: unknown clock {clock!r}; expected 'steps' or 'moves'")


def _check_limits(level: Level, here: str) -> None:
    if isinstance(level.shutdown, bool) or not isinstance(level.shutdown, int) or level.shutdown < 1:
        raise LevelError(f"{here}: shutdown {level.shutdown!r}; expected a whole number of timesteps, at least 1")
    for what, found, limit in (
        ("rows", level.height, MAX_SIDE),
        ("columns", level.width, MAX_SIDE),
        ("coins and buttons", level.num_objects, MAX_OBJECTS),
        ("timesteps if every button works", level.max_time, MAX_TIME),
    ):
        if found > limit:
            raise LevelError(f"{here}: {found} {what}; expected at most {limit}")


def _number(value: float) -> str:
    """The shortest decimal text that reads back as the same number."""
    return format(Decimal(repr(float(value))).normalize(), "f")


# ----------------------------------------------------------------------------------- single levels


def parse_level(text: str, *, name: str = "level", source: str = "", x: float | None = None) -> Level:
    """Read one level from the text of a ``.txt`` file.

    Header lines are ``shutdown: 4`` (required), ``clock: steps`` or ``moves``, ``x: 1`` (the default
    value of a coin ``Cx``) and the study a world stands for: title, rewarded, wanted, caveat.
    """
    source = source or name
    header: dict[str, tuple[str, int]] = {}
    rows: list[list[tuple[str, str]]] = []
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        match = _HEADER.fullmatch(line.strip())
        if match and not rows:
            key = match[1]
            if key in header:
                raise LevelError(f"{source}:{number}: '{key}' for the second time; expected it once")
            header[key] = (match[2], number)
        elif line.strip():
            rows.append(
                [(m[0], f"{source}:{number}, column {m.start() + 1}") for m in re.finditer(r"\S+", line)]
            )
    known = ("shutdown", "clock", "x", *STUDY_KEYS)
    for key, (_, number) in header.items():
        if key not in known:
            raise LevelError(f"{source}:{number}: unknown key '{key}'; expected one of {', '.join(known)}")
    if "shutdown" not in header:
        raise LevelError(f"{source}:1: no shutdown time; expected a line 'shutdown: 4' above the map")
    shutdown, number = header["shutdown"]
    if not re.fullmatch(r"\d+", shutdown) or int(shutdown) < 1:
        raise LevelError(
            f"{source}:{number}, column {len('shutdown: ') + 1}: shutdown '{shutdown}'; "
            "expected a whole number of timesteps, at least 1"
        )
    if x is None and "x" in header:
        x = _header_number(*header["x"], source)
    return parse_map(
        rows,
        name=name,
        shutdown=int(shutdown),
        clock=header.get("clock", ("steps", 0))[0],
        study={key: header[key][0] for key in STUDY_KEYS if key in header},
        source=source,
        x=x,
    )


def _header_number(value: str, number: int, source: str) -> float:
    if not re.fullmatch(_NUMBER, value):
        raise LevelError(f"{source}:{number}, column 4: x '{value}'; expected a number, such as x: 3")
    return float(value)


def format_level(level: Level) -> str:
    """The text of a level's ``.txt`` file, columns aligned."""
    lines = [f"{key}: {level.study[key]}" for key in STUDY_KEYS if key in level.study]
    lines.append(f"shutdown: {level.shutdown}")
    if level.clock != "steps":
        lines.append(f"clock: {level.clock}")
    cells = [row.split() for row in level.rows()]
    width = max(len(cell) for row in cells for cell in row)
    lines += [" ".join(cell.ljust(width) for cell in row).rstrip() for row in cells]
    return "\n".join(lines) + "\n"


# -------------------------------------------------------------------------------------- level sets

_REQUIRED = ("name", "shutdown", "map")
_OPTIONAL = ("clock", *STUDY_KEYS)


def level_from_record(record: Any, *, source: str = "") -> Level:
    """Read one level from a parsed JSON object."""
    if not isinstance(record, dict):
        raise LevelError(f"{source}: {type(record).__name__}; expected a JSON object with name, shutdown and map")
    for key in _REQUIRED:
        if key not in record:
            raise LevelError(f"{source}: no key '{key}'; expected {', '.join(_REQUIRED)}")
    for key in record:
        if key not in _REQUIRED + _OPTIONAL:
            raise LevelError(f"{source}: unknown key '{key}'; expected one of {', '.join(_REQUIRED + _OPTIONAL)}")
    for key in ("name", *STUDY_KEYS):
        if not isinstance(record.get(key, "text"), str) or not record.get(key, "text"):
            raise LevelError(f"{source}: {key} {record[key]!r}; expected a text that is not empty")
    rows = record["map"]
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
        raise LevelError(f"{source}: the map is not a list of texts; expected one text a row, such as '# . A C3'")
    return parse_map(
        [
            [(cell, f"{source}, map row {r}, column {c}") for c, cell in enumerate(row.split(), start=1)]
            for r, row in enumerate(rows, start=1)
        ],
        name=record["name"],
        shutdown=record["shutdown"],
        clock=record.get("clock", "steps"),
        study={key: record[key] for key in STUDY_KEYS if key in record},
        source=source,
    )


def level_to_record(level: Level) -> dict[str, Any]:
    """The JSON object of a level: the inverse of :func:`level_from_record`."""
    record: dict[str, Any] = {"name": level.name, "shutdown": level.shutdown}
    if level.clock != "steps":
        record["clock"] = level.clock
    return record | {key: level.study[key] for key in STUDY_KEYS if key in level.study} | {"map": level.rows()}


def read_levels(path: str | os.PathLike[str]) -> list[Level]:
    """Read a level set (``.jsonl``) or a single level (``.txt``)."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise LevelError(f"{path}: no such file; expected a level set (.jsonl) or a level (.txt)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LevelError(f"{path}: cannot be read as text ({error}); expected UTF-8") from None
    if path.suffix == ".txt":
        return [parse_level(text, name=path.stem, source=str(path))]
    if path.suffix != ".jsonl":
        raise LevelError(f"{path}: unknown kind of file; expected a level set (.jsonl) or a level (.txt)")
    levels: dict[str, Level] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        source = f"{path}:{number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise LevelError(f"{source}, column {error.colno}: no JSON ({error.msg}); expected one object a line") from None
        level = level_from_record(record, source=source)
        if level.name in levels:
            raise LevelError(f"{source}: the name '{level.name}' again (first: {levels[level.name].source}); expected it once")
        levels[level.name] = level
    if not levels:
        raise LevelError(f"{path}: no level in it; expected one JSON object a line")
    return list(levels.values())


def write_levels(path: str | os.PathLike[str], levels: Iterable[Level]) -> None:
    """Write a level set (``.jsonl``) or a single level (``.txt``), whole or not at all."""
    path, levels = Path(path), list(levels)
    if path.suffix == ".txt":
        if len(levels) != 1:
            raise LevelError(f"{path}: {len(levels)} levels; expected one for a .txt file (use .jsonl for a set)")
        text = format_level(levels[0])
    elif path.suffix == ".jsonl":
        text = "".join(json.dumps(level_to_record(level), ensure_ascii=False) + "\n" for level in levels)
    else:
        raise LevelError(f"{path}: unknown kind of file; expected the ending .jsonl or .txt")
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


# -------------------------------------------------------------------------------- the paper's worlds


def world(name: str, *, x: float | None = None) -> Level:
    """One of the paper's gridworlds by its name; ``x`` is the coin value that `lopsided` leaves open."""
    if name not in WORLDS:
        raise LevelError(f"no world '{name}'; expected one of {', '.join(WORLDS)}")
    text = resources.files("envs.worlds").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    if x is not None and "Cx" not in text.split():
        raise LevelError(f"the world '{name}' has no coin 'Cx'; expected x with 'lopsided' alone")
    return parse_level(text, name=name, source=f"{name}.txt", x=x)


def find_levels(name: str, *, x: float | None = None) -> list[Level]:
    """Levels by what a user types: a world's name, ``paper`` (the nine worlds), or a file."""
    if name == "paper":
        return [world(each) for each in PAPER_WORLDS]
    if name in WORLDS:
        return [world(name, x=x)]
    if Path(name).suffix in (".txt", ".jsonl"):
        return read_levels(name)
    raise LevelError(f"no levels '{name}'; expected paper, a file (.jsonl or .txt), or one of {', '.join(WORLDS)}")
