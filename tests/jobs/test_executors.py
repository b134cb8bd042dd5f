"""Finished runs are stored and not repeated, a failed run does not affect others, and a study can be stopped."""

import json
import os
import signal
import subprocess

import numpy as np
import pytest

from drest_torch.errors import FileError
from drest_torch.jobs.executor import ExecutorError, Finished, Started, run_jobs
from drest_torch.jobs.job import Job, JobError
from drest_torch.jobs.local import Local
from tests.helpers.job_runners import ROOT, Here, calls, driver, failed, is_alive, job, names, squares, sums, wait_for


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch):
    """Replace the package's ``__init__``, which imports torchrl for seconds, so that processes start quickly."""
    package = tmp_path / "stand-in" / "drest_torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__path__ = {[str(ROOT / 'drest_torch')]!r}\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}{os.pathsep}{ROOT}")


@pytest.fixture
def jobs(later):
    """Return a run that fails until a file exists, one that always fails, and two that finish."""
    return [job("b", "fails", until=str(later)), *squares(2), job("a", "exits"), *squares(3)]


def test_failed_runs_are_recorded(store, jobs):
    failures = run_jobs(jobs, store, Here())
    assert [failure.job for failure in failures] == [jobs[0], jobs[2]]
    assert [failure.reason for failure in failures] == ["ValueError: it cannot be done", "SystemExit: no more"]
    assert 'raise ValueError("it cannot be' in failures[0].traceback
    assert json.loads((store.folder_of(jobs[0]) / "failure.json").read_text())["traceback"] == failures[0].traceback
    assert failed(store) == {failure.job.name: failure.reason for failure in failures}
    assert sums(store, jobs) == [None, 1, None, 5]


def test_a_run_under_two_names_is_executed_under_the_first(store, jobs):
    renamed = [Job(f"{run.name} again", run.runner, run.spec) for run in jobs]
    failures = run_jobs([*jobs, *renamed], store, Here())
    assert names(failures) == ["b", "a"]
    assert [len(calls(store, run)) for run in jobs] == [1, 1, 1, 1]
    assert sums(store, renamed) == [None, 1, None, 5]


def test_only_runs_without_a_usable_result_are_repeated(store, jobs, later):
    run_jobs(jobs, store, Here())
    later.touch()
    (store.folder_of(jobs[3]) / "result.npz").write_bytes(b"damaged")
    events = []
    assert names(run_jobs(jobs, store, Here(), report=events.append)) == ["a"]
    assert [*failed(store)] == ["a"]
    assert sums(store, jobs) == [None, 1, None, 5]
    assert [len(calls(store, run)) for run in jobs] == [2, 1, 2, 2]
    assert [type(event) for event in events] == [Finished] + [Started, Finished] * 3
    ends = {event.job.name: event for event in events[::2]}
    assert [*ends] == ["squares/2", "b", "a", "squares/3"]
    assert [end.existed for end in ends.values()] == [True, False, False, False]
    assert [bool(end.result) for end in ends.values()] == [True, True, False, True]
    assert [bool(end.failure) for end in ends.values()] == [False, False, True, False]


def test_ctrl_c_stops_a_study(store):
    jobs, before = [*squares(2), job("stopped", "stops"), *squares(3)], signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, store, Here())
    assert signal.getsignal(signal.SIGTERM) is before
    assert sums(store, jobs) == [1, None, None]


def test_a_full_disk_stops_a_study(store, monkeypatch):
    def full(*_):
        raise FileError("No space left on device")

    monkeypatch.setattr(store, "put", full)
    with pytest.raises(FileError, match="No space left on device"):
        run_jobs(squares(3, 4), store, Here())
    assert calls(store, *squares(4)) == []
    assert failed(store) == {}


@pytest.mark.parametrize("executor", [Here(), Local(1)], ids=["here", "worker"])
def test_seconds_are_the_processor_time_of_all_sessions(store, executor):
    run = job("computes", "computes")
    with pytest.raises(KeyboardInterrupt):
        run_jobs([run], store, Here())
    assert run_jobs([run], store, executor) == []
    assert len(calls(store, run)) == 2
    assert 0.2 <= store.seconds(run) < 0.4  # with the time asleep it is 0.8


def test_a_cut_off_line_of_a_session_does_not_count(store):
    (run,) = squares(2)
    folder = store.folder_of(run)
    folder.mkdir(parents=True)
    (folder / "sessions.txt").write_text("70.5\n3.\n\nx")
    assert run_jobs([run], store, Here()) == []
    assert store.seconds(run) == pytest.approx(73.5, abs=0.1)


def test_a_running_study_is_not_disturbed(store, later, tmp_path):
    jobs = [job("waits", "waits", until=str(later)), *squares(2)]
    with driver(tmp_path, store, jobs, Local(1)) as process:
        wait_for(lambda: calls(store, jobs[0]))
        with pytest.raises(JobError, match="'waits' is running in another process"):
            run_jobs(jobs, store, Here())
        assert run_jobs(squares(3), store, Here()) == []
        later.touch()
        assert process.wait() == 0
    assert run_jobs(jobs, store, Here()) == []
    assert [len(calls(store, run)) for run in jobs] == [1, 1]


def test_two_workers_share_all_runs(store):
    jobs = squares(*range(12))
    assert run_jobs(jobs, store, Local(2)) == []
    assert sums(store, jobs) == [sum(i * i for i in range(n)) for n in range(12)]
    for n, run in enumerate(jobs):
        np.testing.assert_array_equal(store.get(run).arrays["squares"], np.arange(n) ** 2, strict=True)
    processes = {process for run in jobs for process in calls(store, run)}
    assert 1 <= len(processes) <= 2  # a process executes many runs
    assert os.getpid() not in processes
    assert not any(map(is_alive, processes))


def test_the_next_run_is_taken_when_a_worker_is_free(store):
    finished, before = [], []

    def tasks():
        for run in squares(2, 3):
            before.append(len(finished))
            yield run, store.folder_of(run)

    for event in Local(1).run(tasks()):
        if isinstance(event, Finished):
            finished.append(event.result.numbers["sum"])
    assert finished == [1, 5]
    assert before == [0, 1]


def test_every_run_of_a_worker_has_one_thread(store, monkeypatch):
    """The first run changes the number of threads of its process."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    threads = [job(f"threads {i}", "threads") for i in range(2)]
    assert run_jobs(threads, store, Local(1)) == []
    assert [store.get(run).numbers for run in threads] == [{"threads": 1, "environment": "1"}] * 2
    assert "OMP_NUM_THREADS" not in os.environ


def test_an_error_in_a_worker_fails_only_its_run(store, later, capfd):
    """A run raises, returns an invalid value, or dies, while the other worker is in the middle of a run."""
    guilty = {
        Job("no module", "no.such.module:run", {}): "ModuleNotFoundError: ",
        Job("no function", "tests.helpers.job_runners:missing", {}): "AttributeError: ",
        job("nothing", "returns", what="nothing"): "returned a value of type NoneType; expected a Result",
        job("a dict", "returns", what="a dict"): "returned a value of type dict; expected a Result",
        job("objects", "returns", what="an object array"): "arrays['objects'] is an array of object",
        job("raises", "fails", until=str(later)): "ValueError: it cannot be done",
        job("exits", "exits"): "SystemExit: no more",
        job("ends", "dies", status=7): "its process ended with exit status 7 before it had a result",
        job("ends well", "dies", status=0): "its process ended with exit status 0 before it had a result",
        job("crashes", "dies", how=int(signal.SIGSEGV)): "was killed by signal 11 (Segmentation fault) before",
        job("killed", "dies", how=int(signal.SIGKILL)): "killed by signal 9 (Killed), as the system does when memory",
    }
    innocent = job("waits", "waits", until=str(later))

    def report(event):
        if isinstance(event, Finished) and event.job.name == "killed":
            later.touch()

    failures = run_jobs([innocent, *guilty, *squares(3, 4)], store, Local(2), report=report)
    assert names(failures) == [run.name for run in guilty]
    for failure, words in zip(failures, guilty.values(), strict=True):
        assert words in failure.reason
        assert "\n" not in failure.reason
    assert sums(store, squares(3, 4)) == [5, 14]
    assert len(calls(store, innocent)) == 1

    assert all("before the end" in failure.traceback for failure in failures[-3:])
    assert "Fatal Python error: Segmentation fault" in failures[-2].traceback
    assert "in dies" in failures[-2].traceback
    assert capfd.readouterr() == ("", "")
    assert {*failed(store)} == {*names(failures)}


def test_workers_that_do_not_start(store, tmp_path, monkeypatch, capfd):
    (tmp_path / "drest_torch.py").write_text("raise ImportError('a broken installation')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ExecutorError, match="a worker process could not be started"):
        run_jobs(squares(1, 2, 3), store, Local(2))
    assert "a broken installation" in capfd.readouterr().err
    assert failed(store) == {}


@pytest.mark.parametrize(
    ("send", "signum"),
    [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)],
    ids=["killed", "Ctrl-C", "SIGTERM"],
)
def test_an_interrupted_study_can_be_continued(store, later, tmp_path, send, signum):
    """A terminal sends Ctrl-C to all processes. Runs save their state, unless they are killed."""
    saves, saving = signum != signal.SIGKILL, [job(name, "waits", until=str(later), on_stop="saves") for name in "ab"]
    jobs = [*squares(2, 3), *saving, *squares(4)]
    with driver(tmp_path, store, jobs, Local(2)) as process:
        wait_for(lambda: all(calls(store, run) for run in saving) and all(sums(store, jobs[:2])))
        send(process.pid, signum)
        output, _ = process.communicate()
    assert process.returncode == (130 if saves else -signum)
    assert not (saves and output)  # Python warns of leaked semaphores if a driver is killed
    wait_for(lambda: not any(is_alive(*calls(store, run)) for run in saving))
    saved = [store.folder_of(run) / "saved" for run in saving]
    assert [path.exists() and path.read_text() for path in saved] == [saves and f"[{int(signal.SIGTERM)}]"] * 2
    assert failed(store) == {}
    assert list(store.folder.rglob("*.partial")) == []
    assert [store.get(run) is not None for run in jobs] == [True, True, False, False, False]

    later.touch()
    assert run_jobs(jobs, store, Here()) == []
    assert [len(calls(store, run)) for run in jobs] == [1, 1, 2, 2, 1]
    assert [store.get(run).numbers for run in saving] == [{"saved": saves}] * 2


def test_a_second_ctrl_c_kills_runs_that_ignore_the_first(store, later, tmp_path):
    """The study runs in the background, where a shell without job control makes processes ignore Ctrl-C."""
    deaf = job("deaf", "waits", until=str(later), on_stop="is deaf")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = driver(tmp_path, store, [deaf], Local(1), patience=1e6)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        wait_for(lambda: calls(store, deaf))
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        assert is_alive(*calls(store, deaf))
        process.send_signal(signal.SIGINT)
        wait_for(lambda: process.poll() is not None)
    assert process.returncode == 130
    assert not is_alive(*calls(store, deaf))


@pytest.mark.slow
def test_a_killed_study_takes_compiled_runs_with_it(store, tmp_path):
    """A compiled run does not check for signals or for other events in its process."""
    plays = job("plays", "plays")
    with driver(tmp_path, store, [plays], Local(1)) as process:
        wait_for(lambda: calls(store, plays))
        process.kill()
    wait_for(lambda: not is_alive(*calls(store, plays)))
