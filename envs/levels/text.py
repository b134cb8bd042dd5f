"""A level as text, which is the ``.txt`` file of a single level: lines ``key: value``, then the map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from drest_torch.envs.levels.level import STUDY_KEYS, Level, level_from_record, level_to_record
from drest_torch.envs.objects.base import NUMBER, format_number
from drest_torch.errors import LevelError

_HEADER = re.compile(r"\s*(lottery\s+)?([^\s:]*)\s*:\s*(.*)")
_KEYS = ("shutdown", "clock", "x", *STUDY_KEYS)


def parse_level(text: str, *, name: str = "level", source: str = "", x: float | None = None) -> Level:
    """Read one level from the text of a ``.txt`` file.

    The header lines are ``shutdown: 4`` (required), ``clock: steps`` or ``moves``, ``x: 1`` (the value of a coin
    ``Cx``, unless it is given), the lotteries, and the description of a world's purpose: title, rewarded, wanted,
    caveat.
    """
    here = source or name
    header: dict[str, Any] = {}
    lotteries: dict[str, str] = {}
    rows: list[str] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")), start=1):
        match = _HEADER.fullmatch(line.rstrip())
        if match is None:
            rows += [line] if line.strip() else []
            continue
        is_lottery, key, value = match.groups()
        place, entries = f"{here}:{number}", lotteries if is_lottery else header
        if not is_lottery and key not in _KEYS:
            raise LevelError(f"{place}: unknown key '{key:.40}'; expected one of {', '.join(_KEYS)}")
        if rows:
            raise LevelError(f"{place}: '{key:.40}' below a row of the map; expected it above the map")
        if key in entries:
            raise LevelError(f"{place}: '{key:.40}' for the second time; expected it once")
        entries[key] = value
    if "shutdown" not in header:
        raise LevelError(f"{here}: no shutdown time; expected a line 'shutdown: 4' above the map")
    if re.fullmatch(r"[0-9]{1,9}", header["shutdown"]):
        header["shutdown"] = int(header["shutdown"])
    value_of_x = header.pop("x", None)
    if (given := value_of_x if x is None else format_number(x)) is not None:
        rows = _with_x(rows, given, here)
    return level_from_record({"name": name, **header, "lotteries": lotteries, "map": rows}, source=here)


def _with_x(rows: list[str], x: str, here: str) -> list[str]:
    """Return the rows of a map with this value of the coins ``Cx``."""
    if not re.fullmatch(NUMBER, x):
        raise LevelError(f"{here}: x={x:.40}; expected a number above 0")
    if not any("Cx" in row.split() for row in rows):
        raise LevelError(f"{here}: x={x:.40}, but no coin 'Cx' in the map; expected one for x to be used")
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
