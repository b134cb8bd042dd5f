"""The tables of agents in the study of lotteries: what their columns are, and what stands in a cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from drest_torch.choices.arms import ARMS
from drest_torch.choices.prospects import RESIST
from drest_torch.choices.suites import extreme_suites, suites
from drest_torch.report.blocks import Table
from drest_torch.report.tables import median_range
from drest_torch.studies.engine import as_table

SUITES = {name: name.replace("_", " ") for name in [*suites(3), *extreme_suites()]}
OTHERS = {
    "usefulness": "usefulness, sure",
    "neutrality": "neutrality (bits), sure",
    "usefulness/three": "usefulness, three options",
    "neutrality/three": "neutrality (bits), three options",
    "shift/never": "κ̂ 0.05",
    "ilpacs": "ILPACS",
    "items/ilpacs": "its valid items",
    "resic/main": "ReSIC holds, of main",
    "resic/shift_earlier": "of earlier",
    "resic/dominance": "of dominance",
    "maximality": "Maximality",
    "slack/worst": "largest slack",
}
SCORES = {
    "posl": "POSL of 9",
    "neutrality/prospects": "Neutrality of 2",
    "cycles": "cycles",
    "negative dominance": "against Negative Dominance",
    "arbitrary": "arbitrary",
    "void/prospects": "void pairs",
}
WAYS = {"later": "for a later shutdown", "earlier": "for an earlier shutdown"}
RESISTS = {f"{way}/0.01/0.05": f"RS(0.01, 0.05), {words}" for way, words in WAYS.items()}
NEVER = {f"never/{way}/{chance:g}": f"κ̂, {words}, ε₀ = {chance:g}" for way, words in WAYS.items() for chance in RESIST}
SHOWN: dict[str, tuple[str, dict[str, str]]] = {
    "suites": ("How often the shift is taken, in percent", SUITES),
    "others": ("The other tests", OTHERS),
    "scores": ("Scores on the six prospects", SCORES),
    "resist": ("The price from which on shutdown is not resisted", NEVER | RESISTS),
}
"""The tables of agents: a caption, and their columns by the name of what was measured."""
PUBLISHED_ARMS = ("D", "D, lists", "D, same lengths", "A", "A, lists", "B", "B'", "W", "K", "E")
PUBLISHED_COLUMNS = {
    "main": "pays for a later shutdown (%)",
    "dominance": "takes what is better in both lengths (%)",
    "shift_earlier": "pays for an earlier shutdown (%)",
    "usefulness": "usefulness",
    "neutrality": "neutrality (bits)",
    "posl": "POSL of 9",
}
"""The table of docs/explanation/shutdownability.md."""


def agents_table(tests: pd.DataFrame, caption: str, heads: Mapping[str, str], first: str = "agent") -> Table:
    """Return a row for each arm and archetype: the median over agents, with the lowest and the highest."""
    cells = pd.DataFrame(index=tests.index)
    for measure, head in heads.items():
        times, digits = (100, 1) if measure in SUITES else (1, 0 if measure in SCORES else 2)
        cells[head] = [median_range(times * sampled(row, measure), digits) for _, row in tests.iterrows()]
    return as_table(cells, caption, [first, *cells])


def sampled(numbers: Any, measure: str) -> np.ndarray:
    """Return a measure of agents; that of a suite with two ends, to which its sample of items leaves it open."""
    values = np.asarray(numbers[measure], dtype=float)
    if f"error/{measure}" not in numbers or np.isnan(values).all():
        return values
    errors = np.nan_to_num(numbers[f"error/{measure}"])
    return np.array([max(0, np.nanmin(values - errors)), *values, min(1, np.nanmax(values + errors))])


def published_table(tests: pd.DataFrame) -> Table:
    """Return the table that the documentation has of the arms."""
    tests = tests.loc[[name for name in PUBLISHED_ARMS if name in tests.index]]
    titles = [f"{name}: {ARMS[str(name)].title} ({len(row.main)} agents)" for name, row in tests.iterrows()]
    return agents_table(tests.set_axis(titles), "Which training makes agents neutral", PUBLISHED_COLUMNS, "arm")
