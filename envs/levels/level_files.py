"""Level files, and the gridworlds of the paper by name.

A file is one level as ``.txt``, or a level set as ``.jsonl`` with one JSON object per line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from drest_torch.envs.levels.level import (
    STUDY_KEYS,
    Level,
    format_level,
    level_from_record,
    level_to_record,
    parse_level,
)
from drest_torch.errors import LevelError
from drest_torch.files import read_whole, write_whole
from drest_torch.outputs import check_outputs

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


def read_levels(path: str | os.PathLike[str], *, x: float | None = None) -> list[Level]:
    """Read a level set (``.jsonl``), or a single level (``.txt``, where ``x`` is the value of a coin ``Cx``)."""
    path = _level_file(path)
    if path.is_dir():
        raise LevelError(f"{path}: is a folder; expected a text file")
    try:
        text = read_whole(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise LevelError(f"{path}: no such file; expected a level set (.jsonl) or a level (.txt)") from None
    except OSError as error:
        raise LevelError(f"{path}: cannot be read ({error.strerror}); expected a text file") from None
    except UnicodeDecodeError as error:
        raise LevelError(f"{path}: not UTF-8 at byte {error.start}; expected a UTF-8 text file") from None
    if path.suffix == ".txt":
        return [parse_level(text, name=path.stem, source=str(path), x=x)]
    if x is not None:
        raise LevelError(f"{path}: x={x} with a level set; expected x with a single level that has a coin 'Cx'")
    levels = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            source = f"{path}:{number}"
            try:
                record = json.loads(line, object_pairs_hook=_object_without_repeats)
            except (ValueError, RecursionError) as error:
                raise LevelError(f"{source}: not JSON ({error}); expected one object a line") from None
            levels.append(level_from_record(record, source=source))
    if not levels:
        raise LevelError(f"{path}: no level; expected at least one")
    _check_names(levels, [level.source for level in levels])
    return levels


def write_levels(path: str | os.PathLike[str], levels: Iterable[Level]) -> None:
    """Write a level set (``.jsonl``) or a single level (``.txt``) atomically.

    Refuse a level that would be read back differently.
    """
    path, levels = _level_file(path), list(levels)
    single = path.suffix == ".txt"
    if not levels or (single and len(levels) > 1):
        raise LevelError(f"{path}: {len(levels)} levels to write; expected one for a .txt file, or a set for .jsonl")
    places = [f"{path}:{number}" for number in range(1, len(levels) + 1)]
    _check_names(levels, places)
    check_outputs(path)
    records = [level_to_record(level) for level in levels]
    for level, record, place in zip(levels, records, places, strict=True):
        if level_from_record(record, source=place) != level:
            raise LevelError(
                f"{place}: the level '{level.name}' would not read back as it is; expected each kind of object in "
                f"reading order and a study of {', '.join(STUDY_KEYS)}"
            )
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    write_file(path, format_level(levels[0]) if single else "".join(lines))


def _level_file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if path.suffix not in (".txt", ".jsonl"):
        raise LevelError(f"{path}: unknown kind of file; expected a level set (.jsonl) or a level (.txt)")
    return path


def _check_names(levels: list[Level], places: list[str]) -> None:
    """Refuse a set in which two levels have the same name."""
    first: dict[str, str] = {}
    for level, place in zip(levels, places, strict=True):
        if level.name in first:
            raise LevelError(
                f"{place}: the name '{level.name}' for the second time; expected it once "
                f"(the first: {first[level.name]})"
            )
        first[level.name] = place


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; refuse duplicate keys, which json alone would silently merge."""
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"'{next(key for key in keys if keys.count(key) > 1)}' for the second time")
    return record


def files_of(levels: Iterable[Level]) -> set[Path]:
    """Return the source files of levels."""
    return {Path(re.sub(r":\d+$", "", level.source)) for level in levels if level.source}


def write_file(path: Path, text: str) -> None:
    """Write a text file atomically, with the line endings of the text."""
    write_whole(
        path,
        text.encode(),
        lambda why: LevelError(f"{path}: cannot be written ({why}); expected a folder to write a file in"),
    )


def world(name: str, *, x: float | None = None) -> Level:
    """Return one of the paper's gridworlds by its name; ``x`` is the free coin value of `lopsided`."""
    if name not in WORLDS:
        raise LevelError(f"no world '{name}'; expected one of {', '.join(WORLDS)}")
    text = resources.files("drest_torch.envs.worlds").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return parse_level(text, name=name, source=f"{name}.txt", x=x)


def find_levels(name: str, *, x: float | None = None) -> list[Level]:
    """Return the levels of a world's name, of ``paper`` (the nine worlds), or of a file."""
    if name == "paper":
        return [world(paper_world, x=x) for paper_world in PAPER_WORLDS]
    if name in WORLDS:
        return [world(name, x=x)]
    if Path(name).suffix in (".txt", ".jsonl"):
        return read_levels(name, x=x)
    raise LevelError(f"no levels '{name}'; expected paper, a file (.jsonl or .txt), or one of {', '.join(WORLDS)}")
