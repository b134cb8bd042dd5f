"""Runs on a Ray cluster: how Ray is asked for them, and that a machine that dies costs the others nothing."""

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

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
)
def test_a_node_that_does_not_see_the_folder_or_has_another_version(tmp_path, folder, version, words):
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
    """Derived from both, as in Ray."""


class StandIn:
    """Answers as Ray does: for each run the errors of its first attempts, and then a result."""

    exceptions = sys.modules[__name__]

    def __init__(self, fates=None, **resources):
        self.fates, self.begun = fates or {}, []
        self.is_initialized = lambda: True
        self.cluster_resources = lambda: {"CPU": 2.0} | resources
        self.cancel = lambda reference, force=False: None

    def remote(self, **asked):
        self.asked = asked
        return lambda function: self

    def options(self, num_gpus):
        return SimpleNamespace(remote=lambda job, folder, checksum: self._begin(job, num_gpus))

    def _begin(self, job, num_gpus):
        self.begun.append((job.name, num_gpus))
        return job

    def wait(self, references, **_):
        return references[:1], references[1:]

    def get(self, job):
        if fates := self.fates.get(job.name):
            raise fates.pop(0)
        return Finished(job, Result({}), None, 1.0)


def on_stand_in(monkeypatch, ray, jobs, store, **how):
    """The failures, and what was heard."""
    monkeypatch.setitem(sys.modules, "ray", ray)
    heard = []
    return run_jobs(jobs, store, RayCluster(**how), report=heard.append), heard


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NodeDiedError, "its node died or was shut down"),
        (CancelledTaskError, "its node died or was shut down"),
        (WorkerCrashedError, "its process died"),
        (OutOfMemoryError, "its process died"),
    ],
)
def test_a_death_begins_a_run_again_a_few_times(store, monkeypatch, error, reason):
    ray = StandIn({"always": [error("it is dead") for _ in range(9)], "twice": [error("dead")] * 2})
    (failure,), heard = on_stand_in(monkeypatch, ray, [job("always"), job("twice"), job("never")], store, retries=2)
    assert failure.job.name == "always"
    assert failure.reason.startswith(f"{reason}, the last of 3 times ({error.__name__}")
    assert [*failed(store)] == ["always"]
    assert sorted(name for name, _ in ray.begun) == ["always"] * 3 + ["never"] + ["twice"] * 3
    events = [event for event in heard if event.job.name == "twice"]
    assert [type(event) for event in events] == [Started, Again, Started, Again, Started, Finished]
    assert {event.reason for event in events if isinstance(event, Again)} == {reason}
    assert ray.asked["max_retries"] == 0  # by Ray itself


def cuda(name):
    return job(name, config={"device": "cuda"})


def unfit(error):
    """A node with a GPU that can do no runs."""
    return StandIn({"one": [RayTaskError(error)]}, GPU=1.0)


NOBODY = SimpleNamespace(is_initialized=lambda: False)
ADDRESS = r"'{}' \(ConnectionRefusedError: .*ray start --head"


@pytest.mark.parametrize(
    ("ray", "how", "words", "begun"),
    [
        (None, {}, r"pip install 'drest_torch\[ray\]'", 0),
        *((NOBODY, {"address": each}, ADDRESS.format(each), 0) for each in ("127.0.0.1:1", "ray://127.0.0.1:1")),
        (StandIn(), {}, "1 runs have device=cuda, and no node of the Ray cluster has a GPU", 0),
        (unfit(ExecutorError("/shared does not exist on node7")), {}, "these runs: /shared does not exist on node7", 2),
        (unfit(ModuleNotFoundError("no drest_torch")), {}, "ModuleNotFoundError: no drest_torch", 2),
    ],
)
def test_a_cluster_that_is_not_there_or_can_do_no_runs_stops_the_study_and_fails_none(
    store, monkeypatch, ray, how, words, begun
):
    with pytest.raises(ExecutorError, match=words):
        on_stand_in(monkeypatch, ray, [cuda("one"), job("two")], store, **how)
    assert failed(store) == {}
    assert len(getattr(ray, "begun", [])) == begun


@pytest.mark.parametrize(("per_gpu", "share"), [(1, 1.0), (2, 0.5), (6, 0.1666)])
def test_runs_on_a_gpu_ask_for_their_share_of_it(store, monkeypatch, per_gpu, share):
    ray = StandIn(CPU=64.0, GPU=2.0)
    jobs = [*squares(2), *(cuda(f"cuda {i}") for i in range(20)), job("cpu", config={"device": "cpu"})]
    failures, heard = on_stand_in(monkeypatch, ray, jobs, store, runs_per_gpu=per_gpu)
    assert failures == []
    assert dict(ray.begun) == {each.name: share if each.name.startswith("cuda") else 0 for each in jobs}
    assert per_gpu * share <= 1
    assert [event.job.name for event in heard][:2] == ["cuda 0", "cuda 1"]  # GPUs are scarce


def test_as_many_runs_at_once_as_there_are_workers(store, monkeypatch):
    _, heard = on_stand_in(monkeypatch, StandIn(CPU=64.0), squares(*range(9)), store, workers=3)
    going_on = list(itertools.accumulate(1 if isinstance(event, Started) else -1 for event in heard))
    assert (max(going_on), going_on[-1]) == (3, 0)


@pytest.mark.slow
def test_a_study_on_a_ray_cluster_can_be_stopped(store, later, request):
    """Runs that can save do so, and one that does not listen is ended."""
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
    assert [store.get(each) is not None for each in jobs] == [True, False, False, False]
    later.touch()
    assert run_jobs(jobs, store, RayCluster()) == []
    assert [len(calls(store, each)) for each in jobs] == [1, 2, 2, 1]


@pytest.mark.slow
def test_a_node_that_dies_costs_the_other_runs_nothing(store, tmp_path, request):
    """Its own run begins again; what a run of ours has saved by then, the tests of training runs say."""
    utils = pytest.importorskip("ray.cluster_utils", reason=NO_RAY)
    cluster = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    request.addfinalizer(cluster.shutdown)
    node = cluster.add_node(num_cpus=1)
    ((raylet,),) = node.all_processes.values()
    runs = [job(f"waits {i}", "waits", until=str(tmp_path / f"now-{i}")) for i in range(2)]  # one for each node
    failing = [job("raises", "fails", until=str(tmp_path / "never")), job("exits", "exits")]
    jobs = [*squares(2, 3), *runs, *failing, *squares(10**6)]
    with driver(ROOT, store, jobs, RayCluster(cluster.address)) as process:
        wait_for(lambda: all(calls(store, each) for each in runs))
        assert sums(store, squares(2, 3)) == [1, 5]
        threads = Path(f"/proc/{raylet.process.pid}/task").iterdir()
        workers = [int(each) for thread in threads for each in (thread / "children").read_text().split()]
        (lost,) = [each for each in runs if calls(store, each)[0] in workers]
        (kept,) = [each for each in runs if each is not lost]
        for each in (raylet.process.pid, *workers):  # as a machine goes down
            os.kill(each, signal.SIGKILL)
        for each in (kept, lost):
            Path(each.spec["until"]).touch()
        assert process.wait() == 2
    assert failed(store) == {"raises": "ValueError: it cannot be done", "exits": "SystemExit: no more"}
    assert [len(calls(store, each)) for each in [*squares(2, 3, 10**6), kept, lost]] == [1, 1, 1, 1, 2]
    assert all(store.get(each) for each in runs)
    np.testing.assert_array_equal(store.get(*squares(10**6)).arrays["squares"], np.arange(10**6) ** 2)
