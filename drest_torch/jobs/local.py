"""Where the runs of a study are done: in this process or in a pool of processes (on a Ray cluster: `clusters`).

An executor only runs. The process that asked stores each result as it arrives, so a study that is killed
has lost no finished run, and goes on with the others when it is started again.
"""

from __future__ import annotations

import copy
import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Protocol, TextIO

from rich.console import Group
from rich.text import Text

from drest_torch.errors import UserError
from drest_torch.jobs.store import Failure, Job, JobError, Result, Store
from drest_torch.tracking.progress import LiveLines

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
"""The environment of a worker: with a worker for each core, more threads would only get in each other's way."""
OUTPUT = "output.txt"
"""In a run's folder, what it printed in a worker, and where it was if it crashed."""
_OUTPUT_SHOWN = 4000
_REASON_LENGTH = 300
SECONDS_TO_SAVE = 5.0
"""Runs that are stopped have so long to save where they stand."""
SECONDS_BETWEEN_LOOKS = 1.0


class ExecutorError(UserError):
    """Runs cannot be done here; the message says in one sentence what to do."""


@dataclass(frozen=True)
class Started:
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
    """A run that has begun will begin again, which is not its fault."""

    job: Job
    reason: str


Event = Started | Again | Done
Task = tuple[Job, Path]
"""A run and its folder."""


class Executor(Protocol):
    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        """Do all runs, beginning them in this order; closing the generator stops those that go on."""
        ...


# ----------------------------------------------------------------------------------------- the list


def run_jobs(
    jobs: Sequence[Job], store: Store, executor: Executor, *, report: Callable[[Event], None] | None = None
) -> list[Failure]:
    """Do those runs that the store does not have, and return those that failed, in the order of the list.

    A failed run is recorded in the store, takes no other with it, and is tried again the next time.
    ``report`` hears of every run of the list once that it is done, and before that of those that begin.
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
        with store.claimed(missing), _stoppable(), closing(executor.run(_tasks(missing, store))) as events:
            for event in events:
                if not isinstance(event, Done):
                    if report:
                        report(event)
                    continue
                if event.failure:
                    store.record_failure(event.failure)
                elif event.result:
                    store.put(event.job, event.result, event.seconds)
                end(event)
    return [failed[job.name] for job in jobs if job.name in failed]


def _by_digest(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """The list in its order; a run that stands in it under several names is done once."""
    names: set[str] = set()
    same: dict[str, list[Job]] = {}
    for job in jobs:
        if job.name in names:
            raise JobError(f"two runs of the list are called '{job.name}'; give each a name of its own")
        names.add(job.name)
        same.setdefault(job.digest(), []).append(job)
    return same


def _tasks(jobs: Sequence[Job], store: Store) -> list[Task]:
    return [(job, store.folder_of(job)) for job in jobs]


@contextmanager
def _stoppable() -> Iterator[None]:
    """Within it SIGTERM is Ctrl-C, and so is SIGINT also for a study that a script has begun in the background."""
    before: dict[signal.Signals, Any] = {}
    try:
        for each in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError):  # not in the main thread, where signals are handled
                before[each] = signal.signal(each, signal.default_int_handler)
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)


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
                began = perf_counter()  # imports are nobody's
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
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for the libraries that are loaded by now, whatever the run before has set.

    The last digits of a sum may depend on the number of threads; so they are the same everywhere.
    """
    torch, numba = sys.modules.get("torch"), sys.modules.get("numba")
    loaded = [each for each in (torch, numba) if each is not None]
    before = [each.get_num_threads() for each in loaded]
    try:
        for each in loaded:
            each.set_num_threads(1)
        yield
    finally:
        for each, threads in zip(loaded, before, strict=True):
            each.set_num_threads(threads)


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


# ------------------------------------------------------------------------------- a pool of processes


class Local:
    """A pool of processes on this machine, each with one thread; with 0 workers, this process.

    A worker that dies takes only its own run with it. In this process a run may take it down, but nothing has
    to be imported a second time.
    """

    def __init__(self, workers: int) -> None:
        if workers < 0:
            raise ExecutorError(f"workers={workers}; expected 0, for no process but this, or more")
        self.workers = workers

    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        if self.workers:
            yield from _Pool(self.workers, tasks).run()
            return
        for job, folder in tasks:
            yield Started(job)
            yield run_job(job, folder)


class _Pool:
    """As many workers as are wanted and useful. Each has its own pipe, so that it is known whose run a death ended."""

    def __init__(self, size: int, tasks: Sequence[Task]) -> None:
        self.size = size
        self.waiting = deque(tasks)
        self.workers: list[_Worker] = []
        self.dismissed: list[_Worker] = []

    def run(self) -> Generator[Event, None, None]:
        try:
            while self.waiting or any(worker.task for worker in self.workers):
                self._fill()
                ready = wait([worker.connection for worker in self.workers], timeout=SECONDS_BETWEEN_LOOKS)
                for worker in list(self.workers):
                    # A process that leaves children behind can be dead without an end of its pipe.
                    if worker.connection in ready or not worker.process.is_alive():
                        yield from self._hear(worker)
        finally:
            _stop(self.workers + self.dismissed)

    def _fill(self) -> None:
        idle = sum(worker.task is None for worker in self.workers)
        while len(self.workers) < self.size and idle < len(self.waiting):
            self.workers.append(_Worker())
            idle += 1
        if not self.workers:
            raise ExecutorError(
                "no worker process could be started (its own message stands above); "
                "a script that runs studies does so under `if __name__ == '__main__':`"
            )

    def _hear(self, worker: _Worker) -> Iterator[Event]:
        """What a worker has to say: that it is ready, that its run is done, or nothing more."""
        try:
            done: Done | None = worker.receive()
        except (EOFError, OSError):  # dead, perhaps in the middle of a message
            self._dismiss(worker)
            if worker.task:
                yield worker.death()
            elif not worker.ready:
                self.size -= 1  # where one does not start, others hardly will
            return
        worker.ready, worker.task = True, None
        if self.waiting and worker.give(self.waiting[0]):
            self.waiting.popleft()
        else:
            self._dismiss(worker)
        if done:
            yield done
        if worker.task:
            yield Started(worker.task[0])

    def _dismiss(self, worker: _Worker) -> None:
        """One that finds its pipe closed ends by itself."""
        worker.connection.close()
        self.workers.remove(worker)
        self.dismissed.append(worker)


class _Worker:
    """The driver's end of a worker process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, its_end = context.Pipe()
        self.process = context.Process(target=_work, args=(its_end,))
        with _environment(ONE_THREAD), _sigint_blocked():
            self.process.start()
        its_end.close()
        self.ready = False
        self.task: Task | None = None

    def receive(self) -> Done | None:
        if not self.connection.poll():
            raise EOFError
        done: Done | None = self.connection.recv()
        return done

    def give(self, task: Task) -> bool:
        try:
            self.connection.send(task)
        except OSError:  # it died after its last run, which is not this one's fault
            return False
        self.task = task
        return True

    def death(self) -> Done:
        assert self.task is not None
        job, folder = self.task
        self.process.join(SECONDS_TO_SAVE)
        self.process.kill()
        self.process.join()
        reason = f"its process {_death(self.process.exitcode or 0)} before it had a result"
        return Done(job, None, Failure(job, reason, last_output(folder)), 0.0)


def last_output(folder: Path) -> str:
    """The end of what a run has printed, for those who look for the reason of its death."""
    with suppress(OSError):
        output = (folder / OUTPUT).read_bytes()[-_OUTPUT_SHOWN:].decode(errors="replace")
        return f"The end of {folder / OUTPUT}:\n{output}"
    return ""


def _death(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    memory = ", as the system does when memory is short" if exit_code == -signal.SIGKILL else ""
    return f"was killed by signal {-exit_code} ({signal.strsignal(-exit_code)}){memory}"


def _stop(workers: Sequence[_Worker]) -> None:
    """Let the runs that go on save where they stand, if they can, and end every worker."""
    try:
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        until = monotonic() + SECONDS_TO_SAVE
        for worker in workers:
            worker.process.join(max(until - monotonic(), 0))
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """A process that is started here never sees Ctrl-C, which a terminal sends to all; the driver ends it."""
    resource_tracker.ensure_running()  # or else it is started with the first worker, and lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    """A worker: do one run after the other, as long as the driver is there."""
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    faulthandler.enable()
    try:
        connection.send(None)
        while True:
            job, folder = connection.recv()
            connection.send(run_job(job, folder, own_output=True))
    except (EOFError, OSError):  # the driver has closed the pipe
        pass
    except KeyboardInterrupt:  # the run was asked to stop, and has saved
        sys.exit(130)


def _end_with_the_driver() -> None:
    """A driver that was killed may be started again at once: nobody else writes to its runs' folders then."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


# ----------------------------------------------------------------------------------------- progress


class JobProgress(LiveLines):
    """What a study is doing: live lines in a terminal, elsewhere a plain line for each tenth and each failure.

    What :func:`run_jobs` reports to. Nothing runs beside the study: it is drawn when
    a run begins or ends.
    """

    def __init__(self, total: int, *, title: str, stream: TextIO | None = None) -> None:
        super().__init__(title, stream)
        self.total = total
        self.done = self.existed = self.failed = 0
        self.running: dict[str, None] = {}  # a set that keeps its order
        self._began: float | None = None
        self._tenths = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started):
            self._start(event.job)
        elif isinstance(event, Again):
            self.running.pop(event.job.name, None)
            self.note(f"{self.title}: {event.job.name} begins again: {event.reason}")
        else:
            self._end(event)
        if self._live is not None:
            existed = isinstance(event, Done) and event.existed  # hundreds at once, perhaps
            self._live.update(self._lines(), refresh=not existed)

    def _start(self, job: Job) -> None:
        self.running[job.name] = None
        if self._began is None:
            self._began = monotonic()
            self._tenths = self._tenth()
            if self._live is None:
                self.note(f"{self.title}: {self._state()}")

    def _end(self, event: Done) -> None:
        self.done += 1
        self.existed += event.existed
        self.running.pop(event.job.name, None)
        if event.failure:
            self.failed += 1
            self.note(f"{self.title}: {event.job.name} failed: {event.failure.reason}")
        if self._live is None and self._began is not None and self._tenth() > self._tenths:
            self._tenths = self._tenth()
            self.note(f"{self.title}: {self._state()}")

    def _tenth(self) -> int:
        return 10 * self.done // self.total if self.total else 10

    @property
    def rate(self) -> float:
        """Runs per second of those that were not there before; 0 before the first."""
        seconds = monotonic() - self._began if self._began is not None else 0.0
        return (self.done - self.existed) / seconds if seconds > 0 else 0.0

    def _state(self) -> str:
        parts = [f"{self.done} / {self.total} runs"]
        if self.existed:
            parts.append(f"{self.existed} from before")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if rate := self.rate:
            left = timedelta(seconds=round(max(self.total - self.done, 0) / rate))
            per, unit = (rate, "s") if rate >= 1 else (60 * rate, "min")
            parts += [f"{per:.3g} runs/{unit}", f"{left} left"]
        return "   ".join(parts)

    def _lines(self) -> Group:
        lines = [Text(self._state()), *([Text(f"running {', '.join(self.running)}")] if self.running else [])]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(self._head(self.done, self.total), *lines)
