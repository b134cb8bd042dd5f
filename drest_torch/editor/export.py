"""A page that needs no server: the results of chosen levels and agents, and of every change of one cell."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drest_torch.agent import Agent
from drest_torch.editor.answers import EvaluationLimits, answers, level_values
from drest_torch.editor.editor_page import render
from drest_torch.envs.levels import Level, level_from_record, level_to_record
from drest_torch.errors import UserError
from drest_torch.files import write_text

TEXTS = ("#", ".", "A", "C1", "C3", "C5", "B2", "B4")
"""The cells that a page without a server can draw."""
DIGITS = 3
"""Decimals of all numbers, as many as the page shows."""


def export(
    levels: Sequence[Level], agents: Mapping[str, Agent], limits: EvaluationLimits, path: Path, *, changes: bool = True
) -> None:
    """Write a page with the results of agents on levels.

    Args:
        levels: the levels to choose from.
        agents: the agents to choose from, by name.
        limits: the limits of an evaluation.
        path: the file.
        changes: whether the page has the results after each change of one cell.
    """
    results = {name: [_results(agent, level, limits, changes) for level in levels] for name, agent in agents.items()}
    packed = gzip.compress(json.dumps(results, separators=(",", ":")).encode(), mtime=0)
    further: dict[str, Any] = {"answers": base64.b64encode(packed).decode(), "texts": list(TEXTS if changes else ())}
    write_text(path, render(levels, agents, further))


def _results(agent: Agent, level: Level, limits: EvaluationLimits, changes: bool) -> dict[str, Any]:
    """Return the results on a level by the change that is made first; the empty text is no change."""
    records = {"": level_to_record(level)}
    if changes:
        records |= dict(changed_records(level))
    levels: dict[str, Level] = {}
    results: dict[str, Any] = {}
    for change, record in records.items():
        try:
            levels[change] = level_from_record(record)
        except UserError as error:
            results[change] = {"error": str(error)}
    for change, answer in zip(levels, _answers(agent, [*levels.values()], limits), strict=True):
        results[change] = _rounded(answer)
    return results


def changed_records(level: Level) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each change of one cell as ``ROW COLUMN TEXT``, with the record of the changed level.

    The agent's cell does not change, unless the agent starts elsewhere.
    """
    record = level_to_record(level)
    cells = [row.split() for row in record["map"]]
    for row, texts in enumerate(cells):
        for column, before in enumerate(texts):
            for text in TEXTS:
                if before not in (text, "A"):
                    yield f"{row} {column} {text}", {**record, "map": _changed(cells, row, column, text)}


def _changed(cells: Sequence[Sequence[str]], row: int, column: int, text: str) -> list[str]:
    """Return the rows of a map with another text in a cell; the agent leaves its cell if it starts in this one."""
    rows = [list(texts) for texts in cells]
    if text == "A":
        rows = [["." if cell == "A" else cell for cell in texts] for texts in rows]
    rows[row][column] = text
    return [" ".join(texts) for texts in rows]


def _answers(agent: Agent, levels: Sequence[Level], limits: EvaluationLimits) -> list[dict[str, Any]]:
    """Return the results or the error of each level. Levels with an error are found by halving."""
    try:
        results = answers(agent, levels, limits)
    except UserError as error:
        if len(levels) == 1:
            return [{"error": str(error)}]
        half = len(levels) // 2
        return [*_answers(agent, levels[:half], limits), *_answers(agent, levels[half:], limits)]
    return [{**result, "places": level_values(level)["places"]} for result, level in zip(results, levels, strict=True)]


def _rounded(value: Any) -> Any:
    """Return a JSON value with fewer decimals."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return value
