"""Execution of studies, from their configurations to their reports."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import OmegaConf, open_dict

from drest_torch.config.checks import check_limits
from drest_torch.errors import printable
from drest_torch.jobs.executor import Executor, run_jobs
from drest_torch.jobs.job import Failure
from drest_torch.jobs.job_progress import JobProgress
from drest_torch.jobs.local import Local
from drest_torch.jobs.ray_cluster import RayCluster
from drest_torch.jobs.store import Store
from drest_torch.outputs import check_outputs, refuse_another, refuse_links
from drest_torch.report.blocks import Block, Checklist, Page, Prose, Section
from drest_torch.report.html import write_page
from drest_torch.studies.catalogue import STUDIES, StudyCommand, check_parts, check_study, values_of
from drest_torch.studies.engine import Done
from drest_torch.studies.study_page import MARKS, QUICK_BANNER, claims_of, study_page
from drest_torch.studies.study_rows import PLACE, SIGN, commit_of_code, places_of, read_rows, record_of, write_rows

_TITLES = {
    "paper": (
        "The paper, reproduced",
        "Every experiment of “Towards shutdownable agents via stochastic choice”, and what this project adds to them.",
    ),
    "all": ("All studies", "The paper's experiments, unseen levels, other methods and other environments."),
}
"""The title and the subtitle of a report on several studies."""
_FILES = ("rows.csv", "report.html")
"""The files that a study writes to its folder."""


def folder_of(settings: StudyCommand) -> Path:
    """Return the folder of results. Quick versions have a separate folder, so that they do not replace the study."""
    return Path(settings.out, "quick") if settings.quick else Path(settings.out)


def run_studies(chosen: Sequence[Any], settings: StudyCommand) -> list[Failure]:
    """Execute the unfinished runs of these studies, and write the reports; return the failures."""
    check_limits(settings)
    configs = [_effective(cfg, settings.quick) for cfg in chosen]
    studies = {cfg.name: STUDIES[cfg.name] for cfg in configs}
    for name, study in studies.items():
        check_parts(name, study)
    _check_folder(studies, settings)
    store = Store(folder_of(settings) / "runs", commit_of_code())
    planned = {cfg.name: studies[cfg.name].jobs(cfg) for cfg in configs}
    began = time.monotonic()
    named = [replace(job, name=f"{name}/{job.name}") for name, jobs in planned.items() for job in jobs.values()]
    failures = _run({job.digest(): job for job in named}.values(), store, settings)
    seconds = time.monotonic() - began
    sections: list[Section] = []
    glance: list[Block] = []
    for cfg in configs:
        study, folder = studies[cfg.name], folder_of(settings) / cfg.name
        page = _write(study, cfg, Done(planned[cfg.name], store), store, settings)
        if page is None:
            continue
        sections.append(Section(page.title, [Prose(page.subtitle, "lead"), *page.blocks]))
        glance += _claims(study, folder) if not settings.quick else []
        print(printable(f"{page.title}: {folder / 'report.html'}"))
    if len(configs) > 1:
        path = folder_of(settings) / "report.html"
        first = [Section("At a glance", glance)] if glance else []
        footer = f"The runs took {_duration(seconds)}."
        title, subtitle = _TITLES.get(getattr(settings.study, "name", ""), _TITLES["paper"])
        together = Page(title, subtitle, [*first, *sections], footer=footer)
        if settings.quick:
            together = replace(together, title=f"{title} – quick version", banner=QUICK_BANNER)
        write_page(together, path)
        print(printable(f"All of them: {path}"))
    for failure in failures:
        print(printable(f"Failed: {failure.job.name}: {failure.reason}"), file=sys.stderr)
    return failures


def _check_folder(names: Iterable[str], settings: StudyCommand) -> None:
    """Refuse a folder of results with links to other places, or with files that are not results of studies."""
    folder = folder_of(settings)
    refuse_links(Path(settings.out), ["runs", "quick", *names])
    # A training run in the folder of a study, which its configuration tells, stays by itself.
    files = (*_FILES, "config.yaml")
    check_outputs(folder, folder / "runs", *(folder / name / file for name in names for file in files))
    remedy = "choose another folder with out=FOLDER"
    for report_folder in (folder, *(folder / name for name in names)):
        refuse_another(report_folder / "report.html", "drest_torch.study", remedy)
    for name in names:
        refuse_another(folder / name / "rows.csv", SIGN, remedy)


def _write(study: ModuleType, cfg: Any, done: Done, store: Store, settings: StudyCommand) -> Page | None:
    """Write the rows and the page of a study; return the page, or None if too many runs are missing."""
    folder = folder_of(settings) / cfg.name
    try:
        rows = study.rows(cfg, done)
    except (LookupError, ValueError):
        if not done.missing:
            raise
        print(printable(f"{cfg.name}: too few runs are finished for a page"), file=sys.stderr)
        return None
    record = record_of(
        cfg,
        rows,
        done=done,
        store=store,
        command=_command(cfg, study, settings),
        quick=settings.quick,
    )
    write_rows(folder / "rows.csv", record, rows)
    page = study_page(study, *read_rows(folder / "rows.csv"))
    write_page(page, folder / "report.html")
    return page


def _command(cfg: Any, study: ModuleType, settings: StudyCommand) -> str:
    """Return the command that reproduces these rows."""
    words = ["drest", "study", f"study={cfg.name}"]
    if settings.quick:
        words.append("quick=true")
    usual = _effective(values_of(cfg.name, study), settings.quick)
    places = places_of(cfg)
    for key in cfg:
        if key in places:
            words.append(f"study.{key}=null" if cfg[key] is None else f"study.{key}={PLACE}")
        elif key != "quick" and cfg[key] != usual[key]:
            words.append(f"study.{key}={cfg[key]}")
    return shlex.join(words)


def _claims(study: ModuleType, folder: Path) -> list[Block]:
    """Return the claims of a study for a report on several studies."""
    rows, record = read_rows(folder / "rows.csv")
    if not record.is_complete or record.has_changed_values:
        return []
    return [Checklist([f"{MARKS[holds]} {claim}" for claim, holds in claims_of(study, rows).items()])]


def _duration(seconds: float) -> str:
    """Return a duration as short text, such as ``95 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _effective(cfg: Any, quick: bool) -> Any:
    """Return the checked values of a study; with ``quick``, values of the quick version override its defaults, but no
    value of the user."""
    merged = cfg
    if quick:
        chosen = _changes(cfg, values_of(cfg.name, STUDIES[cfg.name]))
        with open_dict(cfg):  # the quick version may add keys to a dictionary of values
            merged = OmegaConf.merge(cfg, cfg.quick, chosen)
    OmegaConf.resolve(merged)
    check_study(merged)
    return merged


def _changes(cfg: Any, usual: Any) -> dict[str, Any]:
    """Return the values that differ from the usual ones, in nested dictionaries."""
    changes: dict[str, Any] = {}
    for key in cfg:
        if OmegaConf.is_missing(cfg, key):
            continue
        if key not in usual or OmegaConf.is_missing(usual, key):
            changes[key] = cfg[key]
        elif OmegaConf.is_dict(cfg[key]) and OmegaConf.is_dict(usual[key]):
            changes[key] = _changes(cfg[key], usual[key])
        elif cfg[key] != usual[key]:
            changes[key] = cfg[key]
    return changes


def _run(jobs: Any, store: Store, settings: StudyCommand) -> list[Failure]:
    jobs = list(jobs)
    workers = settings.workers or os.cpu_count() or 1
    executor: Executor = Local(workers)
    if settings.executor == "ray":
        executor = RayCluster(settings.address, settings.workers, runs_per_gpu=settings.runs_per_gpu)
    if not settings.progress:
        return run_jobs(jobs, store, executor)
    with JobProgress(len(jobs), title=f"{len(jobs)} runs") as progress:
        return run_jobs(jobs, store, executor, report=progress)
