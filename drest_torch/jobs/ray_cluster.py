"""Where the runs of a study are done: on the machines of a Ray cluster. See docs/clusters.md."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import math
import os
import signal
import socket
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from drest_torch.jobs.local import (
    SECONDS_BETWEEN_LOOKS,
    SECONDS_TO_SAVE,
    Again,
    Done,
    Event,
    ExecutorError,
    Started,
    Task,
    last_output,
    reason_of,
    run_job,
)
from drest_torch.jobs.store import Failure, Job

_SECONDS_TO_CONNECT = 10.0
_SHARES = 10_000
"""Ray counts a GPU in so many parts."""


class RayCluster:
    """A Ray cluster: the one at ``address``, else the one that RAY_ADDRESS names, else one on this machine.

    ``workers`` runs are done at once, on as many cores; by default as many as the cluster has at the time.
    ``runs_per_gpu`` of those with ``device=cuda`` share a GPU. The same version of the project is installed on
    every node, and the store's folder is on a file system that all of them see under the same absolute path:
    runs keep their checkpoints there.

    A run whose node dies begins again on another, and goes on from what it finds in its folder. So does one whose
    own process dies, but that may be its own fault: after ``crashes`` times more it has failed. After ``losses``
    nodes it has failed as well, since it may be what they die of.
    """

    def __init__(
        self,
        address: str | None = None,
        workers: int | None = None,
        *,
        runs_per_gpu: int = 1,
        crashes: int = 3,
        losses: int = 20,
    ) -> None:
        if workers is not None and workers < 1:
            raise ExecutorError(f"workers={workers}; on a Ray cluster expected 1 or more, or None for all it has")
        if not 1 <= runs_per_gpu <= _SHARES:
            raise ExecutorError(f"runs_per_gpu={runs_per_gpu}; expected 1 to {_SHARES}")
        self.address, self.workers, self.runs_per_gpu = address, workers, runs_per_gpu
        self.crashes, self.losses = crashes, losses

    def run(self, tasks: Sequence[Task]) -> Generator[Event, None, None]:
        ray = _import_ray()
        connects = not ray.is_initialized()
        if connects:
            self._connect(ray)
        try:
            yield from self._run(ray, [_Run(*task) for task in tasks])
        finally:
            if connects:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # studies do not report home
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        local = {"num_cpus": self.workers, "include_dashboard": False} if address == "local" else {}
        sigterm = signal.getsignal(signal.SIGTERM)
        try:
            _call(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except (OSError, RuntimeError, ValueError) as error:
            raise ExecutorError(
                f"no Ray cluster at '{address}' ({reason_of(error)}); start one with `ray start --head`, "
                "or leave the address out for one on this machine"
            ) from None
        finally:
            with suppress(ValueError):  # not in the main thread: nothing was changed
                signal.signal(signal.SIGTERM, sigterm or signal.SIG_DFL)  # Ray sets its own

    # ------------------------------------------------------------------------------------- the runs

    def _run(self, ray: Any, runs: Sequence[_Run]) -> Generator[Event, None, None]:
        waiting = {on_gpu: deque(run for run in runs if run.on_gpu == on_gpu) for on_gpu in (True, False)}
        if waiting[True] and not ray.cluster_resources().get("GPU"):
            raise ExecutorError(
                f"{len(waiting[True])} runs have device=cuda, and no node of the Ray cluster has a GPU; "
                "start one on a machine that has, or leave device=cuda out"
            )
        # Ray itself would begin a run again as often for its node's death as for its own, and, out of memory, for ever.
        remote = ray.remote(num_cpus=1, max_retries=0)(run_on_a_node)
        running: dict[Any, _Run] = {}
        try:
            while any(waiting.values()) or running:
                for run in self._next(ray, waiting, running):
                    running[self._begin(remote, run)] = run
                    yield Started(run.job)
                for reference in ray.wait(list(running), timeout=SECONDS_BETWEEN_LOOKS)[0]:
                    run = running.pop(reference)
                    event = self._end(ray, reference, run)
                    if isinstance(event, Again):
                        waiting[run.on_gpu].appendleft(run)
                    yield event
        finally:
            _stop(ray, list(running))

    def _next(self, ray: Any, waiting: dict[bool, deque[_Run]], running: dict[Any, _Run]) -> Iterator[_Run]:
        """Those for which there is room: those on a GPU have a core as well."""
        has = ray.cluster_resources()
        room = self.workers or max(int(has.get("CPU", 0)), 1)
        on_gpu = max(int(has.get("GPU", 0)) * self.runs_per_gpu, 1)
        while waiting[True] and len(running) < room and sum(run.on_gpu for run in running.values()) < on_gpu:
            yield waiting[True].popleft()
        while waiting[False] and len(running) < room:
            yield waiting[False].popleft()

    def _begin(self, remote: Any, run: _Run) -> Any:
        gpu = math.floor(_SHARES / self.runs_per_gpu) / _SHARES if run.on_gpu else 0
        return remote.options(num_gpus=gpu).remote(run.job, run.folder, project_checksum())

    def _end(self, ray: Any, reference: Any, run: _Run) -> Again | Done:
        errors = ray.exceptions
        try:
            done: Done = ray.get(reference)
            return done
        except (errors.NodeDiedError, errors.TaskCancelledError, errors.ObjectLostError) as error:
            # Cancelled: its node was shut down and has asked it to stop. Lost: its node died with the result.
            run.losses += 1
            caught, reason, again = error, "the node it was on died or was shut down", run.losses <= self.losses
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            run.crashes += 1
            caught, reason, again = error, "its process died", run.crashes <= self.crashes
        except errors.RayTaskError as error:  # what goes wrong in a run itself is in its `Done`
            cause = error.cause if isinstance(error.cause, ExecutorError) else reason_of(error.cause)
            raise ExecutorError(f"the Ray cluster cannot do these runs: {cause}") from None
        except errors.RayError as error:
            caught, reason, again = error, "it could not be done", False
        if again:
            return Again(run.job, reason)
        tries = run.losses + run.crashes
        failure = Failure(
            run.job,
            f"{reason}, the last of {tries} times ({reason_of(caught)})" if tries else reason_of(caught),
            f"{caught}\n{last_output(run.folder)}",
        )
        return Done(run.job, None, failure, 0.0)


@dataclass(eq=False)
class _Run:
    """A run, and how often it has begun in vain."""

    job: Job
    folder: Path
    crashes: int = 0
    losses: int = 0

    @property
    def on_gpu(self) -> bool:
        """As the spec of a training run says it."""
        config = self.job.spec.get("config")
        return isinstance(config, dict) and str(config.get("device")).startswith("cuda")


def _stop(ray: Any, references: list[Any]) -> None:
    """Let the runs that go on save where they stand, if they can, and end them."""
    if not references:
        return
    try:
        for reference in references:
            ray.cancel(reference)
        ray.wait(references, num_returns=len(references), timeout=SECONDS_TO_SAVE)
    finally:
        for reference in references:
            ray.cancel(reference, force=True)


def _call(address: str) -> None:
    """Find out whether anybody is there: Ray itself tries for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS_TO_CONNECT).close()


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ExecutorError(f"executor=ray needs Ray ({error}); pip install 'drest_torch[ray]'") from None
    return ray


# ------------------------------------------------------------------------------------------- a node


def run_on_a_node(job: Job, folder: Path, checksum: str) -> Done:
    """Do one run in a process of a node, if the node is one that can."""
    if project_checksum() != checksum:
        raise ExecutorError(
            f"{socket.gethostname()} has another version of the project than the machine that the study was "
            "started on; install the same one on both"
        )
    if not folder.parent.is_dir():
        raise ExecutorError(
            f"{folder.parent} is not there on {socket.gethostname()}; choose a folder `out` on a file system that "
            "all machines share"
        )
    # A node that is shut down asks its processes to stop. Ray's own answer would look like a failure of the run.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run_job(job, folder, own_output=True)
    finally:
        signal.signal(signal.SIGTERM, before)


@cache
def project_checksum() -> str:
    """Of the project's code as it is on this machine."""
    found = hashlib.sha256()
    for package in ("algos", "drest_torch", "envs"):
        spec = importlib.util.find_spec(package)
        for folder in spec.submodule_search_locations or [] if spec else []:
            for path in sorted(Path(folder).rglob("*.py")):
                found.update(f"{package}/{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return found.hexdigest()
