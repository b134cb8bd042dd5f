"""A folder that stores the results of finished runs. A run is identified by everything that its result depends on.

We use this store instead of joblib.Memory or a database because its records are readable JSON, a result is complete or
absent even after a power failure, and the folder of a run also holds its checkpoints and output.
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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from drest_torch.errors import FileError
from drest_torch.files import MOST_BYTES, read_whole, write_json, write_whole
from drest_torch.jobs.job import Failure, Job, JobError, Result, canonical

_NAME_LENGTH = 100
"""The maximum number of characters of a run's name in a folder name; file systems allow 255 bytes."""
_RESULT, _ARRAYS, _FAILURE = "result.json", "result.npz", "failure.json"


class Store:
    """A folder with the finished runs of all studies, one subfolder for each run.

    The name of a run's folder ends in its digest, which identifies it. For human readers, it starts with the name
    that the first study gave to the run. A run is finished as soon as it has its ``result.json``.
    """

    def __init__(self, folder: Path, commit: str = "unknown") -> None:
        """Open the folder, for runs of the code of this commit."""
        self.commit_of_code = commit
        self.folder = folder.resolve()  # workers may have another working directory

    def folder_of(self, job: Job) -> Path:
        """Return the folder of the run's files, which need not exist yet."""
        ending = f"-{job.digest()}"
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = [name for name in os.listdir(self.folder) if name.endswith(ending)]
        new_name = _readable(job.name) + ending
        return self.folder / min(names, default=new_name)

    def get(self, job: Job) -> Result | None:
        """Return the run's result, or None if it has no usable one."""
        folder = self.folder_of(job)
        if not (folder / _RESULT).exists():
            return None
        try:
            record = _read_record(folder / _RESULT, job)
            arrays = _read_arrays(folder / _ARRAYS, record["arrays"])
            return Result(record["numbers"], arrays)
        except _Damaged as error:
            print(f"{error}; the run counts as not done", file=sys.stderr)
            return None

    def put(self, job: Job, result: Result, seconds: float) -> None:
        """Store a finished run, whose result is ``checked``; ``seconds`` is the processor time of all its sessions."""
        folder = self.folder_of(job)
        checksum = None
        if result.arrays:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **result.arrays)  # type: ignore[arg-type]
            data = buffer.getvalue()
            checksum = _checksum(data)
            write_whole(folder / _ARRAYS, data)
        record = _describe(job) | {"commit": self.commit_of_code, "seconds": seconds}
        record |= {"numbers": result.numbers, "arrays": checksum}
        record["content"] = _content(record)
        write_json(folder / _RESULT, record)  # written last: it marks the run as complete
        (folder / _FAILURE).unlink(missing_ok=True)

    def seconds(self, job: Job) -> float:
        """Return the processor time of all sessions of a finished run."""
        record = _read_record(self.folder_of(job) / _RESULT, job)
        return float(record["seconds"])

    def commit(self, job: Job) -> str:
        """Return the commit of the code that executed a finished run."""
        record = _read_record(self.folder_of(job) / _RESULT, job)
        return str(record.get("commit", "unknown"))  # runs of earlier versions have none

    def record_failure(self, failure: Failure) -> None:
        """Store why a run failed; the record is deleted when the run succeeds."""
        record = _describe(failure.job) | {"reason": failure.reason, "traceback": failure.traceback}
        write_json(self.folder_of(failure.job) / _FAILURE, record)

    @contextmanager
    def claimed(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Claim these jobs for this process; refuse if another process has claimed one of them.

        Two processes in the folder of one run would corrupt its checkpoints. A claim is a lock on one byte of one
        file, at an offset that depends on the digest. The system releases it when its process ends in any way.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "ab") as file:
            for job in jobs:
                offset = int(job.digest(), 16) >> 2  # within the 63 bits of a file's size
                if not _lock_byte(file.fileno(), offset):
                    raise JobError(f"{self.folder}: run '{job.name}' is running in another process; wait until it ends")
            yield


class _Damaged(JobError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: cannot be used, {reason}")


def _lock_byte(descriptor: int, place: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass  # a file system without locks: there the user must not start a study twice
    return True


def _readable(name: str) -> str:
    """Return a run's name in a form that can start the name of a folder."""
    text = re.sub(r"[^\w.,=+-]+", "-", name.replace("/", "."), flags=re.ASCII)
    return text[:_NAME_LENGTH].lstrip(".") or "run"


def _describe(job: Job) -> dict[str, Any]:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"name": job.name, "runner": job.runner, "spec": job.spec, "when": now}


def _content(record: dict[str, Any]) -> str:
    """Return the checksum of a run's results, which reveals changes of the file."""
    content = [record["numbers"], record["seconds"], record["arrays"]]
    return _checksum(canonical(content).encode())


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_record(path: Path, job: Job) -> dict[str, Any]:
    """Return the content of a run's ``result.json``; raise if the file was damaged or edited."""
    try:
        return _checked(json.loads(read_whole(path)), path, job)
    except _Damaged:
        raise
    except (ValueError, RecursionError) as error:
        raise _Damaged(path, f"it is damaged or truncated ({error})") from None


def _checked(record: Any, path: Path, job: Job) -> dict[str, Any]:
    """Return the record unchanged; raise if it was stored for another run."""
    match record:
        case {"numbers": dict(), "seconds": int() | float() as seconds, "arrays": str() | None} if 0 <= seconds < 1e12:
            pass
        case _:
            raise _Damaged(path, "it is not the result of a run")
    identity = [record.get("runner"), canonical(record.get("spec"))]
    if identity != [job.runner, canonical(job.spec)]:
        raise _Damaged(path, "it is the result of another run")
    if record.get("content") != _content(record):
        raise _Damaged(path, "its content is not what was stored")
    return dict(record)


def _read_arrays(path: Path, checksum: str | None) -> dict[str, np.ndarray]:
    """Return the arrays of a run; raise if their checksum is not the one in ``result.json``."""
    if checksum is None:
        return {}
    try:
        data = read_whole(path)
    except FileNotFoundError:
        raise _Damaged(path, "it is missing") from None
    except FileError as error:
        raise _Damaged(path, f"it cannot be read ({error})") from None
    if _checksum(data) != checksum:
        raise _Damaged(path, "its content is not what was stored")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            size = sum(info.file_size for info in arrays.zip.infolist())
            if size > MOST_BYTES:
                raise _Damaged(path, f"it unpacks to {size:,} bytes, but at most {MOST_BYTES:,} are read")
            return dict(arrays)
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise _Damaged(path, f"it holds no arrays ({error})") from None
