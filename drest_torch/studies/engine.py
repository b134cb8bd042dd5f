"""A study is a question, a table and a page: ``NAME.py`` defines runs and measurements, ``NAME.md`` interprets them.

The module has

- ``Config``: a dataclass of values. Its defaults are the study.
- ``QUICK``: the values of the quick version, a smoke test.
- ``jobs(cfg) -> dict[Key, Job]``: the runs, by key.
- ``rows(cfg, done) -> DataFrame``: the measurements. ``done`` holds the results of the runs by the same keys. Only this
  function sees the runs: `drest study` writes the rows to a csv file, from which everything below is made.
- ``FIGURES``, ``TABLES``: functions from the rows to a `Plot` or a `Table`, by name.
- ``CLAIMS``: tests of the rows, by the sentence that they test.
- ``NUMBERS``, optional: functions from the rows to a number in the text, by name.

The page is Markdown (`drest_torch.studies.study_page`). `docs/howto/studies.md` explains how to write a study.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from omegaconf import MISSING

from drest_torch.jobs.job import Job, Result

Key: TypeAlias = Any
"""A `NamedTuple` that the study defines, or a text."""


@dataclass
class StudyConfig:
    """The values of every study."""

    name: str = MISSING
    quick: dict[str, Any] = field(default_factory=dict)
    """Values that replace others with `quick=true`: those of QUICK."""


def value(default: Any) -> Any:
    """Return a field of a `Config` with a mutable default: a list, dictionary or dataclass that is copied."""
    return field(default_factory=lambda: copy.deepcopy(default))


IS_PLACE = "place"


def place() -> Any:
    """Return a field of a `Config` for the path of files that are not in the repository.

    The path is not a value of the study: neither its digest nor its published command depends on it. Without the files
    a study omits the runs that need them.
    """
    return field(default=None, metadata={IS_PLACE: True})


class Done(dict[Key, Result]):
    """The results of the finished runs, by key."""

    def __init__(self, planned: Mapping[Key, Job], store: Any) -> None:
        """Read results from a `Store`, or from any object with ``get(job)``."""
        results = {key: store.get(job) for key, job in planned.items()}
        super().__init__((key, result) for key, result in results.items() if result is not None)
        self.planned = planned

    @property
    def missing(self) -> list[Job]:
        """The runs without a result."""
        return [job for key, job in self.planned.items() if key not in self]


def file_of(study: ModuleType, suffix: str) -> Path:
    """Return the path of a study's file with this suffix: ``NAME.md`` next to ``NAME.py``, or in its package."""
    path = Path(study.__file__ or "")
    if path.name == "__init__.py":
        return path.parent / f"{path.parent.name}{suffix}"
    return path.with_suffix(suffix)
