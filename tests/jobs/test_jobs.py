"""A digest identifies a run by everything that its result depends on; the store returns complete results or none."""

import errno
import hashlib
import json
import math
import os
import re
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from drest_torch.jobs import store as stores
from drest_torch.jobs.job import Job, JobError, Result
from drest_torch.jobs.store import Store

RUNNER = "package.module:function"
SPEC = {"algo": {"lr": 0.1, "steps": [1, 2]}, "seed": 3, "λ": None, "exact": True}
DIGEST = "4dc6b23a5c073d98"
RESULT = Result({"usefulness": 0.5, "by_length": {"3": [1, 2.5]}}, {"curve": np.linspace(0, 1, 7)})


@pytest.fixture
def job():
    return Job("tabular/example", RUNNER, SPEC)


def test_a_digest_depends_on_everything_in_the_spec(job):
    """The digest is a constant: if it changes between versions, all runs are repeated."""
    reversed_spec = OrderedDict(reversed(SPEC.items())) | {"algo": {"steps": (1, 2), "lr": np.float64(0.1)}}
    assert Job("another name", RUNNER, reversed_spec).digest() == job.digest() == DIGEST
    changed = [
        Job(job.name, "package.module:another", SPEC),
        Job(job.name, RUNNER, SPEC | {"seed": 4}),
        Job(job.name, RUNNER, SPEC | {"seed": 3.0}),
        Job(job.name, RUNNER, SPEC | {"seed": "3"}),
        Job(job.name, RUNNER, SPEC | {"exact": 1}),
        Job(job.name, RUNNER, SPEC | {"more": None}),
        Job(job.name, RUNNER, SPEC | {"seed": math.inf}),
    ]
    assert len({run.digest() for run in [job, *changed]}) == len(changed) + 1


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Job("", RUNNER, SPEC), "a run without a name"),
        (lambda: Job("one", "package.module:one.two", SPEC), "'package.module:function'"),
        (lambda: Job("one", RUNNER, [1]), "list; expected a dict"),
        (lambda: Job("one", RUNNER, {"a": [0, {1}]}), "run 'one': spec: Object of type set"),
        (lambda: Job("one", RUNNER, {"a": np.float32(1)}), "type float32"),
        (lambda: Result({"a": [np.int64(1)]}).checked(), "numbers: Object of type int64"),
        (lambda: Result({}, {"a": [1.0]}).checked(), "arrays['a'] is a list"),
        (lambda: Result({}, {"a": np.array([{}])}).checked(), "arrays['a'] is an array of object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_jobs_or_results_are_refused(make, complaint):
    with pytest.raises(JobError, match=re.escape(complaint)):
        make()


def test_a_result_comes_back(store, job):
    numbers = {"nan": math.nan, "inf": [-math.inf, 1e-320, 0.1], "λ": {"a": None, "b": True}, "tuple": (1, 2)}
    arrays = {
        "scalar": np.array(2**60),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "transposed": np.arange(6.0).reshape(2, 3).T,
        "infinite": np.array([math.nan, math.inf]),
        "texts": np.array(["a", "λ"]),
        "a/b.npy": np.array([True]),
        "complex": np.array([1j]),
    }
    assert store.get(job) is None
    assert not store.folder.exists()
    store.put(job, Result(numbers, arrays).checked(), 1.5)
    result = Store(store.folder).get(job)
    assert repr(result.numbers) == repr(numbers | {"tuple": [1, 2]})
    assert list(result.arrays) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(result.arrays[name], array, strict=True)
    assert store.seconds(job) == 1.5


def test_a_result_without_arrays_is_one_file(store):
    bare = Job("bare", RUNNER, {})
    store.put(bare, Result({"a": 1}), 0)
    assert [path.name for path in store.folder_of(bare).iterdir()] == ["result.json"]
    assert store.get(bare).numbers == {"a": 1}
    assert store.get(bare).arrays == {}


@pytest.mark.parametrize(
    ("name", "folder"),
    [("../../etc/a\nb\\c", "etc.a-b-c"), ("λ=0.9 γ=1", "-=0.9-=1"), ("x" * 300, "x" * 100), ("...", "run")],
)
def test_every_name_makes_a_valid_folder(store, name, folder):
    store.put(Job(name, RUNNER, SPEC), RESULT, 1)
    assert [path.name for path in store.folder.iterdir()] == [f"{folder}-{DIGEST}"]


def test_two_studies_share_a_run_under_different_names(store, job):
    store.put(job, RESULT, 1)
    assert store.get(Job("of another study", RUNNER, SPEC)) is not None


def test_a_run_keeps_the_commit_that_made_it(store, job):
    Store(store.folder, "abc").put(job, RESULT, 1)
    assert Store(store.folder, "def").commit(job) == "abc"


def test_a_run_of_an_earlier_version_has_an_unknown_commit(store, job):
    store.put(job, RESULT, 1)
    path = store.folder_of(job) / "result.json"
    record = json.loads(path.read_text())
    del record["commit"]
    path.write_text(json.dumps(record))
    assert store.get(job) is not None
    assert store.commit(job) == "unknown"


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def packed(folder, shape, size):
    """Replace the arrays by a small malicious file that unpacks to, or announces, a large size."""
    path = folder / "result.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("curve.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.write(bytes(size))
    edit(folder / "result.json", arrays=hashlib.sha256(path.read_bytes()).hexdigest())
    seal(folder / "result.json")


def nested(depth):
    return [nested(depth - 1)] if depth else None


def seal(path):
    """Update the checksum after an edit, as an attacker could."""
    edit(path, content=stores._content(json.loads(path.read_text())))


def in_place_of(path):
    """Replace a file by a folder."""
    path.unlink()
    path.mkdir()


DAMAGES = {
    "half a file": lambda folder: os.truncate(folder / "result.json", 40),
    "no numbers": lambda folder: edit(folder / "result.json", numbers=None),
    "no seconds": lambda folder: edit(folder / "result.json", seconds="1"),
    "another spec": lambda folder: edit(folder / "result.json", spec=SPEC | {"seed": 4}),
    "another runner": lambda folder: edit(folder / "result.json", runner="package.module:another"),
    "no checksum": lambda folder: edit(folder / "result.json", content=None),
    "another number": lambda folder: edit(folder / "result.json", numbers=RESULT.numbers | {"usefulness": 0.6}),
    "a text for a number": lambda folder: edit(folder / "result.json", numbers=RESULT.numbers | {"usefulness": "x"}),
    "NaN for a number": lambda folder: edit(folder / "result.json", numbers=RESULT.numbers | {"usefulness": math.nan}),
    "a number less": lambda folder: edit(folder / "result.json", numbers={}),
    "other seconds": lambda folder: edit(folder / "result.json", seconds=2),
    "endless seconds": lambda folder: edit(folder / "result.json", seconds=math.inf),
    "seconds that are no number": lambda folder: edit(folder / "result.json", seconds=math.nan),
    "seconds that no float holds": lambda folder: edit(folder / "result.json", seconds=10**400),
    "no arrays named": lambda folder: edit(folder / "result.json", arrays=None),
    "a list": lambda folder: (folder / "result.json").write_text("[]"),
    "a deep nest": lambda folder: (folder / "result.json").write_text("[" * 100_000),
    "a deep nest of a spec": lambda folder: edit(folder / "result.json", spec=nested(600)),
    "a folder for the arrays": lambda folder: in_place_of(folder / "result.npz"),
    "no arrays": lambda folder: (folder / "result.npz").unlink(),
    "other arrays": lambda folder: np.savez(folder / "result.npz", curve=np.zeros(7)),
    "arrays that are code": lambda folder: np.savez(folder / "result.npz", curve=np.array([print], dtype=object)),
    "arrays that unpack to too much": lambda folder: packed(folder, (1000,), 8000),
    "arrays that announce too much": lambda folder: packed(folder, (10**13,), 80),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_result_is_reported_as_not_done(store, job, damage, monkeypatch, capsys):
    monkeypatch.setattr(stores, "MOST_BYTES", 1000)
    store.put(job, RESULT, 1)
    DAMAGES[damage](folder := store.folder_of(job))
    assert store.get(job) is None
    assert re.fullmatch(
        f"{re.escape(str(folder))}.*cannot be used.*; the run counts as not done\n", capsys.readouterr().err
    )
    if "folder" in damage:
        (folder / "result.npz").rmdir()

    store.put(job, RESULT, 2)
    np.testing.assert_array_equal(store.get(job).arrays["curve"], RESULT.arrays["curve"])


def test_runs_need_no_locks_of_the_file_system(store, job, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(stores.fcntl, "lockf", unsupported)
    with store.claimed([job]):
        pass
