"""The runs of a list: which are missing, how one is done, and what an executor has to tell while it does them.

An executor only runs. The process that asked stores each result as it arrives, so a study that is killed
has lost no finished run, and goes on with the others when it is started again.
"""

from __future__ import annotations

import copy
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from drest_torch.errors import UserError
from drest_torch.jobs.job import Failure, Job, JobError, Result
from drest_torch.jobs.store import Store

OUTPUT = "output.txt"
"""In a run's folder, what it printed in a process of its own, and where it was if it crashed."""
_OUTPUT_SHOWN = 4000
_REASON_LENGTH = 300
SECONDS_TO_SAVE = 5.0
"""Runs that are stopped have this long to save their state."""
SECONDS_BETWEEN_LOOKS = 1.0


class ExecutorError(UserError):
    """Runs cannot be done here; the message says in one sentence what to do."""


@dataclass(frozen=True)
class Started:
    """The beginning of a run."""

    job: Job


@dataclass(frozen=True, eq=False)
class Done:
    """The end of a run, with a result or a failure; ``existed`` says that the store had it before."""

    job: Job
    result: Result | None
    failure: Failure | None
    seconds: float
    existed: bool = False


@dataclass(frozen=True)
class Again:
    """The end of a run that will begin again, because its process or its machine died."""

    job: Job
    reason: str


Event = Started | Again | Done
Task = tuple[Job, Path]
"""A run and its folder."""


class Executor(Protocol):
    """A place where runs are done: processes of this machine, or a cluster."""

    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        """Do all runs, beginning them in this order; closing the generator stops those that have not ended."""
        ...


# ----------------------------------------------------------------------------------------- the list


def run_jobs(
    jobs: Sequence[Job], store: Store, executor: Executor, *, report: Callable[[Event], None] | None = None
) -> list[Failure]:
    """Do those runs that the store does not have, and return those that failed, in the order of the list.

    A failed run is recorded in the store, takes no other with it, and is tried again the next time.
    ``report`` hears of the end of every run of the list, and of the beginning of those that are done now.
    Ctrl-C and SIGTERM stop at once, with KeyboardInterrupt. So does a result that cannot be written, with the
    store's error: no later one could be.
    """
    same = _by_digest(jobs)
    failed: dict[str, Failure] = {}

    def end(done: Done) -> None:
        for job in same[done.job.digest()]:
            failure = done.failure and replace(done.failure, job=job)
            if failure:
                failed[job.name] = failure
            if report:
                report(replace(done, job=job, failure=failure))

    missing = []
    for job, *_ in same.values():
        result = store.get(job)
        if result is None:
            missing.append(job)
        else:
            end(Done(job, result, None, 0.0, existed=True))
    if missing:
        store.mention_older_results()
        tasks = [(job, store.folder_of(job)) for job in missing]
        with store.claimed(missing), _stoppable(), closing(executor.run(tasks)) as events:
            for event in events:
                if isinstance(event, Done):
                    if event.failure:
                        store.record_failure(event.failure)
                    elif event.result:
                        store.put(event.job, event.result, event.seconds)
                    end(event)
                elif report:
                    report(event)
    return [failed[job.name] for job in jobs if job.name in failed]


def _by_digest(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """Return the list in its order; a run that stands in it under several names is done once."""
    names: set[str] = set()
    same: dict[str, list[Job]] = {}
    for job in jobs:
        if job.name in names:
            raise JobError(f"two runs of the list are called '{job.name}'; give each a name of its own")
        names.add(job.name)
        same.setdefault(job.digest(), []).append(job)
    return same


@contextmanager
def _stoppable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, and heed SIGINT also in a study that a script has begun in the background."""
    before: dict[signal.Signals, Any] = {}
    try:
        for signum in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError):  # not in the main thread, where signals are handled
                before[signum] = signal.signal(signum, signal.default_int_handler)
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler or signal.SIG_DFL)


# ------------------------------------------------------------------------------------------ one run


def run_job(job: Job, folder: Path, *, own_output: bool = False) -> Done:
    """Do one run; whatever goes wrong in it is its failure. ``own_output``: what it prints goes to its folder."""
    began = perf_counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        output: AbstractContextManager[None] = _output_to(folder / OUTPUT) if own_output else nullcontext()
        with output:
            runner = _load(job.runner)
            with _one_thread():
                began = perf_counter()  # imports are no part of the run
                result = runner(copy.deepcopy(job.spec), folder)
            if not isinstance(result, Result):
                raise JobError(f"{job.runner} returned a value of type {type(result).__name__}; expected a Result")
            return Done(job, result.checked(), None, perf_counter() - began)
    except (Exception, SystemExit) as error:
        failure = Failure(job, reason_of(error), traceback.format_exc())
        return Done(job, None, failure, perf_counter() - began)


def _load(runner: str) -> Callable[[dict[str, Any], Path], Any]:
    module, _, name = runner.partition(":")
    function: Callable[[dict[str, Any], Path], Any] = getattr(importlib.import_module(module), name)
    return function


def reason_of(error: BaseException) -> str:
    """Return an error as one line."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Give one thread to the libraries that are loaded by now, whatever the run before has set.

    The last digits of a sum may depend on the number of threads; so it is the same everywhere.
    """
    libraries = [sys.modules[name] for name in ("torch", "numba") if name in sys.modules]
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(1)
        yield
    finally:
        for library, threads in zip(libraries, before, strict=True):
            library.set_num_threads(threads)


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Append all that this process prints to a file, also what C code prints."""
    kept = os.dup(1), os.dup(2)
    with open(path, "ab") as file:
        _point_output_at(file.fileno(), file.fileno())
    try:
        yield
    finally:
        _point_output_at(*kept)
        for descriptor in kept:
            os.close(descriptor)


def _point_output_at(stdout: int, stderr: int) -> None:
    for stream, descriptor, target in ((sys.stdout, 1, stdout), (sys.stderr, 2, stderr)):
        stream.flush()
        os.dup2(target, descriptor)


def last_output(folder: Path) -> str:
    """Return the end of what a run has printed, for those who look for the reason of its death."""
    with suppress(OSError):
        output = (folder / OUTPUT).read_bytes()[-_OUTPUT_SHOWN:].decode(errors="replace")
        return f"The end of {folder / OUTPUT}:\n{output}"
    return ""
