"""Execution of runs on the machines of a Ray cluster. See docs/howto/clusters.md.

Ray decides on which node a run is executed and which runs share a GPU. Retries are counted here: with Ray's own
``max_retries`` (2.60), a run that needs more memory than a node has would start again for ever.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
from collections import Counter, deque
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from drest_torch._version import __version__
from drest_torch.jobs.executor import (
    SECONDS_TO_SAVE,
    Again,
    Event,
    ExecutorError,
    Finished,
    Started,
    Task,
    last_output,
    reason_of,
    run_job,
)
from drest_torch.jobs.job import Failure, Job
from drest_torch.training.interruption import handling

_SECONDS_TO_CONNECT = 10.0
_SECONDS_BETWEEN_LOOKS = 1.0
_SHARES = 10_000
"""The number of parts in which Ray counts a GPU."""


class RayCluster:
    """A Ray cluster: the one at ``address``, else the one that RAY_ADDRESS names, else one on this machine.

    ``workers`` is the number of simultaneous runs, with one core each; by default as many as the cluster has cores at
    the time. ``runs_per_gpu`` runs with ``device=cuda`` share a GPU. Every node needs the same version of the project,
    and the folder of the store on a shared file system under the same absolute path: runs keep their checkpoints there.

    A run whose process or node dies, or whose node is shut down, starts again up to ``retries`` times, and continues
    from the files in its folder.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, *, runs_per_gpu: int = 1, retries: int = 5
    ) -> None:
        self.address = address
        self.workers = workers
        self.runs_per_gpu = runs_per_gpu
        self.retries = retries

    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        """Execute the runs on the cluster; disconnect at the end if this call has connected."""
        try:
            import ray
        except ImportError as error:
            raise ExecutorError(f"executor=ray needs Ray ({error}); pip install 'drest_torch[ray]'") from None
        connects = not ray.is_initialized()
        if connects:
            self._connect(ray)
        try:
            yield from self._run(ray, tasks)
        finally:
            if connects:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics are sent
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        local: dict[str, Any] = {}
        if address == "local":
            local = {"num_cpus": self.workers, "include_dashboard": False}
        try:
            _check_address(address)
            # Ray sets a handler of its own.
            with handling(signal.getsignal(signal.SIGTERM) or signal.SIG_DFL, signal.SIGTERM):
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except (OSError, RuntimeError, ValueError) as error:
            raise ExecutorError(
                f"no Ray cluster at '{address}' ({reason_of(error)}); start one with `ray start --head`, "
                "or leave the address out for one on this machine"
            ) from None

    def _run(self, ray: Any, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        on_gpu = [task for task in tasks if _is_on_gpu(task[0])]
        if on_gpu and not ray.cluster_resources().get("GPU"):
            raise ExecutorError(
                f"{len(on_gpu)} runs have device=cuda, but no node of the Ray cluster has a GPU; "
                "start one on a machine that has, or leave device=cuda out"
            )
        remote = ray.remote(num_cpus=1, max_retries=0)(run_on_a_node)
        gpu = math.floor(_SHARES / self.runs_per_gpu) / _SHARES
        waiting = deque(sorted(tasks, key=lambda task: not _is_on_gpu(task[0])))  # GPUs are scarce
        running: dict[Any, Task] = {}
        tries: Counter[Path] = Counter()
        try:
            while waiting or running:
                limit = self.workers or max(int(ray.cluster_resources().get("CPU", 0)), 1)
                while waiting and len(running) < limit:
                    job, folder = waiting.popleft()
                    on_node = remote.options(num_gpus=0)
                    if _is_on_gpu(job):
                        on_node = remote.options(num_gpus=gpu)
                    reference = on_node.remote(job, folder, __version__)
                    running[reference] = job, folder
                    tries[folder] += 1
                    yield Started(job)
                ended, _ = ray.wait(list(running), timeout=_SECONDS_BETWEEN_LOOKS)
                for reference in ended:
                    job, folder = running.pop(reference)
                    event = self._end(ray, reference, job, folder, tries[folder])
                    if isinstance(event, Again):
                        waiting.appendleft((job, folder))
                    yield event
        finally:
            _stop(ray, list(running))

    def _end(self, ray: Any, reference: Any, job: Job, folder: Path, tries: int) -> Again | Finished:
        errors = ray.exceptions
        try:
            done: Finished = ray.get(reference)
            return done
        except errors.RayError as error:
            # An error of the run itself is in its `Finished`; a cancelled run is one whose node was shut down.
            if isinstance(error, errors.RayTaskError) and not isinstance(error, errors.TaskCancelledError):
                cause = reason_of(error.cause)
                if isinstance(error.cause, ExecutorError):
                    cause = str(error.cause)
                raise ExecutorError(f"the Ray cluster cannot do these runs: {cause}") from None
            reason = "its node died or was shut down"
            if isinstance(error, errors.WorkerCrashedError | errors.OutOfMemoryError):
                reason = "its process died"
            if tries <= self.retries:
                return Again(job, reason)
            reason = f"{reason}, the last of {tries} times ({reason_of(error)})"
            failure = Failure(job, reason, f"{error}\n{last_output(folder)}")
            return Finished(job, None, failure, 0.0)


def _is_on_gpu(job: Job) -> bool:
    """Return whether the job is a training run on a GPU."""
    config = job.spec.get("config")
    return isinstance(config, dict) and str(config.get("device")).startswith("cuda")  # auto takes what there is


def _stop(ray: Any, references: list[Any]) -> None:
    """Give unfinished runs time to save their state, then end them."""
    if not references:
        return
    try:
        for reference in references:
            ray.cancel(reference)
        ray.wait(references, num_returns=len(references), timeout=SECONDS_TO_SAVE)
    finally:
        for reference in references:
            ray.cancel(reference, force=True)


def _check_address(address: str) -> None:
    """Raise an error if nothing answers at the address; Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_CONNECT).close()


def run_on_a_node(job: Job, folder: Path, version: str) -> Finished:
    """Execute one run in a process of a node, or raise an error if the node cannot execute it."""
    if __version__ != version:
        raise ExecutorError(
            f"{socket.gethostname()} has version {__version__} of the project, but the machine that the study was "
            f"started on has {version}; install the same one on both"
        )
    if not folder.parent.is_dir():
        raise ExecutorError(
            f"{folder.parent} does not exist on {socket.gethostname()}; choose a folder `out` on a file system that "
            "all machines share"
        )
    # A node that is shut down sends SIGTERM to its processes. Ray's own handler would look like a failure of the run.
    with handling(signal.default_int_handler, signal.SIGTERM):
        return run_job(job, folder)
