"""A study from its configuration to its report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from drest_torch.errors import ConfigError
from drest_torch.files import write_json
from drest_torch.jobs.executor import Executor, run_jobs
from drest_torch.jobs.job import Failure, Job
from drest_torch.jobs.local import Local
from drest_torch.jobs.progress import JobProgress
from drest_torch.jobs.ray_cluster import RayCluster
from drest_torch.jobs.store import Store
from drest_torch.report.html import Block, Commands, Details, Items, Page, Section, Table, Text, write_page
from drest_torch.studies.study import Finished, Report, all_studies, check_study, overview

EXECUTORS = ("local", "ray")
_VERSIONS = ("drest_torch", "torch", "torchrl", "tensordict", "numpy", "numba")


@dataclass(frozen=True)
class Settings:
    """Where and how studies are run; the names are those of `configs/study.yaml`."""

    quick: bool
    executor: str
    workers: int | None
    address: str | None
    runs_per_gpu: int
    out: Path
    progress: bool

    @classmethod
    def of(cls, cfg: Any) -> Settings:
        if cfg.executor not in EXECUTORS:
            raise ConfigError(f"executor={cfg.executor}; expected one of {', '.join(EXECUTORS)}")
        if cfg.workers is not None and cfg.workers < 1:
            raise ConfigError(f"workers={cfg.workers}; expected at least 1, or null for one for each core")
        if cfg.runs_per_gpu < 1:
            raise ConfigError(f"runs_per_gpu={cfg.runs_per_gpu}; expected at least 1")
        return cls(cfg.quick, cfg.executor, cfg.workers, cfg.address, cfg.runs_per_gpu, Path(cfg.out), cfg.progress)

    @property
    def folder(self) -> Path:
        """The quick version of a study has a folder of its own: it is no substitute for the study."""
        return self.out / "quick" if self.quick else self.out


def run_studies(chosen: Sequence[Any], settings: Settings) -> list[Failure]:
    """Do the runs of these studies that are not done yet, and write the reports; returns the runs that failed."""
    configs = [_effective(cfg, settings.quick) for cfg in chosen]
    modules = all_studies()
    jobs = {cfg.name: [_named(cfg.name, job) for job in modules[cfg.name].jobs(cfg)] for cfg in configs}
    store = Store(settings.folder / "runs")
    began = time.monotonic()
    failures = _run({job.digest(): job for each in jobs.values() for job in each}.values(), store, settings)
    seconds = time.monotonic() - began
    done: list[tuple[Report, list[Block]]] = []
    for cfg in configs:
        finished = Finished(store)
        report: Report = modules[cfg.name].report(cfg, finished)
        digests = {job.digest() for job in jobs[cfg.name]}
        failed = [failure for failure in failures if failure.job.digest() in digests]
        made = _how_it_was_made(
            cfg, [job for job, _ in finished.of(jobs[cfg.name])], failed, len(digests), store, settings
        )
        folder = settings.folder / cfg.name
        write_json(folder / "summary.json", report.numbers | {"quotes": [asdict(quote) for quote in report.quotes]})
        short = [Section("In short", [overview(report.quotes)])] if report.quotes else []
        page = Page(report.title, report.question, [*short, *report.sections, Section("How this was made", made)])
        write_page(page, folder / "report.html")
        print(f"{report.title}: {folder / 'report.html'}")
        done.append((report, made))
    if len(configs) > 1:
        path = settings.folder / "report.html"
        write_page(_together(done, seconds), path)
        print(f"All of them: {path}")
    for failure in failures:
        print(f"Failed: {failure.job.name}: {failure.reason}", file=sys.stderr)
    return failures


def _effective(cfg: Any, quick: bool) -> Any:
    """A study's values, with those of its quick version put in their place where that is wanted."""
    merged = OmegaConf.merge(cfg, cfg.quick) if quick else cfg
    OmegaConf.resolve(merged)
    check_study(merged)
    return merged


def _named(study: str, job: Job) -> Job:
    return replace(job, name=f"{study}/{job.name}")


def _run(jobs: Any, store: Store, settings: Settings) -> list[Failure]:
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
    cfg: Any, done: Sequence[Job], failed: Sequence[Failure], wanted: int, store: Store, settings: Settings
) -> list[Block]:
    quick = " quick=true" if settings.quick else ""
    blocks: list[Block] = [Commands([f"python -m drest_torch.study study={cfg.name}{quick}"])]
    if settings.quick:
        blocks.append(
            Text("This is the **quick** version: it shows that everything works, and its numbers mean little.")
        )
    times = [store.seconds(job) for job in done]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _VERSIONS)
    blocks.append(
        Items(
            [
                f"{len(done)} of {wanted} runs, {_duration(sum(times))} of computing in all, one thread each.",
                f"Python {platform.python_version()}, {versions}.",
                f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores.",
                "Every number in this report is exact given the trained policies: nothing is sampled to measure it.",
            ]
        )
    )
    if failed:
        rows = [[failure.job.name, failure.reason] for failure in failed]
        blocks.append(Table("Runs that failed, and are missing above", ["run", "why"], rows))
    values = OmegaConf.to_yaml(cfg).splitlines()
    rows = [[job.name, f"{seconds:.1f}", job.digest()] for job, seconds in zip(done, times, strict=True)]
    blocks.append(Details("The values of the study", [Commands(values)]))
    blocks.append(Details("Its runs", [Table("Runs", ["run", "seconds", "known by"], rows)]))
    return blocks


def _together(done: Sequence[tuple[Report, Sequence[Block]]], seconds: float) -> Page:
    quotes = [quote for report, _ in done for quote in report.quotes]
    sections = [Section("At a glance", [overview(quotes)])]
    for report, made in done:
        blocks: list[Block] = [*report.sections, Details("How this was made", made)]
        sections.append(Section(report.title, blocks, lead=report.question))
    subtitle = "Every experiment of “Towards shutdownable agents via stochastic choice”, and what we add to them."
    return Page("The paper, reproduced", subtitle, sections, f"This time the runs took {_duration(seconds)}.")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
