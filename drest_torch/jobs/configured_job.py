"""A training run of a composed configuration as a job, as sweeps and searches start it in other processes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drest_torch.config.stored import config_of
from drest_torch.jobs.job import Job, Result
from drest_torch.registry import import_trusted
from drest_torch.training.run import Run, resume, start

FINISHED = "summary.json"
"""The last file that a run writes."""


def configured_job(name: str, values: Any, *, begins: bool, imports: Sequence[str] = ()) -> Job:
    """Return the training run with these values, which include its ``run_dir``.

    A run that does not begin is resumed in its folder. ``imports`` are the modules that the user's command imports.
    """
    spec = {"config": values, "begins": begins, "imports": list(imports)}
    return Job(name, "drest_torch.jobs.configured_job:train", spec)


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Start the run that `configured_job` describes, or resume it; the result has its environment steps."""
    summary = opened(spec, folder).train()
    if summary is None:
        raise KeyboardInterrupt  # the run was stopped, and has saved its state
    return Result({"env_steps": summary["env_steps"]})


def opened(spec: dict[str, Any], folder: Path) -> Run:
    """Return a new run, or the one that began in the folder."""
    import_trusted(*spec["imports"])
    cfg = config_of(spec["config"])
    if spec["begins"]:
        return start(cfg)
    return resume(folder)


def threads_of(workers: int) -> int:
    """Return the threads of each run if this number of runs share the cores of this machine."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        cores = len(os.sched_getaffinity(0))
    return max(1, cores // workers)
