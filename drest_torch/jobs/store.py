"""The folder of the runs that are finished. A run is found by what its result depends on.

We keep this store instead of joblib.Memory or a database because its records are JSON that people can read, a
result is complete or absent whenever the power fails, and a run's folder also holds its checkpoints and output.
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
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.files import write_json, write_whole
from drest_torch.jobs.job import FORMAT, Failure, Job, JobError, Result, canonical

_NAME_LENGTH = 100
"""Of a folder's name; file systems allow 255 bytes."""
_RESULT, _ARRAYS, _FAILURE = "result.json", "result.npz", "failure.json"


class Store:
    """A folder that holds the finished runs of all studies, a folder for each.

    A run's folder ends in its digest, by which it is found; in front of it stands, for those who look, the name
    that the first study gave to the run. A run is finished as soon as it has its ``result.json``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()  # for workers elsewhere, and whatever the working directory becomes
        self._complained: set[Path] = set()

    def folder_of(self, job: Job) -> Path:
        """Return where the run's files are or will be."""
        digest = job.digest()
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(f"-{digest}"))
        return self.folder / (names[0] if names else f"{_readable(job.name)}-{digest}")

    # ------------------------------------------------------------------------------------- results

    def get(self, job: Job) -> Result | None:
        """Return the run's result, or None if there is none that can be used."""
        folder = self.folder_of(job)
        try:
            record = _read_record(folder / _RESULT, job)
            if record is None:
                return None
            return Result(record["numbers"], _read_arrays(folder / _ARRAYS, record["arrays"]))
        except _Damaged as error:
            self._complain(folder, f"{error}; the run counts as not done")
            return None

    def put(self, job: Job, result: Result, seconds: float) -> None:
        """Store a finished run; ``seconds`` are those of the session that finished it."""
        folder = self.folder_of(job)
        result = result.checked()
        checksum = None
        if result.arrays:
            data = _arrays_as_bytes(result.arrays)
            checksum = hashlib.sha256(data).hexdigest()
            write_whole(folder / _ARRAYS, data)
        record = _describe(job) | {"seconds": seconds, "numbers": result.numbers, "arrays": checksum}
        write_json(folder / _RESULT, record)  # last: it says that the run is complete
        (folder / _FAILURE).unlink(missing_ok=True)

    def seconds(self, job: Job) -> float:
        """Return how long the run took in the session that finished it."""
        record = _read_record(self.folder_of(job) / _RESULT, job)
        if record is None:
            raise JobError(f"run '{job.name}' has no result in {self.folder}; run its study first")
        return float(record["seconds"])

    def mention_older_results(self) -> None:
        """Say in one sentence, once, how many results were stored under an earlier format, and so are not found."""
        older = sum(_format(path) in range(FORMAT) for path in self.folder.glob(f"*/{_RESULT}"))
        if older:
            results = "1 result is" if older == 1 else f"{older} results are"
            sentence = f"{self.folder}: {results} of an older version of the project and cannot be used"
            self._complain(self.folder, f"{sentence}; the runs are done again, in folders beside them")

    def _complain(self, about: Path, sentence: str) -> None:
        """Print a sentence about a folder, the first time."""
        if about not in self._complained:
            self._complained.add(about)
            print(sentence, file=sys.stderr)

    # ------------------------------------------------------------------------------------ failures

    def record_failure(self, failure: Failure) -> None:
        """Keep why a run failed, until it succeeds."""
        record = _describe(failure.job) | {"reason": failure.reason, "traceback": failure.traceback}
        write_json(self.folder_of(failure.job) / _FAILURE, record)

    def failures(self) -> list[Failure]:
        """Return every run that failed when it was last tried, by name."""
        failures = []
        for path in self.folder.glob(f"*/{_FAILURE}"):
            if (path.parent / _RESULT).exists():
                continue
            with suppress(ValueError, KeyError, TypeError):  # damaged: it will be tried again all the same
                record = json.loads(path.read_bytes())
                job = Job(record["name"], record["runner"], record["spec"])
                failures.append(Failure(job, record["reason"], record["traceback"]))
        return sorted(failures, key=lambda failure: failure.job.name)

    # --------------------------------------------------------------------------------------- locks

    @contextmanager
    def claimed(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Let no other process claim these jobs meanwhile; refuse if another has claimed one of them.

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


def _readable(name: str) -> str:
    """Return a run's name as the beginning of a folder's."""
    text = re.sub(r"[^\w.,=+-]+", "-", name.replace("/", "."), flags=re.ASCII)
    return text[:_NAME_LENGTH].lstrip(".") or "run"


def _describe(job: Job) -> dict[str, Any]:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"format": FORMAT, "name": job.name, "runner": job.runner, "spec": job.spec, "when": now}


def _format(path: Path) -> Any:
    """Return the format of a ``result.json``, or None where it cannot be told."""
    with suppress(ValueError, OSError, AttributeError):
        return json.loads(path.read_bytes()).get("format")
    return None


def _read_record(path: Path, job: Job) -> dict[str, Any] | None:
    """Return the content of a run's ``result.json``, or None where there is none."""
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
    identity = [record.get("format"), record.get("runner"), canonical(record.get("spec"))]
    if identity != [FORMAT, job.runner, canonical(job.spec)]:
        raise _Damaged(path, "it is the result of another run")
    return record


def _arrays_as_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the arrays as ``np.savez`` writes them, which itself has no room for names such as 'file'."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def _read_arrays(path: Path, checksum: str | None) -> dict[str, np.ndarray]:
    """Return the arrays that were stored together with the ``result.json`` that has their checksum."""
    if checksum is None:
        return {}
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _Damaged(path, "it is missing") from None
    if hashlib.sha256(data).hexdigest() != checksum:
        raise _Damaged(path, "its content is not what was stored")
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                arrays[name.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays
