"""Tables that compare runs: their results, and the configuration values in which they differ."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.table import Table

from drest_torch.comparison.aggregation import MEAN_OVER_SEEDS, Aggregated, Aggregation, aggregated, improvements
from drest_torch.comparison.configurations import (
    Configuration,
    configurations,
    differences,
    splits_of,
    title_of_places,
)
from drest_torch.comparison.records import MEASURES, RunRecord
from drest_torch.tracking.console import console_for

_NUMBER = 5
"""The width of a number such as ``0.873``, and of the split's name above it."""


def print_comparison(
    runs: Sequence[RunRecord],
    choice: Aggregation = MEAN_OVER_SEEDS,
    *,
    across: str | None = None,
    with_improvement: bool = False,
) -> None:
    """Print the tables of several runs, and the folder of each."""
    console = console_for(sys.stdout)
    console.print(result_table(runs))
    compared = configurations(runs, across)
    seeds = seeds_table(compared, choice)
    if seeds.rows:
        console.print(seeds)
    if with_improvement:
        console.print(improvement_table(compared, choice))
    if differing := differences(runs):
        console.print(difference_table(differing))
    for number, run in enumerate(runs, start=1):
        line = f"run {number}: {run.folder}"
        if not run.summary:
            line += f" (not finished: {run.steps / run.config['env_steps']:.0%})"
        if run.training is not None:
            line += f": {run.training}"
        console.print(line, soft_wrap=True, highlight=False)


def result_table(runs: Sequence[RunRecord]) -> Table:
    """Return the table of usefulness and neutrality on each split, one line per run.

    The values of a measure share one column, so that the table fits into 80 columns.
    """
    splits = splits_of(runs)
    title = title_of_places(runs)
    notes = ["usefulness and neutrality (in bits) on training levels, test levels (not trained on), the paper's worlds"]
    if title == "environment":
        notes = ["usefulness and neutrality (in bits) in sampled mini-episodes"]
    elif title == "task":
        notes.append("outside gridworlds, test: sampled mini-episodes")
    if not all(run.summary for run in runs):
        notes.append("*: not finished; the values are those of its latest evaluation, on fewer levels")
    if any(run.training for run in runs):
        notes.append("-: exact gradients take no environment steps; what they took is below")
    table = _table("\n".join(notes))
    heads = " ".join(f"{split:>{_NUMBER}}" for split in splits)
    table.add_column("\nrun", justify="right", no_wrap=True)
    table.add_column("\nalgorithm", overflow="fold", min_width=4)
    if rewards := len({run.value("reward.name") for run in runs}) > 1:
        table.add_column("\nreward", overflow="fold", min_width=5)
    table.add_column(f"\n{title}", overflow="fold", min_width=6)
    table.add_column("\nseed", justify="right", no_wrap=True)
    table.add_column("\nsteps", justify="right", no_wrap=True)
    for measure in MEASURES:
        table.add_column(f"{measure}\n{heads}", style="bold", no_wrap=True)
    table.add_column("\nseconds", justify="right", no_wrap=True)
    for number, run in enumerate(runs, start=1):
        table.add_row(
            f"{number}",
            run.value("algo.name"),
            *([run.value("reward.name")] if rewards else []),
            run.place,
            run.value("seed"),
            f"{'-' if run.training else f'{run.steps:,}'}{' ' if run.summary else '*'}",
            *(" ".join(_score(run, split, measure) for split in splits) for measure in MEASURES),
            "-" if run.seconds is None else f"{run.seconds:,.0f}",
        )
    return table


def _score(run: RunRecord, split: str, measure: str) -> str:
    """Return a score, or ``-``, in the width of its column."""
    score = run.scores.get((split, measure))
    text = "-" if score is None else f"{score:.3f}"
    return text.rjust(max(_NUMBER, len(split)))


def seeds_table(compared: Sequence[Configuration], choice: Aggregation = MEAN_OVER_SEEDS) -> Table:
    """Return the table of aggregates, one line per configuration and split with at least two seeds."""
    across = compared[0].across
    exception = f"their seed and {across}" if across else "their seed"
    words = choice.words(is_pooled=across is not None)
    table = _table(f"{words} of runs that differ in nothing but {exception}")
    for name in ("runs", "algorithm", "split"):
        table.add_column(name, overflow="fold")
    table.add_column("seeds", justify="right", no_wrap=True)
    for measure in MEASURES:
        table.add_column(measure if measure == "usefulness" else f"{measure} (bits)", style="bold", no_wrap=True)
    splits = splits_of([run for configuration in compared for run in configuration.runs])
    for configuration in compared:
        for split in splits:
            scores = [aggregated(configuration, split, measure, choice) for measure in MEASURES]
            intervals = [score for score in scores if score is not None and score.has_interval]
            if intervals:
                seeds = max(score.seeds for score in intervals)
                algorithm = configuration.runs[0].value("algo.name")
                table.add_row(str(configuration), algorithm, split, str(seeds), *map(_interval, scores))
    return table


def _interval(score: Aggregated | None) -> str:
    """Return an aggregate with its interval, or ``-``."""
    if score is None or not score.has_interval:
        return "-"
    return str(score)


def improvement_table(compared: Sequence[Configuration], choice: Aggregation) -> Table:
    """Return the table of probabilities that a seed of a configuration is better than one of another."""
    over = "seeds" if choice.over == "seeds" else "seeds and levels"
    table = _table(f"P: probability that a seed of the first is better (95 % bootstrap interval over {over})")
    for name in ("first", "second", "split", "measure"):
        table.add_column(name, overflow="fold")
    table.add_column("P", style="bold", no_wrap=True)
    for pair, score in improvements(compared, choice):
        table.add_row(*pair, str(score))
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
        show_edge=False,
        padding=0,
        header_style="bold",
        caption=caption or None,
        caption_justify="left",
    )
