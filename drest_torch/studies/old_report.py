"""Reports of studies that have `report` instead of `rows`. Remove this module with the last of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import OmegaConf

from drest_torch.errors import FileError
from drest_torch.files import write_json, write_whole
from drest_torch.jobs.job import Failure, Job
from drest_torch.jobs.store import Store
from drest_torch.outputs import refuse_another
from drest_torch.report.blocks import Block, Commands, Details, Page, Prose, Section, Table
from drest_torch.report.html import write_page
from drest_torch.report.markdown import literal
from drest_torch.report.template import plural
from drest_torch.studies.catalogue import StudyCommand, values_of
from drest_torch.studies.engine import Done, Published, Quote, publish

_QUICK = (
    "**This is the quick version.** It trains few agents for a short time. Tabular agents differ by then; networks "
    "have hardly begun to learn. It draws no conclusion: it has plots and tables alone."
)


_EXACT = "Every number in this report is exact, given the trained policies: nothing is sampled to measure it."


_VERSIONS = ("drest_torch", "torch", "torchrl", "tensordict", "numpy", "numba")


def write_old(
    study: ModuleType,
    cfg: Any,
    done: Done,
    *,
    failures: Sequence[Failure],
    store: Store,
    settings: StudyCommand,
    folder: Path,
) -> tuple[Section, Sequence[Quote]]:
    """Write the files of such a study; return its section of a report on several studies, and its quotes."""
    found = publish(study, cfg, done, prose=not settings.quick)
    made = Details("How this was made", _how_it_was_made(cfg, found, done, failures, store, settings))
    _write(cfg, study, found, made.blocks, settings=settings, folder=folder)
    return Section(study.TITLE, [Prose(study.QUESTION, "lead"), *found.blocks, made]), found.quotes


def check_files(folder: Path, remedy: str) -> None:
    """Refuse a folder in which something else would be replaced."""
    summary, table = folder / "summary.json", folder / "results.csv"
    refuse_another(summary, '"quotes"', remedy)
    if table.exists() and not summary.exists():  # which a study writes first
        raise FileError(f"{table}: is no earlier output of this command, which would replace it; {remedy}")


def changed(cfg: Any, study: ModuleType) -> list[str]:
    """Return the keys of a study that have other values than its own."""
    own = values_of(cfg.name, study)
    return [str(key) for key in cfg if cfg[key] != own[key]]


def _write(
    cfg: Any, study: ModuleType, found: Published, made: Sequence[Block], *, settings: StudyCommand, folder: Path
) -> None:
    """Write a study's summary, results and page."""
    quotes = [asdict(quote) for quote in found.quotes]
    summary = {**found.kept, "claims": dict(found.claims), "quotes": quotes, "changed": changed(cfg, study)}
    write_json(folder / "summary.json", summary)
    write_whole(folder / "results.csv", found.results.to_csv(index=False).encode())
    numbers = [Section("In numbers", [overview(found.quotes)])] if found.quotes else []
    page = Page(study.TITLE, study.QUESTION, [*numbers, *found.blocks, Section("How this was made", made)])
    write_page(marked_quick(page) if settings.quick else page, folder / "report.html")


def marked_quick(page: Page) -> Page:
    """Return the page with its warning."""
    return replace(page, title=f"{page.title} – quick version", banner=_QUICK)


def _how_it_was_made(
    cfg: Any, found: Published, done: Done, failures: Sequence[Failure], store: Store, settings: StudyCommand
) -> list[Block]:
    digests = {job.digest() for job in done.planned.values()}
    jobs = [done.planned[key] for key in done]
    times = [store.seconds(job) for job in jobs]
    exact = not samples(done.planned.values()) if found.exact is None else found.exact
    facts = [
        f"{len(jobs)} of {plural(len(digests), 'run')}, {duration(sum(times))} of computing in all, one thread each.",
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


def duration(seconds: float) -> str:
    """Return ``95 min``: a duration in few characters."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
