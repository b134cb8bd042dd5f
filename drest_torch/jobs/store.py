"""A study's runs, and the folder of those that are finished. A run is known by what its result depends on.

Nothing here imports torch: a worker process starts quickly, and its runner imports what it needs.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.errors import UserError

FORMAT = 1
"""Part of every digest: with another number no earlier result is taken for a run's."""
_DIGITS = 16
_NAME_LENGTH = 100
"""Of a folder's name; file systems allow 255 bytes."""
_RESULT, _ARRAYS, _FAILURE = "result.json", "result.npz", "failure.json"


class JobError(UserError):
    """A run that cannot be described or done now, or a result that cannot be stored; the message says why."""


@dataclass(frozen=True)
class Job:
    """One run of a study.

    ``runner`` is "package.module:function", a function ``(spec, folder) -> Result`` that any process can
    import. Its result depends on ``spec`` alone, seeds included, and not on which runs came before it in the
    same process. ``folder`` is the run's own: what the runner keeps there is there again if the run is killed
    and started anew. A runner that is asked to stop, by SIGTERM, may save first and then raises
    KeyboardInterrupt.

    ``spec`` holds JSON values, and 1 is another spec than 1.0. Runs with the same runner and spec are the same
    run, whatever they are called.
    """

    name: str
    runner: str
    spec: dict[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise JobError("a run without a name; expected a readable one, such as 'tabular/example-moves'")
        if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", self.runner):
            raise JobError(f"run '{self.name}': runner '{self.runner}'; expected 'package.module:function'")
        if not isinstance(self.spec, dict):
            raise JobError(f"run '{self.name}': its spec is of type {_kind(self.spec)}; expected a dict")
        object.__setattr__(self, "spec", _plain(self.spec, f"run '{self.name}': spec"))

    def digest(self) -> str:
        """What the run is known by, in every process and on every machine."""
        text = f"{FORMAT}\n{self.runner}\n{_canonical(self.spec)}"
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found: JSON values, among which NaN and infinity are numbers, and arrays of any shape."""

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def checked(self) -> Result:
        """The same as it will be read from the store; what cannot be stored is refused."""
        if not isinstance(self.numbers, dict) or not isinstance(self.arrays, dict):
            raise JobError(
                f"a result's numbers are of type {_kind(self.numbers)}, its arrays of type {_kind(self.arrays)}; "
                "expected two dicts"
            )
        for name, array in self.arrays.items():
            if not isinstance(name, str) or not isinstance(array, np.ndarray) or array.dtype.hasobject:
                what = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else f"of type {_kind(array)}"
                raise JobError(f"arrays[{name!r}] is {what}; expected a numpy array of numbers, with a name")
        arrays = {name: np.array(array, subok=False) for name, array in self.arrays.items()}
        return Result(_plain(self.numbers, "numbers"), arrays)


@dataclass(frozen=True)
class Failure:
    """A run that has no result, and why: one line, and all that is known."""

    job: Job
    reason: str
    traceback: str


class Store:
    """A folder that holds the finished runs of all studies, a folder for each.

    A run's files are found by its digest; its folder also has a name in front of it, that of the study that
    was first to ask, for those who look. A run is finished as soon as it has its ``result.json``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()  # for workers elsewhere, and whatever the working directory becomes
        self._complained: set[Path] = set()

    def folder_of(self, job: Job) -> Path:
        """Where the run's files are or will be."""
        digest = job.digest()
        found: list[str] = []
        with suppress(FileNotFoundError):
            found = sorted(name for name in os.listdir(self.folder) if name.endswith(f"-{digest}"))
        return self.folder / (found[0] if found else f"{_readable(job.name)}-{digest}")

    # ------------------------------------------------------------------------------------- results

    def get(self, job: Job) -> Result | None:
        """The run's result, or None if there is none that can be used."""
        folder = self.folder_of(job)
        try:
            record = _read_record(folder / _RESULT, job)
            if record is None:
                return None
            return Result(record["numbers"], _read_arrays(folder / _ARRAYS, record["arrays"]))
        except _Damaged as error:
            if folder not in self._complained:
                self._complained.add(folder)
                print(f"{error}; the run counts as not done", file=sys.stderr)
            return None

    def put(self, job: Job, result: Result, seconds: float) -> None:
        """Store a finished run; ``seconds`` are those of the session that finished it."""
        folder = self.folder_of(job)
        result = result.checked()
        checksum = None
        if result.arrays:
            data = _arrays_as_bytes(result.arrays)
            checksum = _checksum(data)
            _write(folder / _ARRAYS, data)
        record = _describe(job) | {"seconds": seconds, "numbers": result.numbers, "arrays": checksum}
        _write_json(folder / _RESULT, record)  # last: it says that the run is complete
        (folder / _FAILURE).unlink(missing_ok=True)

    def seconds(self, job: Job) -> float:
        """How long the run took in the session that finished it."""
        record = _read_record(self.folder_of(job) / _RESULT, job)
        if record is None:
            raise JobError(f"run '{job.name}' has no result in {self.folder}; run its study first")
        return float(record["seconds"])

    # ------------------------------------------------------------------------------------ failures

    def record_failure(self, failure: Failure) -> None:
        """Keep why a run failed, until it succeeds."""
        record = _describe(failure.job) | {"reason": failure.reason, "traceback": failure.traceback}
        _write_json(self.folder_of(failure.job) / _FAILURE, record)

    def failures(self) -> list[Failure]:
        """Every run that failed when it was last tried, by name."""
        found = []
        for path in self.folder.glob(f"*/{_FAILURE}"):
            if (path.parent / _RESULT).exists():
                continue
            with suppress(ValueError, KeyError, TypeError):  # damaged: it will be tried again all the same
                record = json.loads(path.read_bytes())
                job = Job(record["name"], record["runner"], record["spec"])
                found.append(Failure(job, record["reason"], record["traceback"]))
        return sorted(found, key=lambda failure: failure.job.name)

    # --------------------------------------------------------------------------------------- locks

    @contextmanager
    def claimed(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Within it, no other process may claim these; refused if another has claimed one of them.

        Two processes in one run's folder would spoil its checkpoints. The system takes a claim back when its
        process ends, however it ends. Each is a lock on one byte of one file, at the place the digest says.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "ab") as file:
            for job in jobs:
                if not _lock_byte(file.fileno(), int(job.digest(), 16) >> 2):  # within the 63 bits of a file's size
                    raise JobError(f"{self.folder}: run '{job.name}' is going on in another process; wait for its end")
            yield


# ------------------------------------------------------------------------------------------- files


class _Damaged(JobError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: cannot be used, {reason}")


def _lock_byte(descriptor: int, place: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass  # a file system without locks: then it is for the user not to start a study twice
    return True


def _write(path: Path, data: bytes) -> None:
    from drest_torch.files import write_whole

    write_whole(path, data)


def _write_json(path: Path, value: Any) -> None:
    _write(path, (json.dumps(value, indent=2) + "\n").encode())


def _readable(name: str) -> str:
    """A name as the beginning of a folder's."""
    text = re.sub(r"[^\w.,=+-]+", "-", name.replace("/", "."), flags=re.ASCII)
    return text[:_NAME_LENGTH].lstrip(".") or "run"


def _describe(job: Job) -> dict[str, Any]:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"format": FORMAT, "name": job.name, "runner": job.runner, "spec": job.spec, "when": now}


def _read_record(path: Path, job: Job) -> dict[str, Any] | None:
    """The content of a run's ``result.json``, or None where there is none."""
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _Damaged(path, f"it is damaged or cut off ({error})") from None
    match record:
        case {"numbers": dict(), "seconds": int() | float(), "arrays": str() | None}:
            pass
        case _:
            raise _Damaged(path, "it is not the result of a run")
    found = [record.get("format"), record.get("runner"), _canonical(record.get("spec"))]
    if found != [FORMAT, job.runner, _canonical(job.spec)]:
        raise _Damaged(path, "it is the result of another run")
    return record


def _arrays_as_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """As ``np.savez`` does it, which has no room for arrays called 'file' or 'allow_pickle'."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def _read_arrays(path: Path, checksum: str | None) -> dict[str, np.ndarray]:
    """The arrays that were stored together with the ``result.json`` that has their checksum."""
    if checksum is None:
        return {}
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _Damaged(path, "it is missing") from None
    if _checksum(data) != checksum:
        raise _Damaged(path, "its content is not what was stored")
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                arrays[name.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ------------------------------------------------------------------------------------ plain values


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _plain(value: Any, what: str) -> Any:
    """A copy as JSON gives it back; what JSON cannot hold, or would change silently, is refused."""
    if value is None or isinstance(value, bool | int | float | str):
        return json.loads(json.dumps(value))  # also of a subclass, such as numpy's float64
    if isinstance(value, list | tuple):
        return [_plain(each, f"{what}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise JobError(f"{what} has the key {key!r}; expected a str")
        return {str(key): _plain(each, f"{what}[{key!r}]") for key, each in value.items()}
    raise JobError(
        f"{what} is of type {_kind(value)}; expected a number, a str, a bool, None, a list or a dict of them"
    )


def _kind(value: object) -> str:
    return type(value).__name__
