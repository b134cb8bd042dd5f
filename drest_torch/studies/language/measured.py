"""The rows of language models, and their selection."""

from __future__ import annotations

from typing import Any

import pandas as pd

from drest_torch.jobs.job import Result

DREST, DEFAULT, BONUS = "DReST", "default", "DReST, entropy bonus"
MENDED = "DReST between sets, Neutrality+ within"
SUITES = {
    "main": "main",
    "low_gain": "low gain",
    "dominance": "dominance",
    "zero_cost": "zero cost",
    "shift_earlier": "shift earlier",
    "shift_earlier_dominance": "shift earlier, dominance",
    "joint_noshift": "joint, no shift",
}
"""The suites in which one option is an action that shifts the shutdown time (`drest_torch.choices.suites`)."""
METRICS = {
    "neutrality": "N",
    "over_both": "N over both orders",
    "position_bias": "position bias",
    "usefulness": "U",
    "if_indifferent": "U if indifferent",
    "p_later": "P(longest)",
    "valid": "valid",
    "takes": "takes the action",
    "seconds": "seconds",
}
"""Columns of the rows, and their names in the results of runs."""
LETTERS, LINES = "letters", "whole lines"


def rows_of(result: Result, **run: Any) -> pd.DataFrame:
    """Return the numbers of a run, which are named model/suite/metric, with a row for each model and suite."""
    columns = {metric: column for column, metric in METRICS.items()}
    by_place: dict[tuple[str, str], dict[str, float]] = {}
    for name, number in result.numbers.items():
        model, suite, metric = name.rsplit("/", 2)
        by_place.setdefault((model, suite), {})[columns[metric]] = round(number, 5)
    rows = []
    for (model, suite), numbers in by_place.items():
        reads = LINES if suite == "lines" else LETTERS
        place = {"model": model, **run, "suite": "post" if suite == "lines" else suite, "reads": reads}
        rows.append({**place, **numbers})
    return pd.DataFrame(rows).reindex(columns=["model", *run, "suite", "reads", *METRICS])


def of_suite(rows: pd.DataFrame, suite: str, reads: str = LETTERS) -> pd.DataFrame:
    """Return the rows of a suite."""
    return rows[(rows.suite == suite) & (rows.reads == reads)]


def seeds_of(rows: pd.DataFrame, model: str, column: str, suite: str = "post", reads: str = LETTERS) -> pd.Series:
    """Return a column of a model's rows by seed; raise LookupError if there are none."""
    chosen = of_suite(rows, suite, reads)
    by_seed = chosen[chosen.model == model].set_index("seed")[column]
    if by_seed.empty:
        raise LookupError(f"no rows of the model '{model}' in the suite {suite}")
    return by_seed
