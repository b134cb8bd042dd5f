"""Level files, and the gridworlds of the paper by name.

A file is one level as ``.txt``, or a level set as ``.jsonl`` with one JSON object per line.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from drest_torch.envs.levels.level import STUDY_KEYS, Level
from drest_torch.envs.levels.text import Named, add_lottery, check_text, format_level, parse_level, parse_map
from drest_torch.errors import LevelError
from drest_torch.files import read_whole, write_whole

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
"""The nine worlds without a free parameter: the running example and the eight of Figure 8."""
_REQUIRED = ("name", "shutdown", "map")


_OPTIONAL = ("clock", "lotteries", *STUDY_KEYS)


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
    check_text(record["name"], "name", here)
    rows = record["map"]
    if not isinstance(rows, list):
        raise LevelError(f"{here}: the map is {rows!r:.40}; expected a list with one text a row")
    for r, row in enumerate(rows, start=1):
        if not isinstance(row, str):
            raise LevelError(f"{here}, map row {r}: {row!r:.40}; expected a text such as '# . A C3'")
    lotteries: dict[str, Named] = {}
    named = record.get("lotteries", {})
    if not isinstance(named, dict) or not all(isinstance(text, str) for text in named.values()):
        raise LevelError(f"{here}: the lotteries are {named!r:.40}; expected an object of texts by name")
    for name, text in named.items():
        add_lottery(lotteries, name, text, f"{here}, lottery {name:.40}")
    cells = [
        [(cell, f"{here}, map row {r}, column {c}") for c, cell in enumerate(row.split(), start=1)]
        for r, row in enumerate(rows, start=1)
    ]
    return parse_map(cells, record, lotteries, name=record["name"], source=source, here=here)


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; refuse equal keys, of which json alone would silently keep the last."""
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        raise LevelError(f"'{next(key for key in keys if keys.count(key) > 1)}' for the second time; expected it once")
    return record


def level_to_record(level: Level) -> dict[str, Any]:
    """Return the JSON object of a level: the inverse of :func:`level_from_record`."""
    record: dict[str, Any] = {"name": level.name, "shutdown": level.shutdown}
    if level.clock != "steps":
        record["clock"] = level.clock
    record |= {key: level.study[key] for key in STUDY_KEYS if key in level.study}
    if names := level.lottery_names:
        record["lotteries"] = {name: text for text, name in names.items()}
    return record | {"map": level.rows()}


def read_levels(path: str | os.PathLike[str], *, x: float | None = None) -> list[Level]:
    """Read a level set (``.jsonl``) or a single level (``.txt``, where ``x`` is the value of a coin ``Cx``)."""
    path = Path(path)
    if path.suffix not in (".txt", ".jsonl"):
        raise LevelError(f"{path}: unknown kind of file; expected a level set (.jsonl) or a level (.txt)")
    try:
        data = read_whole(path)
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
        source = f"{path}:{number}"
        try:
            record = json.loads(line, object_pairs_hook=_object_without_repeats)
        except json.JSONDecodeError as error:
            where = f"{source}, column {error.colno}"
            raise LevelError(f"{where}: no JSON ({error.msg}); expected one object a line") from None
        except (ValueError, RecursionError) as error:  # a key twice, a number of thousands of digits, endless nesting
            raise LevelError(f"{source}: {error}") from None
        level = level_from_record(record, source=source)
        if level.name in levels:
            raise LevelError(
                f"{source}: the name '{level.name}' for the second time; "
                f"expected it once (the first: {levels[level.name].source})"
            )
        levels[level.name] = level
    if not levels:
        raise LevelError(f"{path}:1: no level; expected one JSON object a line")
    return list(levels.values())


def write_levels(path: str | os.PathLike[str], levels: Iterable[Level]) -> None:
    """Write a level set (``.jsonl``) or a single level (``.txt``), whole or not at all.

    Refuse a level that would not read back as the same level.
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
    records: dict[str, dict[str, Any]] = {}
    for number, level in enumerate(levels, start=1):
        if level.name in records:
            raise LevelError(f"{path}:{number}: the name '{level.name}' for the second time; expected it once")
        records[level.name] = record = level_to_record(level)
        if level_from_record(record, source=f"{path}:{number}") != level:
            raise LevelError(
                f"{path}:{number}: the level '{level.name}' would not read back as it is; expected each kind of "
                f"object in reading order and a study of {', '.join(STUDY_KEYS)}"
            )
    if path.suffix == ".txt":
        text = format_level(levels[0])
    else:
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records.values())
    write_file(path, text)


def write_file(path: Path, text: str) -> None:
    """Write a text file, whole or not at all, with the line endings of the text."""
    write_whole(
        path,
        text.encode(),
        lambda why: LevelError(f"{path}: cannot be written ({why}); expected a folder to write a file in"),
    )


def world(name: str, *, x: float | None = None) -> Level:
    """Return one of the paper's gridworlds by its name; ``x`` is the coin value that `lopsided` leaves open."""
    if name not in WORLDS:
        raise LevelError(f"no world '{name}'; expected one of {', '.join(WORLDS)}")
    text = resources.files("drest_torch.envs.worlds").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    if x is not None and "Cx" not in text.split():
        raise LevelError(f"x={x} with the world '{name}'; expected x with 'lopsided', which alone has a coin 'Cx'")
    return parse_level(text, name=name, source=f"{name}.txt", x=x)


def find_levels(name: str, *, x: float | None = None) -> list[Level]:
    """Return the levels that a user asks for by a world's name, ``paper`` (the nine worlds), or a file."""
    if name == "paper":
        if x is not None:
            raise LevelError(f"x={x} with 'paper'; expected x with a single level that has a coin 'Cx'")
        return [world(paper_world) for paper_world in PAPER_WORLDS]
    if name in WORLDS:
        return [world(name, x=x)]
    if Path(name).suffix in (".txt", ".jsonl"):
        return read_levels(name, x=x)
    raise LevelError(f"no levels '{name}'; expected paper, a file (.jsonl or .txt), or one of {', '.join(WORLDS)}")
