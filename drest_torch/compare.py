"""The command `drest compare`, and frames of runs: ``drest compare runs/* out=table.tex out=curves.pdf``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from drest_torch.commands.cli import one_sentence, streams
from drest_torch.comparison.aggregation import OVER, Aggregation
from drest_torch.comparison.configurations import in_group
from drest_torch.comparison.frames import TABLES
from drest_torch.comparison.records import RunRecord, find_runs
from drest_torch.errors import UserError, printable
from drest_torch.limits import limited, limits_of
from drest_torch.outputs import PICTURES, check_outputs
from drest_torch.statistics.aggregates import AGGREGATES

if TYPE_CHECKING:
    import pandas as pd

HELP = """\
Print, plot and tabulate runs beside each other.

  drest compare runs/A runs/B
  drest compare runs/* out=table.tex out=curves.pdf
  drest compare runs/* aggregate=iqm over=both table=improvement out=better.csv

Each argument is the folder of a run, of a sweep (runs/multirun/TIME), or one that
contains runs. A run that is not finished is shown with its latest evaluation.

  out=null  (path, or null; may be given several times)
            .csv, .json: a tidy table with one value a row, and units in the names.
            .tex: a table for LaTeX with the package booktabs. .md: one in Markdown.
            .pdf, .svg, .png: a picture, see plot.
  table=configurations  (configurations, runs, levels or improvement)
            The rows of the table. configurations: aggregates of runs that differ only
            in their seed. runs: the runs. levels: the levels of each run (.csv, .json).
            improvement: for each pair of configurations the probability that a seed
            of the first is better than one of the second; also printed.
  plot=curves  (curves or profile)
            curves: usefulness and neutrality against environment steps. profile:
            performance profiles, the share of levels and seeds that reach a score.
  aggregate=mean  (mean, median or iqm)
            The aggregate of scores. median: over levels, of their means over seeds;
            iqm: the mean of the middle half of the scores of all seeds and levels.
  over=seeds  (seeds or both)
            The 95 % interval is one over other seeds on the same levels, or over both
            other seeds and other levels.
  across=null  (key or group, or null)
            Pool runs that also differ in this key or group, such as levels or env.

The printed tables: usefulness and neutrality of each run on the levels of each split;
their aggregates over seeds, with 95 % intervals; and the configuration values in which
the runs differ. A run that cannot be read is left out, and named."""

PLOTS = {"curves": "learning curves", "profile": "performance profiles"}
DATA = (".csv", ".json")
DOCUMENTS = (".tex", ".md")


@dataclass
class Choices:
    """The choices of a comparison by key, besides ``out``."""

    table: str = limited(choices=TABLES, default="configurations")
    plot: str = limited(choices=tuple(PLOTS), default="curves")
    aggregate: str = limited(choices=tuple(AGGREGATES), default="mean")
    over: str = limited(choices=tuple(OVER), default="seeds")
    across: str | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The aggregate and its interval."""
        return Aggregation(self.aggregate, self.over)

    def check(self) -> None:
        """Raise for a value that is none of the choices of its key."""
        for entry in fields(self):
            limits, value = limits_of(entry), getattr(self, entry.name)
            if limits is not None and not limits.allow(value):
                raise UserError(f"{entry.name}={value}: expected {limits}")


def frame(
    runs: str | Path | Sequence[str | Path],
    *,
    table: str = "configurations",
    aggregate: str = "mean",
    over: str = "seeds",
    across: str | None = None,
) -> pd.DataFrame:
    """Return a table of runs as a frame of pandas, with one value a row and units in the names.

    Args:
        runs: folders of runs, of sweeps, or of several of them. A run that cannot be read is left out, and named.
        table: ``configurations``, aggregates of runs that differ only in their seed; ``runs``; ``levels``, the levels
            of each run; or ``improvement``, for each pair of configurations the probability that a seed of the first
            has a higher score than one of the second.
        aggregate: ``mean``, ``median`` (over levels, of their means over seeds), or ``iqm``, the interquartile mean.
        over: ``seeds``, for 95 % intervals over other seeds on the same levels, or ``both``, over other levels, too.
        across: a key or group of the configuration, such as ``levels`` or ``env``. Runs that also differ in it are
            pooled.

    Example:
        >>> frame("runs", table="runs").groupby("algorithm").value.mean()  # doctest: +SKIP
    """
    from drest_torch.comparison.frames import frame as frame_of

    choices = Choices(table=table, aggregate=aggregate, over=over, across=across)
    choices.check()
    if isinstance(runs, str | Path):
        runs = [runs]
    records = _records([*map(Path, runs)], choices)
    return frame_of(records, table, choices.aggregation, across)


def main() -> None:
    """Compare the runs in the arguments."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return
    with streams(), one_sentence():
        _compare(arguments)


def _compare(arguments: list[str]) -> None:
    folders, outputs, choices = _parse(arguments)
    if not folders:
        raise UserError("no run is named; expected folders of runs, as in: drest compare runs/*")
    _check_outputs(outputs, choices)
    runs = _records(folders, choices)
    check_outputs(*outputs, reads=[run.folder / "config.yaml" for run in runs])
    from drest_torch.comparison.printing import print_comparison

    written = [_write(path, runs, choices) for path in outputs]  # first, as the reader of the output may end early
    is_improvement = choices.table == "improvement"
    print_comparison(runs, choices.aggregation, across=choices.across, with_improvement=is_improvement)
    for sentence in written:
        print(printable(sentence))


def _parse(arguments: list[str]) -> tuple[list[Path], list[Path], Choices]:
    """Return the folders, the outputs and the choices in the arguments."""
    folders, outputs, choices = [], [], Choices()
    names = [entry.name for entry in fields(Choices)]
    for word in arguments:
        key, equals, value = word.partition("=")
        if word.startswith("-"):
            raise UserError(f"{word}: no such option; see drest compare --help")
        if key == "out" and Path(value) in outputs:
            raise UserError(f"{word}: given twice")
        if equals and value == "null" and key in ("out", "across"):
            continue
        if equals and key == "out":
            outputs.append(Path(value))
        elif equals and key in names:
            setattr(choices, key, value)
        elif equals and key.isidentifier() and not Path(word).exists():
            raise UserError(f"{word}: no such key; expected out, {', '.join(names)}, or the folder of a run")
        else:
            folders.append(Path(word))
    choices.check()
    return folders, outputs, choices


def _check_outputs(outputs: list[Path], choices: Choices) -> None:
    """Raise for an output that cannot be written."""
    for path in outputs:
        suffix = path.suffix.lower()
        if suffix not in (*PICTURES, *DATA, *DOCUMENTS):
            endings = ", ".join((*DATA, *DOCUMENTS, *PICTURES))
            raise UserError(f"{path}: cannot be written; expected a name that ends in one of {endings}")
        if suffix in DOCUMENTS and choices.table == "levels":
            raise UserError(f"{path}: table=levels has thousands of rows; expected .csv or .json")


def _records(folders: Sequence[Path], choices: Choices) -> list[RunRecord]:
    """Return the runs in folders; print a sentence for each that is left out."""
    runs, refused = find_runs(folders)
    if not runs:
        raise UserError(refused[0])
    if choices.table == "levels":
        missing = [run for run in runs if not run.has_levels]
        refused += [f"{run.folder}: no values by level (levels_*.json of a finished run)" for run in missing]
    for sentence in refused:
        print(f"drest_torch: {printable(sentence)}; left out", file=sys.stderr)
    keys = set().union(*(run.config for run in runs))
    if choices.across is not None and not any(in_group(key, choices.across) for key in keys):
        raise UserError(
            f"across={choices.across}: no run has this key; expected a key or group, such as levels or algo.lr"
        )
    return runs


def _write(path: Path, runs: list[RunRecord], choices: Choices) -> str:
    """Write an output, and return a sentence that says where it is."""
    suffix = path.suffix.lower()
    place = f"in {path}"
    if path.exists():
        place += ", in place of the file that was there"
    if suffix in PICTURES:
        from drest_torch.comparison.pictures import write_picture

        write_picture(path, runs, choices.plot, choices.aggregation, choices.across)
        return f"The {PLOTS[choices.plot]} are {place}"
    from drest_torch.comparison.table_files import write_table

    write_table(path, runs, choices.table, choices.aggregation, choices.across)
    return f"The table is {place}"


if __name__ == "__main__":
    main()
