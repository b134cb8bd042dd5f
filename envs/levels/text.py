"""The text form of levels: maps, and the ``.txt`` file of a single level."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from drest_torch.envs.levels.level import MAX_LENGTHS, MAX_OBJECTS, MAX_SIDE, STUDY_KEYS, Level, check_clock
from drest_torch.envs.objects import KIND_OF, KINDS, Coin, Lottery, WorldObject
from drest_torch.envs.objects.base import NUMBER
from drest_torch.envs.objects.button import MAX_TIME
from drest_torch.errors import LevelError, shown

_LOTTERY = re.compile(r"\s*lottery\s+([^\s:]*)\s*:\s*(.*)")
_HEADER = re.compile(r"\s*([^\s:]+)\s*:\s*(.*)")


Named = tuple[str, str]
"""The text of a lottery, and its place in messages."""


def parse_map(
    rows: Sequence[Sequence[tuple[str, str]]],
    values: Mapping[str, Any],
    lotteries: Mapping[str, Named],
    *,
    name: str,
    source: str,
    here: str,
    places: Mapping[str, str] = MappingProxyType({}),
    x: float | None = None,
) -> Level:
    """Build a level from rows of ``(cell, place)`` pairs and its other values: shutdown, clock, and those of its study.

    In messages ``place`` is the name of the cell, ``here`` that of the level, and ``places`` are those of the values.
    ``x`` is the value of a coin ``Cx``, and ``lotteries`` are those that cells ``La`` name.
    """
    shutdown, clock = values["shutdown"], values.get("clock", "steps")
    study = {key: values[key] for key in STUDY_KEYS if key in values}
    _check_shutdown(shutdown, places.get("shutdown", here))
    check_clock(clock, places.get("clock", here))
    for key, text in study.items():
        check_text(text, key, places.get(key, here))
    _check_shape(rows, here)
    starts: list[tuple[int, int, str]] = []
    objects: list[tuple[WorldObject, str]] = []
    for r, row in enumerate(rows):
        for c, (cell, place) in enumerate(row):
            if cell == "A":
                starts.append((r, c, place))
            elif cell[0] in Lottery.letters:
                objects.append((_named(cell, lotteries, r, c, place), place))
            elif cell[0] in KIND_OF:
                objects.append((KIND_OF[cell[0]].parse(r, c, cell, place, x), place))
            elif cell not in ("#", "."):
                *others, last = (f"a {kind.noun} like '{kind.example}'" for kind in KINDS)
                raise LevelError(
                    f"{place}: unknown cell '{cell:.40}'; expected '#', '.', 'A', {', '.join(others)} or {last}"
                )
    if not starts:
        raise LevelError(f"{here}: the map has no agent; expected exactly one cell 'A'")
    if len(starts) > 1:
        raise LevelError(f"{starts[1][2]}: a second agent; expected exactly one cell 'A' (the first: {starts[0][2]})")
    cells = {cell for row in rows for cell, _ in row}
    for lottery, (_, place) in lotteries.items():
        if f"L{lottery}" not in cells:
            raise LevelError(f"{place}: lottery {lottery:.40}, but no cell 'L{lottery:.40}'; expected one in the map")
    if not any(_has_coin(thing) for thing, _ in objects):
        raise LevelError(f"{here}: the map has no coin; expected at least one cell like 'C3'")
    taken = [place for thing, place in objects if thing.is_taken]
    if len(taken) > MAX_OBJECTS:
        buttons = ", buttons and lotteries" if lotteries else " and buttons"
        raise LevelError(f"{taken[MAX_OBJECTS]}: {len(taken)} coins{buttons} together; expected at most {MAX_OBJECTS}")
    walls = tuple(tuple(cell == "#" for cell, _ in row) for row in rows)
    for thing, place in objects:
        thing.check(walls, place)
    by_kind = [thing for kind in KINDS for thing, _ in objects if type(thing) is kind]
    level = Level(
        name=name,
        shutdown=shutdown,
        walls=walls,
        start=starts[0][:2],
        objects=tuple(thing for thing in by_kind if thing.is_taken),
        fixtures=tuple(thing for thing in by_kind if not thing.is_taken),
        clock=clock,
        study=study,
        source=source,
    )
    if level.max_time > MAX_TIME:
        raise LevelError(
            f"{here}: {level.max_time} timesteps from shutdown and all delays together; expected at most {MAX_TIME}"
        )
    if lotteries and level.most_lengths > MAX_LENGTHS:
        raise LevelError(
            f"{next(iter(lotteries.values()))[1]}: the delays of lotteries and buttons make up to {level.most_lengths} "
            f"trajectory-lengths; expected at most {MAX_LENGTHS}"
        )
    return level


def _named(cell: str, lotteries: Mapping[str, Named], row: int, column: int, place: str) -> WorldObject:
    """Return the lottery of a cell."""
    if cell[1:] not in lotteries:
        raise LevelError(
            f"{place}: '{cell:.40}', and no lottery '{cell[1:]:.40}'; expected a line above the map, such as "
            "'lottery a: 1/2 C1 +0 | 1/2 C4 +2' for cells 'La'"
        )
    text, definition = lotteries[cell[1:]]
    return Lottery.parse(row, column, text, definition, None)


def _has_coin(thing: WorldObject) -> bool:
    """Return whether something can be collected in the cell of an object."""
    return isinstance(thing, Coin) or (isinstance(thing, Lottery) and any(each.coins > 0 for each in thing.outcomes))


def _check_shape(rows: Sequence[Sequence[tuple[str, str]]], here: str) -> None:
    if not rows:
        raise LevelError(f"{here}: no map; expected rows of cells such as '# . A C3 B4'")
    for r, row in enumerate(rows, start=1):
        if not row:
            raise LevelError(f"{here}, map row {r}: no cells; expected at least one, as in every row")
        if len(row) > MAX_SIDE:
            raise LevelError(f"{row[MAX_SIDE][1]}: a row of {len(row)} cells; expected at most {MAX_SIDE}")
        if len(row) != len(rows[0]):
            place = row[min(len(row) - 1, len(rows[0]))][1]  # the first surplus cell, or the last cell of a short row
            cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
            raise LevelError(f"{place}: a row of {cells}; expected {len(rows[0])}, as in the map's first row")
    if len(rows) > MAX_SIDE:
        raise LevelError(f"{rows[MAX_SIDE][0][1]}: a map of {len(rows)} rows; expected at most {MAX_SIDE}")


def _check_shutdown(shutdown: object, place: str) -> None:
    if isinstance(shutdown, bool) or not isinstance(shutdown, int) or not 1 <= shutdown <= MAX_TIME:
        raise LevelError(
            f"{place}: shutdown {shutdown!r:.40}; expected a whole number of timesteps from 1 to {MAX_TIME}"
        )


def check_text(text: object, key: str, place: str) -> None:
    """Refuse a value that is not one line of text."""
    if not isinstance(text, str) or text != text.strip() or len(text.splitlines()) != 1 or text != shown(text):
        raise LevelError(f"{place}: {key} {text!r:.40}; expected one line of text with no blanks around it")


def parse_level(text: str, *, name: str = "level", source: str = "", x: float | None = None) -> Level:
    """Read one level from the text of a ``.txt`` file.

    The header lines are ``shutdown: 4`` (required), ``clock: steps`` or ``moves``, ``x: 1`` (the default value of a
    coin ``Cx``), and the description of a world's purpose: title, rewarded, wanted, caveat.
    """
    here = source or name
    known = ("shutdown", "clock", "x", *STUDY_KEYS)
    header: dict[str, Any] = {}
    places: dict[str, str] = {}
    lotteries: dict[str, Named] = {}
    rows: list[list[tuple[str, str]]] = []
    lines = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff").rstrip())
    for number, line in enumerate(lines, start=1):
        if match := _LOTTERY.fullmatch(line.rstrip()):
            lottery, place = match[1], f"{here}:{number}, column {match.start(2) + 1}"
            if rows:
                raise LevelError(f"{place}: a lottery below a row of the map; expected it above the map")
            add_lottery(lotteries, lottery, match[2], place)
            continue
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
    if re.fullmatch(r"[0-9]{1,9}", header["shutdown"]):
        header["shutdown"] = int(header["shutdown"])
    if "x" in header and not re.fullmatch(NUMBER, header["x"]):
        raise LevelError(f"{places['x']}: x '{header['x']:.40}'; expected a number above 0, such as x: 3")
    if ("x" in header or x is not None) and not any(cell == "Cx" for row in rows for cell, _ in row):
        raise LevelError(f"{places.get('x', here)}: x, but no coin 'Cx' in the map; expected one for x to be used")
    if x is None and "x" in header:
        x = float(header["x"])
    first = rows[0][0][1].rpartition(",")[0]
    return parse_map(rows, header, lotteries, name=name, source=here, here=first, places=places, x=x)


def add_lottery(lotteries: dict[str, Named], name: str, text: str, place: str) -> None:
    """Add a lottery to those of a level; refuse a name that it cannot have, and outcomes that are none."""
    if not re.fullmatch("[A-Za-z0-9]+", name):
        raise LevelError(f"{place}: a lottery with the name '{name:.40}'; expected letters and digits, such as a")
    if name in lotteries:
        raise LevelError(
            f"{place}: lottery {name} for the second time; expected it once (the first: {lotteries[name][1]})"
        )
    Lottery.parse(0, 0, text, place, None)
    lotteries[name] = text, place


def format_level(level: Level) -> str:
    """Return the text of a level's ``.txt`` file, with aligned columns."""
    lines = [f"{key}: {level.study[key]}" for key in STUDY_KEYS if key in level.study]
    lines.append(f"shutdown: {level.shutdown}")
    if level.clock != "steps":
        lines.append(f"clock: {level.clock}")
    lines += [f"lottery {name}: {text}" for text, name in level.lottery_names.items()]
    cells = [row.split() for row in level.rows()]
    width = max(len(cell) for row in cells for cell in row)
    lines += [" ".join(cell.ljust(width) for cell in row).rstrip() for row in cells]
    return "\n".join(lines) + "\n"
