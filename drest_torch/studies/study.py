"""A study: a list of runs, an analysis of what they measured, plots of it, and a report in prose.

A study is a package of three files, and is found by its name:

    study.py       TITLE, QUESTION, Config, jobs(cfg) -> list[Job], analyse(cfg, finished) -> Analysis
    plots.py       plots(cfg, analysis) -> dict[str, Plot]
    report.md.j2   the prose, in Markdown with Jinja2

`docs/howto/studies.md` says how to write one.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from omegaconf import MISSING, OmegaConf

from drest_torch import studies
from drest_torch.config.checks import check_limits
from drest_torch.config.compose import compose, register
from drest_torch.envs.levels import WORLDS
from drest_torch.errors import ConfigError, StudyError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.store import Store
from drest_torch.report.blocks import Block, Table
from drest_torch.report.template import render_template
from drest_torch.studies.engine import Done, publish
from drest_torch.studies.engine import Quote as Quote
from drest_torch.studies.engine import StudyConfig as StudyConfig

ENTRY_POINTS = "drest_torch.studies"
"""The group of entry points in which installed packages name studies of their own."""

# ------------------------------------------------------------------------------------ configuration


def check_study(cfg: Any) -> None:
    """Refuse values that no run can be made of, before the others are started."""
    check_limits(cfg, "study.")
    for name in [*(cfg.get("worlds") or []), *([cfg.world] if "world" in cfg else [])]:
        if name not in WORLDS:
            raise ConfigError(f"study={cfg.name} with the world '{name}'; expected one of {', '.join(WORLDS)}")


@dataclass
class AllStudies:
    """The values of `study=all`."""

    name: str = MISSING
    studies: list[str] = MISSING


@dataclass
class StudyCommand:
    """The values of the command besides the study."""

    study: Any = MISSING
    quick: bool = MISSING
    executor: str = MISSING
    workers: int | None = MISSING
    address: str | None = MISSING
    runs_per_gpu: int = MISSING
    out: str = MISSING
    progress: bool = MISSING


# ------------------------------------------------------------------------------------------ results


@dataclass
class Finished:
    """The results of a study's runs, read when they are asked for."""

    store: Store
    _read: dict[str, Result | None] = field(default_factory=dict)

    def get(self, job: Job) -> Result | None:
        """Return the result of a run, or None where it has failed or was not done."""
        digest = job.digest()
        if digest not in self._read:
            self._read[digest] = self.store.get(job)
        return self._read[digest]

    def of(self, jobs: Iterable[Job]) -> list[tuple[Job, Result]]:
        """Return those of the runs that have a result, with it."""
        return [(job, result) for job in jobs if (result := self.get(job)) is not None]


@dataclass
class Analysis:
    """The outcome of a study: numbers, and what the report shows of them."""

    results: pd.DataFrame
    """The tidy table (`drest_torch.studies.results`), written to ``results.csv``."""
    findings: dict[str, Any] = field(default_factory=dict)
    """JSON values that the report's sentences are derived from, written to ``summary.json``."""
    tables: dict[str, Table] = field(default_factory=dict)
    quotes: list[Quote] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    """Further names for the template, which are not written anywhere."""
    extra: Any = None
    """Whatever the plots need."""
    exact: bool | None = None
    """Whether no number is sampled; None: as the settings of the runs say."""


@dataclass(frozen=True)
class Report:
    """A study as it is published."""

    title: str
    question: str
    sections: Sequence[Block]
    """Blocks of an introduction, if any, then `Section`s."""
    numbers: dict[str, Any]
    """The findings, as JSON values."""
    quotes: Sequence[Quote] = ()
    results: pd.DataFrame | None = None
    exact: bool | None = None


def report(study: ModuleType, cfg: Any, finished: Finished, prose: bool = True) -> Report:
    """Analyse the results of a study and write its report."""
    if not hasattr(study, "analyse"):
        done = Done(study.jobs(cfg), finished.store)
        made = publish(study, cfg, done, prose=prose)
        numbers = {**made.kept, "claims": dict(made.claims)}
        return Report(study.TITLE, study.QUESTION, made.blocks, numbers, made.quotes, made.results, made.exact)
    analysis: Analysis = study.analyse(cfg, finished)
    plots = importlib.import_module(f"{study.__package__}.plots").plots(cfg, analysis)
    template = Path(study.__file__ or "").with_name("report.md.j2")
    values = {"cfg": OmegaConf.to_container(cfg), "findings": analysis.findings, **analysis.names}
    blocks = render_template(template, values, analysis.tables, plots)
    return Report(
        study.TITLE, study.QUESTION, blocks, analysis.findings, analysis.quotes, analysis.results, analysis.exact
    )


def compose_study(name: str, *overrides: str) -> Any:
    """Return the configuration of ``python -m drest_torch.study study=NAME`` with these further arguments."""
    register(study_schemas())
    return compose(f"study={name}", *overrides, name="study")


def overview(quotes: Sequence[Quote]) -> Table:
    """Return the quotes as a table."""
    note = (
        "N is neutrality, U is usefulness."
        if any(re.search(r"\b[NU]\b", f"{quote.what} {quote.reported} {quote.measured}") for quote in quotes)
        else ""
    )
    if not any(quote.reported for quote in quotes):
        return Table("What we measure", ["", "measured"], [[quote.what, quote.measured] for quote in quotes], note)
    rows = [[quote.what, quote.reported, quote.measured] for quote in quotes]
    return Table("What the paper reports and what we measure", ["", "the paper", "measured"], rows, note)


def samples(jobs: Iterable[Job]) -> bool:
    """Return whether any of these runs measures its agents by sampling, instead of exactly."""
    configs = [job.spec["config"] for job in jobs if "config" in job.spec]
    return any(
        config["sampled"] is not None
        or (config["policy"]["private_bits"] and config["policy"]["private_kind"] != "bits")
        for config in configs
    )


# ------------------------------------------------------------------------------------------ registry


def all_studies() -> dict[str, ModuleType]:
    """Return the studies of this project by name: the module ``study`` of every package in this one."""
    names = {name: f"{name}.study" for _, name, is_package in pkgutil.iter_modules(studies.__path__) if is_package}
    names |= {page.stem: page.stem for page in Path(studies.__path__[0]).glob("*.md")}
    return {name: importlib.import_module(f"drest_torch.studies.{names[name]}") for name in sorted(names)}


def find_study(name: str) -> ModuleType:
    """Return a study of this project, of an installed package's entry point, or of a module by its path."""
    if name in (known := all_studies()):
        return known[name]
    outside = {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    module = outside.get(name, name)
    if name not in outside and "." not in name:
        raise StudyError(
            f"study={name}; expected one of {', '.join([*known, *outside])}, or the path of a module with a study, "
            "such as my_project.my_study"
        )
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise StudyError(
            f"study={name}: there is no module {module}; put the folder of the package on PYTHONPATH, or install it"
        ) from None


def study_schemas(arguments: Sequence[str] = ()) -> dict[tuple[str | None, str], Any]:
    """Return the studies' schemas by (group, name), for `drest_torch.cli.register`.

    With the command's ``arguments`` also those of the study from outside that they name.
    """
    command: dict[tuple[str | None, str], Any] = {
        (None, "base_study"): StudyCommand,
        ("study", "base_all"): AllStudies,
    }
    points = {point.name for point in entry_points(group=ENTRY_POINTS)}
    asked = [argument.removeprefix("study=") for argument in arguments if argument.startswith("study=")]
    schemas = command | dict(_schema(name, module) for name, module in all_studies().items())
    outside = [name for name in asked if "." in name or name in points]
    return schemas | {("study", name): values_of(name, find_study(name)) for name in outside}


def _schema(name: str, study: ModuleType) -> tuple[tuple[str, str], Any]:
    if hasattr(study, "analyse"):
        return ("study", f"base_{name}"), study.Config
    return ("study", name), values_of(name, study)


def values_of(name: str, study: ModuleType) -> Any:
    """Return the values of a study: the defaults of its `Config`, and those of the yaml file beside it, if any."""
    path = Path(study.__file__ or "").with_suffix(".yaml")
    own: Any = OmegaConf.load(path) if path.exists() else {}
    return OmegaConf.merge(OmegaConf.structured(study.Config), own, {"name": name, "quick": study.QUICK})
