"""Runs in processes of this machine, or in this process.

We keep a pool of our own after trying the libraries: in pebble a run that calls os._exit(0) never ends, and workers
are stopped one after the other, which leaves a large pool no time to save; in concurrent.futures and joblib one dead
process ends the runs of all others, and nothing tells which run was at fault. A new process for each run would be
simpler, but takes two to three seconds to import torch and numba, where a short run takes a tenth of one.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from time import monotonic

from drest_torch.jobs.executor import (
    SECONDS_BETWEEN_LOOKS,
    SECONDS_TO_SAVE,
    Done,
    Event,
    ExecutorError,
    Started,
    Task,
    last_output,
    run_job,
)
from drest_torch.jobs.job import Failure

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
"""The environment of a worker: with a worker for each core, more threads would only get in each other's way."""


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
        """Do the runs in as many workers as are wanted and useful; stop all workers at the end."""
        if not self.workers:
            for job, folder in tasks:
                yield Started(job)
                yield run_job(job, folder)
            return
        waiting = deque(tasks)
        workers: list[_Worker] = []
        try:
            while waiting or any(worker.task for worker in workers):
                idle = sum(worker.task is None for worker in workers)
                while len(workers) < self.workers and idle < len(waiting):
                    workers.append(_Worker())
                    idle += 1
                ready = wait([worker.connection for worker in workers], timeout=SECONDS_BETWEEN_LOOKS)
                for worker in list(workers):
                    # A process that leaves children behind can be dead without an end of its pipe.
                    if worker.connection in ready or not worker.process.is_alive():
                        yield from worker.hear(waiting)
                    if worker.dead:
                        workers.remove(worker)
        finally:
            _stop(workers)


class _Worker:
    """The driver's end of a worker process. Its own pipe tells whose run a death has ended."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, its_end = context.Pipe()
        self.process = context.Process(target=_work, args=(its_end,))
        with _environment(ONE_THREAD), _sigint_blocked():
            self.process.start()
        its_end.close()
        self.ready = self.dead = False
        self.task: Task | None = None

    def hear(self, waiting: deque[Task]) -> Iterator[Event]:
        """Take what the worker has to say (it is ready, its run is done, or it is dead), and give it the next run."""
        try:
            done = self._receive()
        except (EOFError, OSError):  # dead, perhaps in the middle of a message
            self._end()
            yield from self._death()
            return
        self.ready, self.task = True, None
        if waiting:
            try:
                self.connection.send(waiting[0])
                self.task = waiting.popleft()
            except OSError:  # it died after its last run; the next look finds it dead, and the run still waits
                pass
        if done:
            yield done
        if self.task:
            yield Started(self.task[0])
        elif not waiting:
            self._end()

    def _receive(self) -> Done | None:
        if not self.connection.poll():
            raise EOFError
        done: Done | None = self.connection.recv()
        return done

    def _end(self) -> None:
        self.dead = True
        self.connection.close()  # at which it ends by itself
        self.process.join(SECONDS_TO_SAVE)
        self.process.kill()
        self.process.join()

    def _death(self) -> Iterator[Event]:
        if self.task:
            job, folder = self.task
            reason = f"its process {_cause(self.process.exitcode or 0)} before it had a result"
            yield Done(job, None, Failure(job, reason, last_output(folder)), 0.0)
        elif not self.ready:
            raise ExecutorError(
                "a worker process could not be started (its own message stands above); "
                "a script that runs studies does so under `if __name__ == '__main__':`"
            )


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    memory = ", as the system does when memory is short" if exit_code == -signal.SIGKILL else ""
    return f"was killed by signal {-exit_code} ({signal.strsignal(-exit_code)}){memory}"


def _stop(workers: Sequence[_Worker]) -> None:
    """Let the runs that have not ended save their state, if they can, and end every worker."""
    try:
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        until = monotonic() + SECONDS_TO_SAVE
        for worker in workers:
            worker.process.join(max(until - monotonic(), 0))
    finally:  # also after a second Ctrl-C
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
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Keep Ctrl-C, which a terminal sends to all, from processes that are started here; the driver ends them.

    Blocked, not ignored: a training run sets a handler of its own, and would count the driver's SIGTERM as its second
    request to stop, at which it does not save.
    """
    resource_tracker.ensure_running()  # or else it is started with the first worker, and lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ------------------------------------------------------------------------------------ in the worker


def _work(connection: Connection) -> None:
    """Do one run after the other, as long as the driver is alive."""
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
    """End this process with the driver: a study that was killed may be started again at once, on the same folders."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)
