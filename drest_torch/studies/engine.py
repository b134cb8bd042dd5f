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
