"""Execute runs in processes on this machine.

We have our own pool because the libraries do not fit. In pebble, a run that calls os._exit(0) never ends, and workers
are stopped one after the other, which leaves a large pool no time to save. In concurrent.futures and joblib, one dead
process ends the runs of all others, and nothing tells which run was the cause. A new process for each run would be
simpler, but importing torch and numba takes two to three seconds, and a short run takes a tenth of a second.
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
"""The environment of a worker: with one worker per core, more threads would only compete."""


class Local:
    """A pool of processes on this machine, each with one thread. If one dies, only its own run fails."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        """Execute the runs, in at most as many workers as there are runs; stop all workers at the end."""
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
                    # If a process leaves children behind, its pipe stays open after its death.
                    if worker.connection in ready or not worker.process.is_alive():
                        yield from worker.hear(waiting)
                    if worker.dead:
                        workers.remove(worker)
        finally:
            _stop(workers)


class _Worker:
    """The driver's side of a worker process. Each worker has its own pipe, so a death identifies the run."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, worker_end = context.Pipe()
        self.process = context.Process(target=_work, args=(worker_end,))
        with _environment(ONE_THREAD), _sigint_blocked():
            self.process.start()
        worker_end.close()
        self.ready = self.dead = False
        self.task: Task | None = None

    def hear(self, waiting: deque[Task]) -> Iterator[Event]:
        """Receive a message of the worker (it is ready, its run is done, or it is dead), and send it the next run."""
        try:
            if not self.connection.poll():
                raise EOFError
            done: Done | None = self.connection.recv()
        except (EOFError, OSError):  # dead, perhaps in the middle of a message
            self._end()
            yield from self._death()
            return
        self.ready, self.task = True, None
        if waiting:
            try:
                self.connection.send(waiting[0])
                self.task = waiting.popleft()
            except OSError:  # it died after its last run; the next check finds it dead, and the run still waits
                pass
        if done:
            yield done
        if self.task:
            yield Started(self.task[0])
        elif not waiting:
            self._end()

    def _end(self) -> None:
        self.dead = True
        self.connection.close()  # the worker then ends by itself
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
                "a worker process could not be started (its own message is above); "
                "a script that runs studies does so under `if __name__ == '__main__':`"
            )


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    memory = ", as the system does when memory is short" if exit_code == -signal.SIGKILL else ""
    return f"was killed by signal {-exit_code} ({signal.strsignal(-exit_code)}){memory}"


def _stop(workers: Sequence[_Worker]) -> None:
    """Give unfinished runs time to save their state, then end every worker."""
    try:
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        deadline = monotonic() + SECONDS_TO_SAVE
        for worker in workers:
            worker.process.join(max(deadline - monotonic(), 0))
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
    """Block SIGINT in processes that are started here: a terminal sends Ctrl-C to all, and the driver ends them.

    The signal is blocked, not ignored: a training run sets a handler of its own. It would count the driver's SIGTERM as
    its second request to stop, and would not save.
    """
    resource_tracker.ensure_running()  # otherwise it starts with the first worker, and unblocks SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    """Execute one run after the other in the worker, as long as the driver is alive."""
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    faulthandler.enable()
    try:
        connection.send(None)
        while True:
            job, folder = connection.recv()
            connection.send(run_job(job, folder))
    except (EOFError, OSError):  # the driver has closed the pipe
        pass
    except KeyboardInterrupt:  # the run was stopped and has saved
        sys.exit(130)


def _end_with_the_driver() -> None:
    """End this process with the driver: a killed study can be started again at once, on the same folders."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)
