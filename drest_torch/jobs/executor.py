"""Execution of jobs that have no result yet, with a report of each event.

An executor only runs jobs. The driver, the process that called it, stores each result as it arrives. A killed study
therefore loses no finished run, and continues with the others when it starts again.
"""

from __future__ import annotations

import copy
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Protocol

from drest_torch.errors import UserError
from drest_torch.jobs.job import Failure, Job, JobError, Result
from drest_torch.jobs.store import Store
from drest_torch.training.interruption import STOPS, handling

OUTPUT = "output.txt"
"""The file in a run's folder with its output, and the stack if its process crashed."""
SESSIONS = "sessions.txt"
"""The file in a run's folder with the processor seconds of its sessions, one a line."""
_OUTPUT_SHOWN = 4000
_REASON_LENGTH = 300
SECONDS_TO_SAVE = 5.0
"""The time that a stopped run has to save its state."""


class ExecutorError(UserError):
    """Runs cannot be executed here; the message is one sentence with the remedy."""


@dataclass(frozen=True)
class Started:
    """The beginning of a run."""

    job: Job


@dataclass(frozen=True, eq=False)
class Finished:
    """The end of a run, with a result or a failure; ``existed`` is True if the result was already in the store."""

    job: Job
    result: Result | None
    failure: Failure | None
    seconds: float
    """The processor time of all its sessions."""
    existed: bool = False


@dataclass(frozen=True)
class Again:
    """The end of a run that will start again, because its process or its machine died."""

    job: Job
    reason: str


Event = Started | Again | Finished
Task = tuple[Job, Path]
"""A run and its folder."""


class Executor(Protocol):
    """A place where runs are executed: processes on this machine, or a cluster."""

    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        """Execute all runs, starting them in this order; closing the generator stops the unfinished ones."""
        ...


def run_jobs(
    jobs: Sequence[Job], store: Store, executor: Executor, *, report: Callable[[Event], None] | None = None
) -> list[Failure]:
    """Execute the runs that have no result in the store; return the failures, in the order of the list.

    A failed run is recorded in the store, does not stop other runs, and is tried again the next time. A run listed
    under several names is executed once, under the first. ``report`` is called at the end of every run, and at the
    start of each run that is executed. Ctrl-C and SIGTERM stop at once, with KeyboardInterrupt. A result that cannot be
    written also stops at once, with the error of the store: later results could not be written either.
    """
    say = report or (lambda event: None)
    failed: dict[str, Failure] = {}
    missing: dict[str, Job] = {}
    for job in jobs:
        result = store.get(job)
        if result is None:
            missing.setdefault(job.digest(), job)
        else:
            say(Finished(job, result, None, 0.0, existed=True))
    if missing:
        tasks = [(job, store.folder_of(job)) for job in missing.values()]
        # SIGTERM is treated as Ctrl-C, which is handled also in a study that a script started in the background.
        stoppable = handling(signal.default_int_handler, *STOPS)
        with store.claimed(missing.values()), stoppable, closing(executor.run(tasks)) as events:
            for event in events:
                if isinstance(event, Finished):
                    if event.failure:
                        store.record_failure(event.failure)
                        failed[event.job.digest()] = event.failure
                    elif event.result:
                        store.put(event.job, event.result, event.seconds)
                say(event)
    return [failed[digest] for digest in missing if digest in failed]


def run_job(job: Job, folder: Path) -> Finished:
    """Execute one run, with its output in a file of its folder; any error in it becomes its failure."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _output_to(folder / OUTPUT):
            module, _, name = job.runner.partition(":")
            runner = getattr(importlib.import_module(module), name)
            # The last digits of a sum can depend on the number of threads, which another run may have set.
            for library in ("torch", "numba"):
                if library in sys.modules:
                    sys.modules[library].set_num_threads(1)
            spec = copy.deepcopy(job.spec)
            if job.places:
                spec["places"] = dict(job.places)
            with _counted(folder):
                result = runner(spec, folder)
            if not isinstance(result, Result):
                raise JobError(f"{job.runner} returned a value of type {type(result).__name__}; expected a Result")
            return Finished(job, result.checked(), None, _seconds_of(folder))
    except (Exception, SystemExit) as error:
        failure = Failure(job, reason_of(error), traceback.format_exc())
        return Finished(job, None, failure, _seconds_of(folder))


@contextmanager
def _counted(folder: Path) -> Iterator[None]:
    """Record the processor time of a session, even if it is stopped; imports do not count.

    The time of a session whose process is killed is lost.
    """
    began = _processor_seconds()
    try:
        yield
    finally:
        with suppress(OSError), open(folder / SESSIONS, "a") as file:
            file.write(f"{_processor_seconds() - began:.3f}\n")


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    return process_time() + times.children_user + times.children_system


def _seconds_of(folder: Path) -> float:
    """Return the processor time of all sessions of a run."""
    seconds = 0.0
    with suppress(OSError):
        for line in (folder / SESSIONS).read_text("utf-8", errors="replace").splitlines():
            with suppress(ValueError):  # a line that was cut off
                seconds += float(line)
    return seconds


def reason_of(error: BaseException) -> str:
    """Return the text of an error as one line."""
    words = str(error).split()
    text = f"{type(error).__name__}: {' '.join(words)}"
    if len(text) <= _REASON_LENGTH:
        return text
    return text[: _REASON_LENGTH - 1] + "…"


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Append all output of this process to a file, including the output of C code."""
    descriptors = os.dup(1), os.dup(2)
    with open(path, "ab") as file:
        _redirect_output(file.fileno(), file.fileno())
    try:
        yield
    finally:
        _redirect_output(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _redirect_output(stdout: int, stderr: int) -> None:
    for stream, descriptor, target in ((sys.stdout, 1, stdout), (sys.stderr, 2, stderr)):
        stream.flush()
        os.dup2(target, descriptor)


def last_output(folder: Path) -> str:
    """Return the last lines of a run's output, which may show why the process died."""
    with suppress(OSError):
        output = (folder / OUTPUT).read_bytes()[-_OUTPUT_SHOWN:].decode(errors="replace")
        return f"The end of {folder / OUTPUT}:\n{output}"
    return ""
