"""Print runs beside each other: their results, and the configuration values in which they differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.table import Table

from drest_torch.comparison.records import MEASURES, RunRecord, differences
from drest_torch.tracking.console import console_for

_SPLITS = {"train": "training", "test": "test", "paper": "paper"}
"""Which levels a column is of; `test` are levels that were not trained on, `paper` the paper's worlds."""


def print_comparison(runs: Sequence[RunRecord], stream: TextIO | None = None) -> None:
    """Print the tables of several runs, and the folder of each."""
    console = console_for(stream or sys.stdout)
    console.print(result_table(runs))
    if differing := differences(runs):
        console.print(difference_table(differing))
    for number, run in enumerate(runs, start=1):
        console.print(f"run {number}: {run.folder}", soft_wrap=True, highlight=False)


def result_table(runs: Sequence[RunRecord]) -> Table:
    """Return the table of usefulness and neutrality on the levels of each split, one line per run."""
    splits = list(dict.fromkeys(split for run in runs for split, _ in run.scores))
    note = "" if all(run.finished for run in runs) else "; *: not finished, its latest evaluation (on fewer levels)"
    table = _table(f"by levels: training, test (not trained on), paper (its worlds); neutrality in bits{note}")
    table.add_column("\nrun", justify="right", no_wrap=True)
    for name in ("algorithm", "levels"):
        table.add_column(f"\n{name}", overflow="fold")
    for name in ("seed", "steps"):
        table.add_column(f"\n{name}", justify="right", no_wrap=True)
    for measure in MEASURES:
        for place, split in enumerate(splits):
            head = f"{'' if place else measure}\n{_SPLITS.get(split, split)}"
            table.add_column(head, style="bold", no_wrap=True)
    table.add_column("\nseconds", justify="right", no_wrap=True)
    for number, run in enumerate(runs, start=1):
        scores = [run.scores.get((split, measure)) for measure in MEASURES for split in splits]
        table.add_row(
            f"{number}",
            run.value("algo.name"),
            run.value("levels.path" if run.config.get("levels.path") else "levels.name"),
            run.seeds,
            f"{run.steps:,}{'' if run.finished else '*'}",
            *("-" if score is None else f"{score:.3f}" for score in scores),
            "-" if run.seconds is None else f"{run.seconds:,.0f}",
        )
    return table


def difference_table(differing: dict[str, dict[str, list[int]]]) -> Table:
    """Return the table of configuration values in which runs differ, one line per value."""
    table = _table("")
    for name in ("the runs differ in", "value", "runs"):
        table.add_column(name, overflow="fold")
    for key, places in differing.items():
        for row, (value, members) in enumerate(places.items()):
            table.add_row("" if row else key, value, " ".join(str(place + 1) for place in members))
    return table


def _table(caption: str) -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        caption=caption or None,
        caption_justify="left",
    )
