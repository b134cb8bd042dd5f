"""A study from its configuration to its report."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import OmegaConf

from drest_torch.config.checks import check_limits
from drest_torch.errors import FileError, shown
from drest_torch.files import write_json, write_whole
from drest_torch.jobs.executor import Executor, run_jobs
from drest_torch.jobs.job import Failure, Job
from drest_torch.jobs.job_progress import JobProgress
from drest_torch.jobs.local import Local
from drest_torch.jobs.ray_cluster import RayCluster
from drest_torch.jobs.store import Store
from drest_torch.outputs import check_outputs, refuse_another, refuse_links
from drest_torch.report.blocks import Block, Commands, Details, Page, Prose, Section, Table
from drest_torch.report.html import write_page
from drest_torch.report.markdown import literal
from drest_torch.report.template import plural
from drest_torch.studies.catalogue import STUDIES, StudyCommand, check_study, values_of
from drest_torch.studies.engine import Done, Published, Quote, publish

_TITLE_OF_PAPER = "The paper, reproduced"
_QUESTION_OF_PAPER = (
    "Every experiment of “Towards shutdownable agents via stochastic choice”, and what this project adds to them."
)
_QUICK = (
    "**This is the quick version.** It trains few agents for a short time. Tabular agents differ by then; networks "
    "have hardly begun to learn. It draws no conclusion: it has plots and tables alone."
)
_EXACT = "Every number in this report is exact, given the trained policies: nothing is sampled to measure it."
_FILES = ("summary.json", "results.csv", "report.html")
"""What a study writes to its folder, in this order."""
_VERSIONS = ("drest_torch", "torch", "torchrl", "tensordict", "numpy", "numba")


def folder_of(settings: StudyCommand) -> Path:
    """Return the folder of results; the quick version of a study has one of its own, as it is no substitute for it."""
    return Path(settings.out, "quick") if settings.quick else Path(settings.out)


def run_studies(chosen: Sequence[Any], settings: StudyCommand) -> list[Failure]:
    """Do the runs of these studies that are not done yet, and write the reports; return the runs that failed."""
    check_limits(settings)
    configs = [_effective(cfg, settings.quick) for cfg in chosen]
    studies = {cfg.name: STUDIES[cfg.name] for cfg in configs}
    _check_folder(studies, settings)
    store = Store(folder_of(settings) / "runs")
    planned = {cfg.name: studies[cfg.name].jobs(cfg) for cfg in configs}
    began = time.monotonic()
    named = [replace(job, name=f"{name}/{job.name}") for name, jobs in planned.items() for job in jobs.values()]
    failures = _run({job.digest(): job for job in named}.values(), store, settings)
    seconds = time.monotonic() - began
    published: list[Section] = []
    quotes: list[Quote] = []
    for cfg in configs:
        study, of = studies[cfg.name], Done(planned[cfg.name], store)
        found = publish(study, cfg, of, prose=not settings.quick)
        made = Details("How this was made", _how_it_was_made(cfg, found, of, failures, store, settings))
        path = _write(cfg, study, found, made.blocks, settings)
        print(shown(f"{study.TITLE}: {path}"))
        quotes += found.quotes
        published.append(Section(study.TITLE, [Prose(study.QUESTION, "lead"), *found.blocks, made]))
    if len(configs) > 1:
        path = folder_of(settings) / "report.html"
        glance = Section("At a glance", [overview(quotes)])
        footer = f"The runs took {_duration(seconds)}."
        page = Page(_TITLE_OF_PAPER, _QUESTION_OF_PAPER, [glance, *published], footer=footer)
        write_page(_marked_quick(page) if settings.quick else page, path)
        print(shown(f"All of them: {path}"))
    for failure in failures:
        print(shown(f"Failed: {failure.job.name}: {failure.reason}"), file=sys.stderr)
    return failures


def _check_folder(names: Iterable[str], settings: StudyCommand) -> None:
    """Refuse a folder of results in which links lead elsewhere, or something else would be replaced."""
    folder = folder_of(settings)
    refuse_links(Path(settings.out), ["runs", "quick", *names])
    check_outputs(folder, folder / "runs", *(folder / name / file for name in names for file in _FILES))
    remedy = "choose another folder with out=FOLDER"
    for own in (folder, *(folder / name for name in names)):
        refuse_another(own / "report.html", "drest_torch.study", remedy)
    for name in names:
        summary, table = folder / name / "summary.json", folder / name / "results.csv"
        refuse_another(summary, '"quotes"', remedy)
        if table.exists() and not summary.exists():  # which a study writes first
            raise FileError(f"{table}: is no earlier output of this command, which would replace it; {remedy}")


def changed(cfg: Any, study: ModuleType) -> list[str]:
    """Return the keys of a study that have other values than its own."""
    own = values_of(cfg.name, study)
    return [str(key) for key in cfg if cfg[key] != own[key]]


def _write(cfg: Any, study: ModuleType, found: Published, made: Sequence[Block], settings: StudyCommand) -> Path:
    """Write a study's summary, results and page."""
    folder = folder_of(settings) / cfg.name
    quotes = [asdict(quote) for quote in found.quotes]
    summary = {**found.kept, "claims": dict(found.claims), "quotes": quotes, "changed": changed(cfg, study)}
    write_json(folder / "summary.json", summary)
    write_whole(folder / "results.csv", found.results.to_csv(index=False).encode())
    numbers = [Section("In numbers", [overview(found.quotes)])] if found.quotes else []
    page = Page(study.TITLE, study.QUESTION, [*numbers, *found.blocks, Section("How this was made", made)])
    write_page(_marked_quick(page) if settings.quick else page, folder / "report.html")
    return folder / "report.html"


def _marked_quick(page: Page) -> Page:
    return replace(page, title=f"{page.title} – quick version", banner=_QUICK)


def _effective(cfg: Any, quick: bool) -> Any:
    """A study's values, with those of its quick version put in their place where that is wanted."""
    merged = OmegaConf.merge(cfg, cfg.quick) if quick else cfg
    OmegaConf.resolve(merged)
    check_study(merged)
    return merged


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


def _how_it_was_made(
    cfg: Any, found: Published, done: Done, failures: Sequence[Failure], store: Store, settings: StudyCommand
) -> list[Block]:
    digests = {job.digest() for job in done.planned.values()}
    jobs = [done.planned[key] for key in done]
    times = [store.seconds(job) for job in jobs]
    exact = not samples(done.planned.values()) if found.exact is None else found.exact
    facts = [
        f"{len(jobs)} of {plural(len(digests), 'run')}, {_duration(sum(times))} of computing in all, one thread each.",
        f"Python {platform.python_version()}, {', '.join(f'{name} {version(name)}' for name in _VERSIONS)}.",
        f"{platform.system()} on {platform.machine()}, {plural(os.cpu_count() or 1, 'core')}.",
        _EXACT if exact else "Some numbers in this report are sampled, and so have noise; the values below say which.",
    ]
    reasons = [[literal(each.job.name), literal(each.reason)] for each in failures if each.job.digest() in digests]
    runs = [[literal(job.name), f"{time:.1f}", job.digest()] for job, time in zip(jobs, times, strict=True)]
    return [
        Commands([f"python -m drest_torch.study study={cfg.name}{' quick=true' if settings.quick else ''}"]),
        Prose("\n".join(f"- {literal(fact)}" for fact in facts)),
        *([Table("Runs that failed, and are missing above", ["run", "reason"], reasons)] if reasons else []),
        Details("The values of the study", [Commands(OmegaConf.to_yaml(cfg).splitlines())]),
        Details("Its runs", [Table("Runs", ["run", "seconds", "digest"], runs)]),
    ]


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def overview(quotes: Sequence[Quote]) -> Table:
    """Return the quotes as a table."""
    note = "N is neutrality, U is usefulness."
    if not any(quote.reported for quote in quotes):
        return Table("What we measure", ["", "measured"], [[quote.what, quote.measured] for quote in quotes], note)
    rows = [[quote.what, quote.reported, quote.measured] for quote in quotes]
    return Table("What the paper reports and what we measure", ["", "the paper", "measured"], rows, note)


def samples(jobs: Iterable[Job]) -> bool:
    """Return whether any of these runs measures its agents by sampling, instead of exactly."""
    configs = [job.spec["config"] for job in jobs if "config" in job.spec]
    return any(config["sampled"] is not None for config in configs)
