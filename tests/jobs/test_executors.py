"""Finished runs are kept and not repeated, failed ones take no other with them, and a study can be stopped."""

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
    """Other processes find the package without what stands in its ``__init__``, and start in a tenth of a second.

    That imports torchrl, which takes seconds and is no matter of the runs here.
    """
    package = tmp_path / "stand-in" / "drest_torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__path__ = {[str(ROOT / 'drest_torch')]!r}\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}{os.pathsep}{ROOT}")


def test_what_exists_is_not_repeated_and_what_is_damaged_or_has_failed_is_done_again(store, later):
    """Of a run under two names there is one, under the first."""
    jobs = [job("b", "fails", until=str(later)), *squares(2), job("a", "exits"), *squares(3)]
    again = [Job(f"{each.name} again", each.runner, each.spec) for each in jobs]
    failures = run_jobs([*jobs, *again], store, Here())
    assert [(failure.job, failure.reason) for failure in failures] == [
        (jobs[0], "ValueError: it cannot be done"),
        (jobs[2], "SystemExit: no more"),
    ]
    assert 'raise ValueError("it cannot be' in failures[0].traceback
    assert json.loads((store.folder_of(jobs[0]) / "failure.json").read_text())["traceback"] == failures[0].traceback
    assert failed(store) == {failure.job.name: failure.reason for failure in failures}
    assert sums(store, jobs) == sums(store, again) == [None, 1, None, 5]

    later.touch()
    (store.folder_of(jobs[3]) / "result.npz").write_bytes(b"damaged")
    heard = []
    assert names(run_jobs(jobs, store, Here(), report=heard.append)) == ["a"]
    assert [*failed(store)] == ["a"]
    assert sums(store, jobs) == [None, 1, None, 5]
    assert [len(calls(store, each)) for each in jobs] == [2, 1, 2, 2]
    assert [type(event) for event in heard] == [Finished] + [Started, Finished] * 3
    done = [(event.job.name, event.existed, bool(event.result), bool(event.failure)) for event in heard[::2]]
    assert done == [
        ("squares/2", True, True, False),
        ("b", False, True, False),
        ("a", False, False, True),
        ("squares/3", False, True, False),
    ]


def test_ctrl_c_and_a_full_disk_stop_a_study(store, monkeypatch):
    jobs, before = [*squares(2), job("stopped", "stops"), *squares(3)], signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, store, Here())
    assert signal.getsignal(signal.SIGTERM) is before
    assert sums(store, jobs) == [1, None, None]

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


def test_a_study_that_runs_already_is_left_alone(store, later, tmp_path):
    jobs = [job("waits", "waits", until=str(later)), *squares(2)]
    with driver(tmp_path, store, jobs, Local(1)) as process:
        wait_for(lambda: calls(store, jobs[0]))
        with pytest.raises(JobError, match="'waits' is running in another process"):
            run_jobs(jobs, store, Here())
        assert run_jobs(squares(3), store, Here()) == []
        later.touch()
        assert process.wait() == 0
    assert run_jobs(jobs, store, Here()) == []
    assert [len(calls(store, each)) for each in jobs] == [1, 1]


def test_workers_do_all_runs_each_with_one_thread_whatever_the_one_before_has_set(store, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    jobs = squares(*range(12))
    assert run_jobs(jobs, store, Local(2)) == []
    assert sums(store, jobs) == [sum(i * i for i in range(n)) for n in range(12)]
    for n, each in enumerate(jobs):
        np.testing.assert_array_equal(store.get(each).arrays["squares"], np.arange(n) ** 2, strict=True)
    processes = {process for each in jobs for process in calls(store, each)}
    assert 1 <= len(processes) <= 2  # each is used for many runs
    assert os.getpid() not in processes
    assert not any(map(is_alive, processes))
    threads = [job(f"threads {i}", "threads") for i in range(2)]
    assert run_jobs(threads, store, Local(1)) == []
    assert [store.get(each).numbers for each in threads] == [{"threads": 1, "environment": "1"}] * 2
    assert "OMP_NUM_THREADS" not in os.environ


def test_what_goes_wrong_in_a_worker_is_one_run(store, later, capfd):
    """It raises, returns what cannot be sent, or dies, while the other worker is in the middle of a run."""
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
    assert names(failures) == [each.name for each in guilty]
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
    ("send", "signum"), [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM)]
)
def test_a_killed_or_stopped_study_keeps_what_it_has_and_goes_on(store, later, tmp_path, send, signum):
    """A terminal sends Ctrl-C to all processes. Runs that can save do so, if they are not killed."""
    saves, saving = signum != signal.SIGKILL, [job(name, "waits", until=str(later), on_stop="saves") for name in "ab"]
    jobs = [*squares(2, 3), *saving, *squares(4)]
    with driver(tmp_path, store, jobs, Local(2)) as process:
        wait_for(lambda: all(calls(store, each) for each in saving) and all(sums(store, jobs[:2])))
        send(process.pid, signum)
        output, _ = process.communicate()
    assert process.returncode == (130 if saves else -signum)
    assert not (saves and output)  # of a driver that is killed, Python says that semaphores were left behind
    wait_for(lambda: not any(is_alive(*calls(store, each)) for each in saving))
    saved = [store.folder_of(each) / "saved" for each in saving]
    assert [path.exists() and path.read_text() for path in saved] == [saves and f"[{int(signal.SIGTERM)}]"] * 2
    assert failed(store) == {}
    assert list(store.folder.rglob("*.partial")) == []
    assert [store.get(each) is not None for each in jobs] == [True, True, False, False, False]

    later.touch()
    assert run_jobs(jobs, store, Here()) == []
    assert [len(calls(store, each)) for each in jobs] == [1, 1, 2, 2, 1]
    assert [store.get(each).numbers for each in saving] == [{"saved": saves}] * 2


def test_a_study_in_the_background_heeds_ctrl_c_and_a_second_one_ends_runs_that_do_not_listen(store, later, tmp_path):
    """A shell without job control has such a process ignore it, and the training command stops all the same."""
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
    """Also one that would go on for ever without a look at what else happens in its process."""
    plays = job("plays", "plays")
    with driver(tmp_path, store, [plays], Local(1)) as process:
        wait_for(lambda: calls(store, plays))
        process.kill()
    wait_for(lambda: not is_alive(*calls(store, plays)))
