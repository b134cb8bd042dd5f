"""Levels as text: what a gridworld is, and how it is read and written.

A level is a map of cells, a shutdown time and a clock. Cells are separated by blanks:

    ``#`` wall, ``.`` floor, ``A`` the agent's start, ``C3`` a coin of value 3 (``C0.5`` is allowed),
    ``B4`` a button that delays shutdown by 4, ``B4@0.5`` one that does so only with chance 0.5.

Everything outside the map is wall. A single level is a ``.txt`` file: lines ``key: value``, then the
map. A level set is a ``.jsonl`` file with one JSON object a line. How the rules play out (movement,
coins, buttons) is not here but in :mod:`envs.mdp`.
"""

from __future__ import annotations

import codecs
import contextlib
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

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_COIN = re.compile(rf"C({_NUMBER}|x)")
_BUTTON = re.compile(rf"B(-?[0-9]{{1,9}})(?:@(-?{_NUMBER}))?")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HEADER = re.compile(r"\s*([^\s:]+)\s*:\s*(.*)")


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
    here: str = "",
    x: float | None = None,
) -> Level:
    """Build a level from rows of ``(cell, place)`` pairs; ``place`` is what a message calls the cell.

    ``here`` is what a message calls the level as a whole, ``x`` the value of a coin written ``Cx``.
    """
    here = here or source or name
    _check_shutdown(shutdown, here)
    _check_clock(clock, here)
    _check_shape(rows, here)
    starts: list[tuple[int, int, str]] = []
    objects: list[str] = []
    coins: list[Coin] = []
    buttons: list[Button] = []
    for r, row in enumerate(rows):
        for c, (cell, place) in enumerate(row):
            if cell == "A":
                starts.append((r, c, place))
            elif cell.startswith("C"):
                coins.append(Coin(r, c, _coin_value(cell, place, x)))
                objects.append(place)
            elif cell.startswith("B"):
                buttons.append(_button(r, c, cell, place))
                objects.append(place)
            elif cell not in ("#", "."):
                raise LevelError(
                    f"{place}: unknown cell '{cell:.40}'; "
                    "expected '#', '.', 'A', a coin like 'C3' or a button like 'B4'"
                )
    if not starts:
        raise LevelError(f"{here}: the map has no agent; expected exactly one cell 'A'")
    if len(starts) > 1:
        raise LevelError(f"{starts[1][2]}: a second agent; expected exactly one cell 'A' (the first: {starts[0][2]})")
    if not coins:
        raise LevelError(f"{here}: the map has no coin; expected at least one cell like 'C3'")
    if len(objects) > MAX_OBJECTS:
        raise LevelError(
            f"{objects[MAX_OBJECTS]}: {len(objects)} coins and buttons together; expected at most {MAX_OBJECTS}"
        )
    walls = tuple(tuple(cell == "#" for cell, _ in row) for row in rows)
    start = starts[0][:2]
    level = Level(name, shutdown, walls, start, tuple(coins), tuple(buttons), clock, dict(study or {}), source)
    if level.max_time > MAX_TIME:
        raise LevelError(
            f"{here}: {level.max_time} timesteps from shutdown and all delays together; expected at most {MAX_TIME}"
        )
    return level


def _check_shape(rows: Sequence[Sequence[tuple[str, str]]], here: str) -> None:
    if not rows:
        raise LevelError(f"{here}: no map; expected rows of cells such as '# . A C3 B4'")
    for r, row in enumerate(rows, start=1):
        if not row:
            raise LevelError(f"{here}, map row {r}: no cells; expected at least one, as in every row")
        if len(row) > MAX_SIDE:
            raise LevelError(f"{row[MAX_SIDE][1]}: a row of {len(row)} cells; expected at most {MAX_SIDE}")
        if len(row) != len(rows[0]):
            place = row[min(len(row) - 1, len(rows[0]))][1]  # the first cell too many, or the last one there is
            cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
            raise LevelError(f"{place}: a row of {cells}; expected {len(rows[0])}, as in the map's first row")
    if len(rows) > MAX_SIDE:
        raise LevelError(f"{rows[MAX_SIDE][0][1]}: a map of {len(rows)} rows; expected at most {MAX_SIDE}")


def _check_shutdown(shutdown: object, place: str) -> None:
    if isinstance(shutdown, bool) or not isinstance(shutdown, int) or not 1 <= shutdown <= MAX_TIME:
        raise LevelError(
            f"{place}: shutdown {shutdown!r:.40}; expected a whole number of timesteps from 1 to {MAX_TIME}"
        )


def _check_clock(clock: object, place: str) -> None:
    if clock not in CLOCKS:
        raise LevelError(f"{place}: unknown clock {clock!r:.40}; expected 'steps' or 'moves'")


def _check_text(text: object, key: str, place: str) -> None:
    if not isinstance(text, str) or text != text.strip() or len(text.splitlines()) != 1 or _SURROGATE.search(text):
        raise LevelError(f"{place}: {key} {text!r:.40}; expected one line of text with no blanks around it")


def _coin_value(cell: str, place: str, x: float | None) -> float:
    match = _COIN.fullmatch(cell)
    if match is None:
        raise LevelError(f"{place}: '{cell:.40}' is no coin; expected C and a number above 0, such as C3 or C0.5")
    if match[1] != "x":
        value, called = float(match[1]), cell[:40]
    elif x is not None:
        value, called = float(x), f"Cx with x={x}"
    else:
        raise LevelError(f"{place}: the coin 'Cx' has no value; expected one to be given as x, such as x=3")
    if not 0 < value < math.inf:
        raise LevelError(f"{place}: the coin {called} has value {value:g}; expected a finite number above 0")
    return value


def _button(row: int, column: int, cell: str, place: str) -> Button:
    match = _BUTTON.fullmatch(cell)
    if match is None:
        raise LevelError(
            f"{place}: '{cell:.40}' is no button; expected B and a whole number of timesteps from 1 to {MAX_TIME}, "
            "such as B4, or with a chance, B4@0.5"
        )
    delay, chance = int(match[1]), float(match[2] or 1)
    if not 1 <= delay <= MAX_TIME:
        raise LevelError(f"{place}: the button {cell} has delay {delay}; expected a delay from 1 to {MAX_TIME}")
    if not 0 < chance <= 1:
        raise LevelError(
            f"{place}: the button {cell:.40} works with chance {match[2]:.40}; expected a chance above 0 and at most 1"
        )
    return Button(row, column, delay, chance)


def _number(value: float) -> str:
    """The shortest decimal text, without an exponent, that reads back as the same number."""
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# ----------------------------------------------------------------------------------- single levels


def parse_level(text: str, *, name: str = "level", source: str = "", x: float | None = None) -> Level:
    """Read one level from the text of a ``.txt`` file.

    Header lines are ``shutdown: 4`` (required), ``clock: steps`` or ``moves``, ``x: 1`` (the default
    value of a coin ``Cx``) and the study a world stands for: title, rewarded, wanted, caveat.
    """
    here = source or name
    known = ("shutdown", "clock", "x", *STUDY_KEYS)
    header: dict[str, str] = {}
    places: dict[str, str] = {}
    rows: list[list[tuple[str, str]]] = []
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff").rstrip())
    for number, line in enumerate(lines, start=1):
        match = _HEADER.fullmatch(line.rstrip())
        if match is None:
            row = [(m[0], f"{here}:{number}, column {m.start() + 1}") for m in re.finditer(r"\S+", line)]
            if row:
                rows.append(row)
            continue
        key, value = match.groups()
        place = f"{here}:{number}, column {match.start(1) + 1}"
        if key not in known:
            raise LevelError(f"{place}: unknown key '{key:.40}'; expected one of {', '.join(known)}")
        if rows:
            raise LevelError(f"{place}: '{key}' below a row of the map; expected it above the map")
        if key in header:
            raise LevelError(f"{place}: '{key}' for the second time; expected it once (the first: {places[key]})")
        header[key], places[key] = value, f"{here}:{number}, column {match.start(2) + 1}"
    if not rows:
        raise LevelError(f"{here}:{len(lines)}: no map; expected rows of cells such as '# . A C3 B4'")
    if "shutdown" not in header:
        raise LevelError(f"{here}:1: no shutdown time; expected a line 'shutdown: 4' above the map")
    shutdown: Any = header["shutdown"]
    if re.fullmatch(r"[0-9]{1,9}", shutdown):
        shutdown = int(shutdown)
    _check_shutdown(shutdown, places["shutdown"])
    _check_clock(header.get("clock", "steps"), places.get("clock", here))
    for key in STUDY_KEYS:
        if key in header:
            _check_text(header[key], key, places[key])
    if "x" in header and not re.fullmatch(_NUMBER, header["x"]):
        raise LevelError(f"{places['x']}: x '{header['x']:.40}'; expected a number above 0, such as x: 3")
    if ("x" in header or x is not None) and not any(cell == "Cx" for row in rows for cell, _ in row):
        raise LevelError(f"{places.get('x', here)}: x, but no coin 'Cx' in the map; expected one for x to be used")
    return parse_map(
        rows,
        name=name,
        shutdown=shutdown,
        clock=header.get("clock", "steps"),
        study={key: header[key] for key in STUDY_KEYS if key in header},
        source=here,
        here=rows[0][0][1].rpartition(",")[0],
        x=float(header["x"]) if x is None and "x" in header else x,
    )


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
    here = source or "level"
    if not isinstance(record, dict):
        raise LevelError(f"{here}: {record!r:.40}; expected a JSON object with {', '.join(_REQUIRED)}")
    for key in _REQUIRED:
        if key not in record:
            raise LevelError(f"{here}: no key '{key}'; expected {', '.join(_REQUIRED)}")
    for key in record:
        if key not in _REQUIRED + _OPTIONAL:
            raise LevelError(f"{here}: unknown key '{key:.40}'; expected one of {', '.join(_REQUIRED + _OPTIONAL)}")
    for key in ("name", *STUDY_KEYS):
        if key in record:
            _check_text(record[key], key, here)
    rows = record["map"]
    if not isinstance(rows, list):
        raise LevelError(f"{here}: the map is {rows!r:.40}; expected a list with one text a row")
    for r, row in enumerate(rows, start=1):
        if not isinstance(row, str):
            raise LevelError(f"{here}, map row {r}: {row!r:.40}; expected a text such as '# . A C3'")
    return parse_map(
        [
            [(cell, f"{here}, map row {r}, column {c}") for c, cell in enumerate(row.split(), start=1)]
            for r, row in enumerate(rows, start=1)
        ],
        name=record["name"],
        shutdown=record["shutdown"],
        clock=record.get("clock", "steps"),
        study={key: record[key] for key in STUDY_KEYS if key in record},
        source=source,
        here=here,
    )


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; json alone would keep the last of two equal keys and say nothing."""
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        raise LevelError(f"'{next(key for key in keys if keys.count(key) > 1)}' for the second time; expected it once")
    return record


def level_to_record(level: Level) -> dict[str, Any]:
    """The JSON object of a level: the inverse of :func:`level_from_record`."""
    record: dict[str, Any] = {"name": level.name, "shutdown": level.shutdown}
    if level.clock != "steps":
        record["clock"] = level.clock
    return record | {key: level.study[key] for key in STUDY_KEYS if key in level.study} | {"map": level.rows()}


def read_levels(path: str | os.PathLike[str], *, x: float | None = None) -> list[Level]:
    """Read a level set (``.jsonl``) or a single level (``.txt``, where ``x`` is the value of a coin ``Cx``)."""
    path = Path(path)
    if path.suffix not in (".txt", ".jsonl"):
        raise LevelError(f"{path}: unknown kind of file; expected a level set (.jsonl) or a level (.txt)")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise LevelError(f"{path}: no such file; expected a level set (.jsonl) or a level (.txt)") from None
    except OSError as error:
        raise LevelError(f"{path}: cannot be read ({error.strerror}); expected a file of text") from None
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        *lines, last = data[: error.start].decode("utf-8").split("\n")
        raise LevelError(
            f"{path}:{len(lines) + 1}, column {len(last) + 1}: byte {data[error.start]:#04x} is no UTF-8; "
            "expected a file of UTF-8 text"
        ) from None
    if path.suffix == ".txt":
        return [parse_level(text, name=path.stem, source=str(path), x=x)]
    if x is not None:
        raise LevelError(f"{path}: x={x} with a level set; expected x with a single level that has a coin 'Cx'")
    levels: dict[str, Level] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        level = _parse_record(line, f"{path}:{number}")
        if level.name in levels:
            raise LevelError(
                f"{path}:{number}: the name '{level.name}' for the second time; "
                f"expected it once (the first: {levels[level.name].source})"
            )
        levels[level.name] = level
    if not levels:
        raise LevelError(f"{path}:1: no level; expected one JSON object a line")
    return list(levels.values())


def _parse_record(line: str, source: str) -> Level:
    try:
        record = json.loads(line, object_pairs_hook=_object_without_repeats)
    except json.JSONDecodeError as error:
        raise LevelError(f"{source}, column {error.colno}: no JSON ({error.msg}); expected one object a line") from None
    except (ValueError, RecursionError) as error:  # a key twice, a number of thousands of digits, endless nesting
        raise LevelError(f"{source}: {error}") from None
    return level_from_record(record, source=source)


def write_levels(path: str | os.PathLike[str], levels: Iterable[Level]) -> None:
    """Write a level set (``.jsonl``) or a single level (``.txt``), whole or not at all.

    What is written reads back as the same levels; a level for which that is not so is refused.
    """
    path, levels = Path(path), list(levels)
    if path.suffix == ".txt":
        if len(levels) != 1:
            raise LevelError(f"{path}: {len(levels)} levels; expected one for a .txt file (use .jsonl for a set)")
    elif path.suffix == ".jsonl":
        if not levels:
            raise LevelError(f"{path}: no level to write; expected at least one")
    else:
        raise LevelError(f"{path}: unknown kind of file; expected a level set (.jsonl) or a level (.txt)")
    records = [level_to_record(level) for level in levels]
    names: set[str] = set()
    for number, (level, record) in enumerate(zip(levels, records, strict=True), start=1):
        if level.name in names:
            raise LevelError(f"{path}:{number}: the name '{level.name}' for the second time; expected it once")
        names.add(level.name)
        if level_from_record(record, source=f"{path}:{number}") != level:
            raise LevelError(
                f"{path}:{number}: the level '{level.name}' would not read back as it is; expected coins and buttons "
                f"in reading order and a study of {', '.join(STUDY_KEYS)}"
            )
    if path.suffix == ".txt":
        text = format_level(levels[0])
    else:
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    write_file(path, text)


def write_file(path: Path, text: str) -> None:
    """Write a text file, whole or not at all; its lines end as they do in the text."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(text.encode())
        os.replace(partial, path)
    except OSError as error:
        raise LevelError(
            f"{path}: cannot be written ({error.strerror}); expected a folder to write a file in"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


# -------------------------------------------------------------------------------- the paper's worlds


def world(name: str, *, x: float | None = None) -> Level:
    """One of the paper's gridworlds by its name; ``x`` is the coin value that `lopsided` leaves open."""
    if name not in WORLDS:
        raise LevelError(f"no world '{name}'; expected one of {', '.join(WORLDS)}")
    text = resources.files("envs.worlds").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    if x is not None and "Cx" not in text.split():
        raise LevelError(f"x={x} with the world '{name}'; expected x with 'lopsided', which alone has a coin 'Cx'")
    return parse_level(text, name=name, source=f"{name}.txt", x=x)


def find_levels(name: str, *, x: float | None = None) -> list[Level]:
    """Levels by what a user types: a world's name, ``paper`` (the nine worlds), or a file."""
    if name == "paper":
        if x is not None:
            raise LevelError(f"x={x} with 'paper'; expected x with a single level that has a coin 'Cx'")
        return [world(each) for each in PAPER_WORLDS]
    if name in WORLDS:
        return [world(name, x=x)]
    if Path(name).suffix in (".txt", ".jsonl"):
        return read_levels(name, x=x)
    raise LevelError(f"no levels '{name}'; expected paper, a file (.jsonl or .txt), or one of {', '.join(WORLDS)}")
