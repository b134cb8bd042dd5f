"""What a study is: a list of runs, and a report on what they found.

A study is a module of this package with

    Config                                the names and types of `configs/study/NAME.yaml`
    jobs(cfg) -> list[Job]                its runs
    report(cfg, finished) -> Report       what they show; runs that failed are missing from ``finished``

and is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
from omegaconf import MISSING

from drest_torch import studies
from drest_torch.config.checks import check_limits
from drest_torch.config.compose import compose, register
from drest_torch.errors import ConfigError
from drest_torch.jobs.store import Job, Result, Store
from drest_torch.report.html import Section, Table
from envs.levels import WORLDS


@dataclass
class StudyConfig:
    """What every study is told."""

    name: str = MISSING
    quick: dict[str, Any] = MISSING
    """Values that `quick=true` puts in place of others."""


def check_study(cfg: Any) -> None:
    """Refuse values that no run can be made of, before the others are started."""
    check_limits(cfg, "study.")
    for name in [*(cfg.get("worlds") or []), *([cfg.world] if "world" in cfg else [])]:
        if name not in WORLDS:
            raise ConfigError(f"study={cfg.name} with the world '{name}'; expected one of {', '.join(WORLDS)}")


@dataclass
class AllStudies:
    """`study=all`."""

    name: str = MISSING
    studies: list[str] = MISSING


@dataclass
class StudyCommand:
    """What the command is told besides the study."""

    study: Any = MISSING
    quick: bool = MISSING
    executor: str = MISSING
    workers: int | None = MISSING
    address: str | None = MISSING
    runs_per_gpu: int = MISSING
    out: str = MISSING
    progress: bool = MISSING


@dataclass(frozen=True)
class Quote:
    """A line of the overview and of the README's table."""

    what: str
    reported: str
    """By the paper; empty where it says nothing."""
    measured: str


@dataclass(frozen=True)
class Report:
    title: str
    question: str
    sections: Sequence[Section]
    numbers: dict[str, Any]
    """What was found, as JSON values."""
    quotes: Sequence[Quote] = ()
    """What it comes to, in a few lines."""


@dataclass
class Finished:
    """The results of a study's runs, read when they are asked for."""

    store: Store
    _read: dict[str, Result | None] = field(default_factory=dict)

    def get(self, job: Job) -> Result | None:
        digest = job.digest()
        if digest not in self._read:
            self._read[digest] = self.store.get(job)
        return self._read[digest]

    def of(self, jobs: Iterable[Job]) -> list[tuple[Job, Result]]:
        """Those of the runs that have a result."""
        return [(job, result) for job in jobs if (result := self.get(job)) is not None]


def all_studies() -> dict[str, ModuleType]:
    """Return the studies by name: the module ``study`` of every package in this one."""
    names = [name for _, name, is_package in pkgutil.iter_modules(studies.__path__) if is_package]
    return {name: importlib.import_module(f"drest_torch.studies.{name}.study") for name in names}


def study_schemas() -> dict[tuple[str | None, str], type]:
    """Return their schemas by (group, name), for `drest_torch.config.compose.register`."""
    command: dict[tuple[str | None, str], type] = {
        (None, "base_study"): StudyCommand,
        ("study", "base_all"): AllStudies,
    }
    return command | {("study", f"base_{name}"): module.Config for name, module in all_studies().items()}


def compose_study(name: str, *overrides: str) -> Any:
    """Return the configuration of ``python -m drest_torch.study study=NAME`` with these further arguments."""
    register(study_schemas())
    return compose(f"study={name}", *overrides, name="study")


def overview(quotes: Sequence[Quote]) -> Table:
    rows = [[quote.what, quote.reported, quote.measured] for quote in quotes]
    return Table("What the paper reports and what we measure", ["", "the paper", "measured"], rows)


def mean_sd(values: np.ndarray, digits: int = 3) -> str:
    """Mean ± standard deviation, as the paper gives them."""
    return f"{values.mean():.{digits}f} ± {spread(values):.{digits}f}"


def spread(values: np.ndarray) -> float:
    """The standard deviation of a sample; that of one value is 0."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
