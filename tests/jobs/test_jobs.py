"""A run is known by what its result depends on; the store gives back what was stored, whole or not at all."""

import enum
import errno
import hashlib
import json
import math
import os
import re
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from drest_torch.errors import FileError
from drest_torch.jobs import job as jobs
from drest_torch.jobs import store as stores
from drest_torch.jobs.executor import run_jobs
from drest_torch.jobs.job import Failure, Job, JobError, Result
from drest_torch.jobs.local import Local
from drest_torch.jobs.store import Store
from tests.helpers.job_runners import squares

RUNNER = "package.module:function"
SPEC = {"algo": {"lr": 0.1, "steps": [1, 2]}, "seed": 3, "λ": None, "exact": True}
DIGEST = "83aadb9c935596a8"
RESULT = Result({"usefulness": 0.5, "by_length": {"3": [1, 2.5]}}, {"curve": np.linspace(0, 1, 7)})


@pytest.fixture
def job():
    return Job("tabular/example", RUNNER, SPEC)


def files(store, job):
    return {path.name for path in store.folder_of(job).iterdir()}


def test_a_digest_is_the_same_everywhere(job):
    """In every process, as hashes differ from one to the next, and in a year: a change makes all runs be done again."""
    assert Job("another", RUNNER, SPEC).digest() == job.digest() == DIGEST


def test_a_digest_depends_on_what_the_result_depends_on(job, monkeypatch):
    reversed_spec = OrderedDict(reversed(SPEC.items())) | {"algo": {"steps": (1, 2), "lr": np.float64(0.1)}}
    assert Job("another name", RUNNER, reversed_spec).digest() == job.digest()
    others = [
        Job(job.name, "package.module:another", SPEC),
        Job(job.name, RUNNER, SPEC | {"seed": 4}),
        Job(job.name, RUNNER, SPEC | {"seed": 3.0}),
        Job(job.name, RUNNER, SPEC | {"seed": "3"}),
        Job(job.name, RUNNER, SPEC | {"exact": 1}),
        Job(job.name, RUNNER, SPEC | {"more": None}),
        Job(job.name, RUNNER, SPEC | {"seed": math.inf}),
    ]
    monkeypatch.setattr(jobs, "FORMAT", jobs.FORMAT + 1)
    assert len({each.digest() for each in [job, *others]} | {DIGEST}) == len(others) + 2


def described(*, name="one", runner=RUNNER, spec=SPEC):
    return lambda store: Job(name, runner, spec)


def stored(numbers=RESULT.numbers, arrays=RESULT.arrays):
    return lambda store: store.put(Job("one", RUNNER, SPEC), Result(numbers, arrays), 1)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (described(name=""), "a run without a name"),
        (described(runner="function"), "runner 'function'"),
        (described(runner="package.module:one.two"), "'package.module:function'"),
        (described(spec=[1]), "list; expected a dict"),
        (described(spec={"algo": {1: 2}}), "spec['algo'] has the key 1"),
        (described(spec={"a": [0, {1}]}), "spec['a'][1] is of type set"),
        (described(spec={"a": np.float32(1)}), "spec['a'] is of type float32"),
        (described(spec={"a": enum.Enum("Colour", "RED")(1)}), "spec['a'] is of type Colour"),
        (stored({1: 2}), "numbers has the key 1"),
        (stored({"a": [np.int64(1)]}), "numbers['a'][0] is of type int64"),
        (stored([]), "expected two dicts"),
        (stored(arrays={"a": [1.0]}), "arrays['a'] is of type list"),
        (stored(arrays={"a": np.array([{}])}), "arrays['a'] is an array of object"),
        (stored(arrays={1: np.zeros(1)}), "arrays[1]"),
        (lambda store: store.seconds(Job("one", RUNNER, SPEC)), "run 'one' has no result"),
    ],
)
def test_what_cannot_be_described_stored_or_read_is_refused(store, make, complaint):
    with pytest.raises(JobError, match=re.escape(complaint)):
        make(store)
    assert not list(store.folder.rglob("result*"))


def test_a_result_comes_back(store, job):
    numbers = {"nan": math.nan, "inf": [-math.inf, 1e-320, 0.1], "λ": {"a": None, "b": True}, "tuple": (1, 2)}
    arrays = {
        "scalar": np.array(2**60),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "file": np.array([math.nan, math.inf]),
        "allow_pickle": np.array(["a", "λ"]),
        "a/b.npy": np.array([True]),
        "complex": np.array([1j]),
    }
    assert store.get(job) is None
    assert store.failures() == []
    assert not store.folder.exists()
    store.put(job, Result(numbers, arrays), 1.5)
    found = Store(store.folder).get(job)
    assert repr(found.numbers) == repr(numbers | {"tuple": [1, 2]})
    assert list(found.arrays) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)
    assert store.seconds(job) == 1.5
    store.put(bare := Job("bare", RUNNER, {}), Result({"a": 1}), 0)
    assert files(store, bare) == {"result.json"}
    assert (store.get(bare).numbers, store.get(bare).arrays) == ({"a": 1}, {})


def test_studies_share_a_run_whatever_they_call_it(store, job):
    store.put(job, RESULT, 1)
    another = Job("of another study", RUNNER, SPEC)
    assert store.get(another) is not None
    assert store.folder_of(another) == store.folder_of(job)
    assert store.folder_of(job).name == f"tabular.example-{DIGEST}"
    assert store.get(Job(job.name, RUNNER, SPEC | {"seed": 4})) is None


@pytest.mark.parametrize(
    ("name", "folder"),
    [("../../etc", "etc"), ("λ=0.9 γ=1", "-=0.9-=1"), ("x" * 300, "x" * 100), ("...", "run"), ("a\nb\\c", "a-b-c")],
)
def test_every_name_makes_a_folder(store, name, folder):
    job = Job(name, RUNNER, SPEC)
    store.put(job, RESULT, 1)
    assert [path.name for path in store.folder.iterdir()] == [f"{folder}-{DIGEST}"]


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


DAMAGES = {
    "an empty file": lambda folder: (folder / "result.json").write_bytes(b""),
    "half a file": lambda folder: os.truncate(folder / "result.json", 40),
    "no text": lambda folder: (folder / "result.json").write_bytes(b"\xff\xfe"),
    "a list": lambda folder: (folder / "result.json").write_text("[]"),
    "no numbers": lambda folder: edit(folder / "result.json", numbers=None),
    "no seconds": lambda folder: edit(folder / "result.json", seconds="1"),
    "another spec": lambda folder: edit(folder / "result.json", spec=SPEC | {"seed": 4}),
    "another runner": lambda folder: edit(folder / "result.json", runner="package.module:another"),
    "another format": lambda folder: edit(folder / "result.json", format=jobs.FORMAT + 1),
    "no arrays": lambda folder: (folder / "result.npz").unlink(),
    "half of the arrays": lambda folder: os.truncate(folder / "result.npz", 100),
    "other arrays": lambda folder: np.savez(folder / "result.npz", curve=np.zeros(7)),
    "arrays that are code": lambda folder: np.savez(folder / "result.npz", curve=np.array([print], dtype=object)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_counts_as_none_and_says_so_once(store, job, damage, capsys):
    store.put(job, RESULT, 1)
    DAMAGES[damage](store.folder_of(job))
    assert store.get(job) is None
    assert store.get(job) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(str(store.folder_of(job)))
    assert "cannot be used" in line
    assert line.endswith("; the run counts as not done")

    store.put(job, RESULT, 2)
    found = store.get(job)
    np.testing.assert_array_equal(found.arrays["curve"], RESULT.arrays["curve"])


@pytest.mark.parametrize(("most", "shape"), [(100, (1000,)), (10**6, (10**13,))])
def test_arrays_that_unpack_to_too_much_are_not_read(store, job, most, shape, monkeypatch, capsys):
    """A stranger's file that is small itself: it holds many zeros, or says that much will follow."""
    monkeypatch.setattr(stores, "MOST_BYTES", most)
    store.put(job, RESULT, 1)
    path = store.folder_of(job) / "result.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("curve.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.write(bytes(8000))
    edit(store.folder_of(job) / "result.json", arrays=hashlib.sha256(path.read_bytes()).hexdigest())
    assert store.get(job) is None
    assert re.search("it unpacks to|it holds no arrays", capsys.readouterr().err)


def test_results_of_an_older_version_are_mentioned_once(store, monkeypatch, capsys):
    """They are not found, as they have other digests; without a word they would be done again beside the old ones."""
    for module in (jobs, stores):
        monkeypatch.setattr(module, "FORMAT", 1)
    store.put(squares(2)[0], Result({}), 1)
    monkeypatch.undo()
    (store.folder / "neither").mkdir()
    (store.folder / "neither" / "result.json").write_text("[]")
    for executed in (squares(2), squares(2), squares(3)):
        assert run_jobs(executed, store, Local(0)) == []
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{store.folder}: 1 result is of an older version")


@pytest.mark.parametrize("file", ["result.npz", "result.json"])
def test_a_write_that_fails_stores_nothing(store, job, file, monkeypatch):
    store.record_failure(Failure(job, "a reason", ""))
    replace = os.replace

    def full(source, target):
        if target.name == file:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        store.put(job, RESULT, 1)
    assert store.get(job) is None
    assert not any(name.endswith(".partial") for name in files(store, job))
    assert len(store.failures()) == 1


def test_a_failure_stays_until_the_run_succeeds(store, job):
    another = Job("another", RUNNER, {})
    store.record_failure(Failure(job, "first", "traceback\nof two lines"))
    store.record_failure(Failure(another, "a reason", ""))
    store.record_failure(Failure(job, "second", "traceback\nof two lines"))
    assert store.get(job) is None
    assert store.failures() == [Failure(another, "a reason", ""), Failure(job, "second", "traceback\nof two lines")]

    store.put(job, RESULT, 1)
    assert files(store, job) == {"result.json", "result.npz"}
    assert store.failures() == [Failure(another, "a reason", "")]
    (store.folder_of(another) / "failure.json").write_text('{"name": "one"')  # damaged
    assert store.failures() == []


def test_a_kill_between_the_result_and_the_end_of_its_failure(store, job, monkeypatch):
    def kill(*_, **__):
        raise KeyboardInterrupt

    store.record_failure(Failure(job, "a reason", ""))
    monkeypatch.setattr(Path, "unlink", lambda path, **_: path.suffix == ".partial" or kill())
    with pytest.raises(KeyboardInterrupt):
        store.put(job, Result({}), 1)
    assert store.get(job) is not None
    assert store.failures() == []


def test_without_locks_in_the_file_system_runs_are_done_all_the_same(store, job, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(stores.fcntl, "lockf", unsupported)
    with store.claimed([job]):
        pass
