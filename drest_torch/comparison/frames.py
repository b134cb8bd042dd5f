"""Frames of runs: a row for each value, by configuration, run or level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from drest_torch.comparison.aggregation import MEAN_OVER_SEEDS, Aggregation, aggregated, improvements
from drest_torch.comparison.configurations import (
    Configuration,
    configurations,
    differences,
    has_score,
    in_group,
    labels,
    score_of,
    splits_of,
)
from drest_torch.comparison.records import FURTHER_MEASURES, MEASURES, RunRecord
from drest_torch.evaluation.tidy import LEVEL_COLUMNS, data_frame, level_rows
from drest_torch.evaluation.tidy import MEASURES as NAMES

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("configurations", "runs", "levels", "improvement")
_RUN_COLUMNS = ("run", "folder", "algorithm", "reward", "task", "seed", "env_steps", "train_seconds", "finished")
_CONFIGURATION_COLUMNS = ("configuration", "algorithm", "reward", "task", "env_steps_least", "env_steps_most")
_SCORE_COLUMNS = ("split", "measure", "value", "low", "high")
_WITH_COLUMN = ("algo.name", "reward.name", "seed", "env.name", "env.title", "levels.name", "levels.path")
"""Keys that have a column of another name."""


def frame(
    runs: Sequence[RunRecord],
    table: str = "configurations",
    choice: Aggregation = MEAN_OVER_SEEDS,
    across: str | None = None,
) -> pd.DataFrame:
    """Return a table of runs as a frame, see `drest_torch.compare.frame`."""
    settings = [key for key in differences(runs) if key not in _WITH_COLUMN and not in_group(key, across)]
    if table == "runs":
        return data_frame(_run_rows(runs, settings), [*_RUN_COLUMNS, *settings, "split", "measure", "value"])
    if table == "levels":
        return data_frame(_level_rows(runs, settings), [*_RUN_COLUMNS, *settings, "split", *LEVEL_COLUMNS])
    compared = configurations(runs, across)
    if table == "improvement":
        columns = ["configuration", "compared_with", "seeds", "levels", *_SCORE_COLUMNS]
        return data_frame(_improvement_rows(compared, choice), columns)
    columns = [*_CONFIGURATION_COLUMNS, *settings, "seeds", "levels", "aggregate", "over", *_SCORE_COLUMNS]
    return data_frame(_configuration_rows(compared, settings, choice), columns)


def _run_values(number: int, run: RunRecord, settings: Sequence[str]) -> dict[str, Any]:
    """Return the values that describe a run, without scores."""
    return {
        "run": number,
        "folder": str(run.folder),
        "algorithm": run.value("algo.name"),
        "reward": run.value("reward.name"),
        "task": run.place,
        "seed": run.config["seed"],
        "env_steps": None if run.training else run.steps,
        "train_seconds": run.seconds,
        "finished": run.summary is not None,
        **{key: run.config.get(key) for key in settings},
    }


def _run_rows(runs: Sequence[RunRecord], settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, run in enumerate(runs, start=1):
        values = _run_values(number, run, settings)
        for split, measure in run.scores:
            if has_score(run, split, measure):
                yield {**values, "split": split, "measure": NAMES[measure], "value": score_of(run, split, measure)}


def _level_rows(runs: Sequence[RunRecord], settings: Sequence[str]) -> Iterator[dict[str, Any]]:
    for number, run in enumerate(runs, start=1):
        values = _run_values(number, run, settings)
        for split in splits_of([run]):
            for row in level_rows(run.levels(split)):
                yield {**values, "split": split, **row}


def _configuration_rows(
    compared: Sequence[Configuration], settings: Sequence[str], choice: Aggregation
) -> Iterator[dict[str, Any]]:
    for label, configuration in zip(labels(compared), compared, strict=True):
        run = configuration.runs[0]
        steps = [other.steps for other in configuration.runs if not other.training]
        values = {
            "configuration": label,
            "algorithm": run.value("algo.name"),
            "reward": run.value("reward.name"),
            "task": ", ".join(dict.fromkeys(other.place for other in configuration.runs)),
            "env_steps_least": min(steps, default=None),
            "env_steps_most": max(steps, default=None),
            **{key: run.config.get(key) for key in settings},
            "aggregate": choice.aggregate,
            "over": choice.over,
        }
        for split in splits_of(configuration.runs):
            for measure in (*MEASURES, *FURTHER_MEASURES):
                score = aggregated(configuration, split, measure, choice)
                if score is not None:
                    yield {**values, **_score_values(split, measure, score)}


def _improvement_rows(compared: Sequence[Configuration], choice: Aggregation) -> Iterator[dict[str, Any]]:
    for (first, second, split, measure), score in improvements(compared, choice):
        pair = {"configuration": first, "compared_with": second}
        yield {**pair, **_score_values(split, measure, score)}


def _score_values(split: str, measure: str, score: Any) -> dict[str, Any]:
    """Return the columns of an aggregated score; an interval that does not exist is missing."""
    ends = (score.low, score.high)
    low, high = (None if math.isnan(end) else end for end in ends)
    counts = {"seeds": score.seeds, "levels": score.levels}
    return {**counts, "split": split, "measure": NAMES[measure], "value": score.estimate, "low": low, "high": high}
