"""Runs on a Ray cluster: the resources that Ray is asked for, and recovery from dead processes and machines."""

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from drest_torch import __version__
from drest_torch.jobs.executor import Again, ExecutorError, Finished, Started, run_jobs
from drest_torch.jobs.job import Result
from drest_torch.jobs.ray_cluster import RayCluster, run_on_a_node
from drest_torch.training.interruption import handling
from tests.helpers.job_runners import ROOT, calls, driver, failed, is_alive, job, squares, sums, wait_for

NO_RAY = "Ray is not installed: pip install 'drest_torch[ray]'"


@pytest.mark.parametrize(
    ("folder", "version", "words"),
    [("elsewhere/one", __version__, "elsewhere does not exist on "), ("one", "0.0", "started on has 0.0; install")],
    ids=["no folder", "another version"],
)
def test_an_unsuitable_node_is_refused(tmp_path, folder, version, words):
    with pytest.raises(ExecutorError, match=words):
        run_on_a_node(job("one"), tmp_path / folder, version)
    assert list(tmp_path.iterdir()) == []


class RayError(Exception):
    pass


NodeDiedError, WorkerCrashedError, OutOfMemoryError, TaskCancelledError = (
    type(name, (RayError,), {})
    for name in ("NodeDiedError", "WorkerCrashedError", "OutOfMemoryError", "TaskCancelledError")
)


class RayTaskError(RayError):
    def __init__(self, cause):
        super().__init__(str(cause))
        self.cause = cause


class CancelledTaskError(RayTaskError, TaskCancelledError):
    """An error with two bases, as in Ray."""


class StandIn:
    """A fake of Ray: each run first raises its errors, one an attempt, and then has a result."""

    exceptions = sys.modules[__name__]

    def __init__(self, errors=None, **resources):
        self.errors, self.started = errors or {}, []
        self.is_initialized = lambda: True
        self.cluster_resources = lambda: {"CPU": 2.0} | resources
        self.cancel = lambda reference, force=False: None

    def remote(self, **task_options):
        self.task_options = task_options
        return lambda function: self

    def options(self, num_gpus):
        return SimpleNamespace(remote=lambda job, folder, checksum: self._begin(job, num_gpus))

    def _begin(self, job, num_gpus):
        self.started.append((job.name, num_gpus))
        return job

    def wait(self, references, **_):
        return references[:1], references[1:]

    def get(self, job):
        if errors := self.errors.get(job.name):
            raise errors.pop(0)
        return Finished(job, Result({}), None, 1.0)


def on_stand_in(monkeypatch, ray, jobs, store, **options):
    """Execute jobs on a fake of Ray; return the failures and the events."""
    monkeypatch.setitem(sys.modules, "ray", ray)
    events = []
    return run_jobs(jobs, store, RayCluster(**options), report=events.append), events


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NodeDiedError, "its node died or was shut down"),
        (CancelledTaskError, "its node died or was shut down"),
        (WorkerCrashedError, "its process died"),
        (OutOfMemoryError, "its process died"),
    ],
)
def test_a_run_that_dies_is_restarted_a_few_times(store, monkeypatch, error, reason):
    ray = StandIn({"always": [error("it is dead") for _ in range(9)], "twice": [error("dead")] * 2})
    jobs = [job("always"), job("twice"), job("never")]
    (failure,), all_events = on_stand_in(monkeypatch, ray, jobs, store, retries=2)
    assert failure.job.name == "always"
    assert failure.reason.startswith(f"{reason}, the last of 3 times ({error.__name__}")
    assert [*failed(store)] == ["always"]
    assert sorted(name for name, _ in ray.started) == ["always"] * 3 + ["never"] + ["twice"] * 3
    events = [event for event in all_events if event.job.name == "twice"]
    assert [type(event) for event in events] == [Started, Again, Started, Again, Started, Finished]
    assert {event.reason for event in events if isinstance(event, Again)} == {reason}
    assert ray.task_options["max_retries"] == 0  # by Ray itself


def cuda(name):
    return job(name, config={"device": "cuda"})


def unfit(error):
    """Return a cluster whose only node has a GPU and cannot execute runs."""
    return StandIn({"one": [RayTaskError(error)]}, GPU=1.0)


NOBODY = SimpleNamespace(is_initialized=lambda: False)
ADDRESS = r"'{}' \(ConnectionRefusedError: .*ray start --head"


class Unusable(NamedTuple):
    """A cluster that cannot be used, the error, and the number of runs that start nevertheless."""

    ray: Any
    words: str
    started: int = 0
    options: dict[str, str] = {}


UNUSABLE = {
    "not installed": Unusable(None, r"pip install 'drest_torch\[ray\]'"),
    "no answer": Unusable(NOBODY, ADDRESS.format("127.0.0.1:1"), options={"address": "127.0.0.1:1"}),
    "no answer for a client": Unusable(
        NOBODY, ADDRESS.format("ray://127.0.0.1:1"), options={"address": "ray://127.0.0.1:1"}
    ),
    "no GPU": Unusable(StandIn(), "1 runs have device=cuda, but no node of the Ray cluster has a GPU"),
    "no folder": Unusable(
        unfit(ExecutorError("/shared does not exist on node7")), "these runs: /shared does not exist on node7", 2
    ),
    "no project": Unusable(unfit(ModuleNotFoundError("no drest_torch")), "ModuleNotFoundError: no drest_torch", 2),
}


@pytest.mark.parametrize("case", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_cluster_stops_the_study(store, monkeypatch, case):
    """No run counts as failed, since the cause is not in the runs."""
    with pytest.raises(ExecutorError, match=case.words):
        on_stand_in(monkeypatch, case.ray, [cuda("one"), job("two")], store, **case.options)
    assert failed(store) == {}
    assert len(getattr(case.ray, "started", [])) == case.started


@pytest.mark.parametrize(("per_gpu", "share"), [(1, 1.0), (2, 0.5), (6, 0.1666)])
def test_runs_on_a_gpu_ask_for_their_share_of_it(store, monkeypatch, per_gpu, share):
    ray = StandIn(CPU=64.0, GPU=2.0)
    jobs = [*squares(2), *(cuda(f"cuda {i}") for i in range(20)), job("cpu", config={"device": "cpu"})]
    failures, events = on_stand_in(monkeypatch, ray, jobs, store, runs_per_gpu=per_gpu)
    assert failures == []
    assert dict(ray.started) == {run.name: share if run.name.startswith("cuda") else 0 for run in jobs}
    assert per_gpu * share <= 1
    assert [event.job.name for event in events][:2] == ["cuda 0", "cuda 1"]  # GPUs are scarce


def test_as_many_runs_at_once_as_there_are_workers(store, monkeypatch):
    _, events = on_stand_in(monkeypatch, StandIn(CPU=64.0), squares(*range(9)), store, workers=3)
    running = list(itertools.accumulate(1 if isinstance(event, Started) else -1 for event in events))
    assert max(running) == 3
    assert running[-1] == 0


@pytest.mark.slow
def test_a_study_on_a_ray_cluster_can_be_stopped(store, later, request):
    """Runs that can save their state do so, and a run that ignores signals is killed."""
    ray = pytest.importorskip("ray", reason=NO_RAY)
    request.addfinalizer(ray.shutdown)
    with handling(signal.getsignal(signal.SIGTERM), signal.SIGTERM):
        ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    saves, deaf = (job(reaction, "waits", until=str(later), on_stop=reaction) for reaction in ("saves", "is deaf"))
    jobs = [*squares(2), saves, deaf, *squares(3)]

    def stop(event):
        if isinstance(event, Finished):
            wait_for(lambda: calls(store, saves) and calls(store, deaf))
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, store, RayCluster(workers=3), report=stop)
    assert json.loads((store.folder_of(saves) / "saved").read_text()) == [int(signal.SIGINT)]
    wait_for(lambda: not is_alive(*calls(store, deaf)))
    assert [store.get(run) is not None for run in jobs] == [True, False, False, False]
    later.touch()
    assert run_jobs(jobs, store, RayCluster()) == []
    assert [len(calls(store, run)) for run in jobs] == [1, 2, 2, 1]


@pytest.mark.slow
def test_a_node_that_dies_costs_the_other_runs_nothing(store, tmp_path, request):
    """Only the run on the dead node starts again. Tests of training runs cover saved state."""
    utils = pytest.importorskip("ray.cluster_utils", reason=NO_RAY)
    cluster = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    request.addfinalizer(cluster.shutdown)
    node = cluster.add_node(num_cpus=1)
    ((raylet,),) = node.all_processes.values()
    runs = [job(f"waits {i}", "waits", until=str(tmp_path / f"now-{i}")) for i in range(2)]  # one for each node
    failing = [job("raises", "fails", until=str(tmp_path / "never")), job("exits", "exits")]
    jobs = [*squares(2, 3), *runs, *failing, *squares(10**6)]
    with driver(ROOT, store, jobs, RayCluster(cluster.address)) as process:
        wait_for(lambda: all(calls(store, run) for run in runs))
        assert sums(store, squares(2, 3)) == [1, 5]
        threads = Path(f"/proc/{raylet.process.pid}/task").iterdir()
        workers = [int(pid) for thread in threads for pid in (thread / "children").read_text().split()]
        (lost,) = [run for run in runs if calls(store, run)[0] in workers]
        (unaffected,) = [run for run in runs if run is not lost]
        for pid in (raylet.process.pid, *workers):  # as a machine goes down
            os.kill(pid, signal.SIGKILL)
        for run in (unaffected, lost):
            Path(run.spec["until"]).touch()
        assert process.wait() == 2
    assert failed(store) == {"raises": "ValueError: it cannot be done", "exits": "SystemExit: no more"}
    assert [len(calls(store, run)) for run in [*squares(2, 3, 10**6), unaffected, lost]] == [1, 1, 1, 1, 2]
    assert all(store.get(run) for run in runs)
    np.testing.assert_array_equal(store.get(*squares(10**6)).arrays["squares"], np.arange(10**6) ** 2)
