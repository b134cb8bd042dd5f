"""A study is a question, a table and a page: ``NAME.py`` says what is run and measured, ``NAME.md`` says what it means.

The module has

- ``Config``: a dataclass of values. Its defaults are the study.
- ``QUICK``: the values of the quick version, a smoke test.
- ``jobs(cfg) -> dict[Key, Job]``: the runs, by key.
- ``rows(cfg, done) -> DataFrame``: what was measured. ``done`` has the results of the runs by the same keys. Nothing
  else sees runs: `drest study` writes the rows to a csv file, and all below is made from that file.
- ``FIGURES``, ``TABLES``: functions of the rows by name, which return a `Plot` and a `Table`.
- ``CLAIMS``: functions of the rows by the sentence that they test.
- ``NUMBERS``, if the text has any: functions of the rows by the name that the text uses.

The page is Markdown (`drest_torch.studies.study_page`). `docs/howto/studies.md` says how to write a study.

Studies that have ``report(cfg, done) -> Report`` instead of ``rows`` are of the form before this one; what they need
stands below, and in `drest_torch.studies.old_report`, and goes with the last of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from omegaconf import MISSING

from drest_torch.jobs.job import Job, Result
from drest_torch.report.blocks import Block, Plot, Section, Table
from drest_torch.report.markdown import literal
from drest_torch.report.template import render_template

Key: TypeAlias = Any
"""A `NamedTuple` of a study's own, or a text."""


@dataclass
class StudyConfig:
    """The values of every study."""

    name: str = MISSING
    quick: dict[str, Any] = field(default_factory=dict)
    """Values that `quick=true` puts in place of others: those of QUICK."""


def value(default: Any) -> Any:
    """Return a field of a `Config` whose default is a copy of this list, dictionary or dataclass."""
    return field(default_factory=lambda: copy.deepcopy(default))


IS_PLACE = "place"


def place() -> Any:
    """Return a field of a `Config` that says where files lie which are not in the repository.

    The path is no value of the study: neither its digest nor its published command depends on it. A study without the
    files leaves out what needs them.
    """
    return field(default=None, metadata={IS_PLACE: True})


class Done(dict[Key, Result]):
    """The results of the runs that are done, by their keys."""

    def __init__(self, planned: Mapping[Key, Job], store: Any) -> None:
        """Read results from a `Store`, or from anything that has ``get(job)``."""
        found = {key: store.get(job) for key, job in planned.items()}
        super().__init__((key, result) for key, result in found.items() if result is not None)
        self.planned = planned

    @property
    def missing(self) -> list[Job]:
        """Return the runs that have failed or were not done."""
        return [job for key, job in self.planned.items() if key not in self]


def beside(study: ModuleType, suffix: str) -> Path:
    """Return the file of a study with this suffix: ``NAME.md`` beside ``NAME.py``, or in the folder of its package."""
    path = Path(study.__file__ or "")
    if path.name == "__init__.py":
        return path.parent / f"{path.parent.name}{suffix}"
    return path.with_suffix(suffix)


# ------------------------------------------------------- studies with `report`: remove with the last of them


@dataclass(frozen=True)
class Quote:
    """A row of the overview and of docs/results.md."""

    what: str
    reported: str
    """By the paper; empty where it says nothing."""
    measured: str


@dataclass
class Report:
    """What a study measured, and what its page shows of it.

    Everything but ``rows`` may be a function without arguments, which is called where all that it needs is there.
    """

    rows: pd.DataFrame
    """The tidy table: columns that say what was measured, ``metric``, and ``value``, a number or an array of agents."""
    quotes: Sequence[Quote] | Callable[[], Sequence[Quote]] = ()
    tables: Mapping[str, Table | Callable[[], Table]] = field(default_factory=dict)
    plots: Mapping[str, Plot | Callable[[], Plot]] = field(default_factory=dict)
    values: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    """What the sentences of the page need besides the values and the constants of the module."""
    kept: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    """What published tables need besides the quotes, as JSON values."""
    exact: bool | None = None
    """Whether no number is sampled; None: as the settings of the runs say."""


@dataclass(frozen=True)
class Published:
    """A study as it is published."""

    blocks: Sequence[Block]
    """Those of an introduction, if any, then sections."""
    results: pd.DataFrame
    """One measured value in each row."""
    quotes: Sequence[Quote] = ()
    kept: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, bool] = field(default_factory=dict)
    """The sentences of the page that claim something, and whether they hold (see `drest_torch.report.template`)."""
    exact: bool | None = None


def publish(study: ModuleType, cfg: Any, done: Done, *, prose: bool = True) -> Published:
    """Return what a study publishes: prose, tables and plots, or tables and plots alone where a run is missing.

    A table or plot that cannot be made without the missing runs is left out, and quotes are taken of all runs only.
    """
    complete = not done.missing
    report: Report | None = _made(lambda: study.report(cfg, done), complete) if len(done) else None
    if report is None:
        return Published([], pd.DataFrame())
    claims: dict[str, bool] = {}
    tables: dict[str, Table] = _all_made(report.tables, complete)
    plots: dict[str, Plot] = _all_made(report.plots, complete)
    kept = _called(report.kept) if complete else {}
    quotes = list(_called(report.quotes)) if complete else []
    if not (complete and prose):
        shown: dict[str, list[Block]] = {"Plots": [*plots.values()], "Tables": [*tables.values()]}
        blocks: list[Block] = [Section(title, parts) for title, parts in shown.items() if parts]
    else:
        constants = {name: each for name, each in vars(study).items() if name.isupper()}
        page = beside(study, ".md")
        blocks = render_template(page, {"cfg": cfg, **constants, **_called(report.values)}, tables, plots, claims)
    return Published(blocks, one_value_each(report.rows), quotes, kept, claims, report.exact)


def _called(part: Any) -> Any:
    return part() if callable(part) else part


def _made(part: Any, complete: bool) -> Any:
    try:
        return _called(part)
    except (LookupError, ValueError):  # of keys and rows that are not there, and of the extremes of nothing
        if complete:
            raise
        return None


def _all_made(parts: Mapping[str, Any], complete: bool) -> dict[str, Any]:
    made = {name: _made(part, complete) for name, part in parts.items()}
    return {name: part for name, part in made.items() if part is not None}


def one_value_each(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each number in ``value``.

    The place of a number in an array becomes its ``seed``, or its ``level`` where the seed is known.
    """
    if not any(isinstance(each, np.ndarray | list) for each in rows.get("value", ())):
        return rows
    arrays = [np.asarray(each, float) for each in rows["value"]]
    sizes = [array.size for array in arrays]
    one = rows.loc[rows.index.repeat(sizes)].reset_index(drop=True)
    one["level" if "seed" in one else "seed"] = np.concatenate([np.arange(size) for size in sizes])
    one["value"] = np.concatenate([array.ravel() for array in arrays])
    return one


def as_table(cells: pd.DataFrame, caption: str, header: Iterable[str], note: str = "") -> Table:
    """Return the table of a frame of texts, whose index names the rows."""
    rows = [[literal(str(name)), *row] for name, row in zip(cells.index, cells.to_numpy().tolist(), strict=True)]
    return Table(caption, [*header], rows, note)
