"""Execution of runs in processes on this machine.

Each worker is a pool of one process. In a larger pool, one dead process ends the runs of all others, and the cause
cannot be identified. A new process for each run would be simpler, but importing torch and numba takes two to three
seconds, and a short run takes a tenth of a second.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from time import monotonic

from drest_torch.jobs.executor import (
    SECONDS_TO_SAVE,
    Event,
    ExecutorError,
    Finished,
    Started,
    Task,
    last_output,
    run_job,
)
from drest_torch.jobs.job import Failure

ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
"""The environment variables of a worker: one thread, as there is one worker per core."""


class Local:
    """Processes on this machine, each with one thread. If one dies, only its own run fails."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, tasks: Iterable[Task]) -> Generator[Event, None, None]:
        """Execute the runs, each in a worker that is free; stop all workers at the end.

        The next run is taken from ``tasks`` when a worker is free, so it can depend on the results of earlier runs.
        """
        waiting = iter(tasks)
        task = next(waiting, None)
        workers: list[_Worker] = []
        idle: list[_Worker] = []
        running: dict[Future[Finished], tuple[_Worker, Task]] = {}
        try:
            while task is not None or running:
                while task is not None and len(running) < self.workers:
                    if not idle:
                        workers.append(_Worker())
                        idle.append(workers[-1])
                    worker = idle.pop()
                    job, folder = task
                    try:
                        future = worker.pool.submit(run_job, job, folder)
                    except BrokenProcessPool:  # it died after its last run
                        continue
                    running[future] = worker, (job, folder)
                    yield Started(job)
                    task = None
                    if len(running) < self.workers:
                        task = next(waiting, None)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    worker, done = running.pop(future)
                    if future.exception() is not None:
                        yield worker.death(done)
                    else:
                        idle.append(worker)
                        yield future.result()
                    if task is None:
                        task = next(waiting, None)
                if task is None:
                    _dismiss(idle)
        finally:
            _stop(workers)


def _dismiss(idle: list[_Worker]) -> None:
    """End the workers without a run."""
    for worker in idle:
        worker.pool.shutdown(wait=False)
    idle.clear()


class _Worker:
    """A process that executes runs one after another."""

    def __init__(self) -> None:
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        before = {*multiprocessing.active_children()}
        with _prepared():
            self.ready = self.pool.submit(bool)  # this starts the process
        (self.process,) = {*multiprocessing.active_children()} - before

    def death(self, task: Task) -> Finished:
        """Return the failure of a run whose process died or was stopped from outside."""
        if self.ready.exception() is not None:
            raise ExecutorError(
                "a worker process could not be started (its own message is above); "
                "a script that runs studies does so under `if __name__ == '__main__':`"
            )
        self.pool.shutdown()
        self.process.join()
        job, folder = task
        reason = f"its process {_cause(self.process.exitcode or 0)} before it had a result"
        return Finished(job, None, Failure(job, reason, last_output(folder)), 0.0)


def _cause(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    text = f"was killed by signal {-exit_code} ({signal.strsignal(-exit_code)})"
    if exit_code == -signal.SIGKILL:
        text += ", as the system does when memory is short"
    return text


def _stop(workers: Sequence[_Worker]) -> None:
    """Give unfinished runs time to save their state, then end every worker."""
    try:
        for worker in workers:
            worker.process.terminate()
            worker.pool.shutdown(wait=False, cancel_futures=True)
        deadline = monotonic() + SECONDS_TO_SAVE
        for worker in workers:
            worker.process.join(max(deadline - monotonic(), 0))
    finally:  # also after a second Ctrl-C
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()


@contextmanager
def _prepared() -> Iterator[None]:
    """Limit processes that start in this block to one thread, and block SIGINT in them.

    A terminal sends Ctrl-C to all, and the driver ends them. The signal is blocked, not ignored: a training run sets a
    handler of its own. It would count the driver's SIGTERM as its second request to stop, and would not save.
    """
    resource_tracker.ensure_running()  # otherwise it starts with the first worker, and unblocks SIGINT
    environment = dict(os.environ)
    os.environ.update(ONE_THREAD)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for name in ONE_THREAD.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


def _begin() -> None:
    """Prepare a worker to print its stack if it crashes, and to end with the driver."""
    faulthandler.enable()
    threading.Thread(target=_end_with_the_driver, daemon=True).start()


def _end_with_the_driver() -> None:
    """End this process when the driver ends, so that a killed study can start again at once in the same folders."""
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)
