"""Atomic writes, and safe reads of untrusted files. All files of the project are written here."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from drest_torch.errors import FileError, UserError


def write_whole(path: Path, data: bytes, refusal: Callable[[str], UserError] | None = None) -> None:
    """Write a file atomically: after a crash it has its complete old or new content.

    Missing parent folders are created. A link at ``path`` is replaced; its target is not changed. ``refusal`` returns
    the error to raise, from the reason of a failure.
    """
    # The random name and the mode "x" protect against other processes and links.
    if not path.name:
        raise FileError(f"'{path}': is not the path of a file; expected one that ends in a name")
    with suppress(OSError):
        kind = path.lstat().st_mode
        # For a folder, the error is raised below.
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind) or stat.S_ISDIR(kind)):
            raise FileError(f"{path}: is not a regular file; expected the path of a file or of a new one")
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        reason = str(error.strerror)
        if refusal is not None:
            raise refusal(reason) from None
        raise FileError(f"{path}: cannot be written ({reason}); the previous content is unchanged") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text atomically, in UTF-8."""
    write_whole(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value atomically, as indented JSON."""
    write_text(path, json.dumps(value, indent=2) + "\n")


MOST_BYTES = 1 << 30
"""The largest size of a file to read."""


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file, or a link to one; refuse pipes and devices, which may never end."""
    # Do not wait for a writer of a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):  # `open` does not name a folder in its error
        os.close(descriptor)
        raise FileError(f"{path}: is not a regular file; expected one")
    with open(descriptor, "rb") as file:
        if status.st_size > most:
            raise FileError(f"{path}: {status.st_size:,} bytes; expected at most {most:,}")
        return file.read(most)


def remove_partial(folder: Path) -> None:
    """Delete the partial files of killed writes in a folder, which this process must have locked."""
    for parent, folders, names in os.walk(folder):  # links are not followed
        # Skip folders with a lock: another process may write to the run there.
        folders[:] = [inner for inner in folders if not (Path(parent) / inner / LOCK).exists()]
        for name in names:
            if re.fullmatch(r"\.[0-9a-f]{16}\.partial", name):
                with suppress(OSError):
                    (Path(parent) / name).unlink()


def unused(name: str, pattern: str, used: set[str]) -> str:
    """Return a name that is unused even if case is ignored, and add it to ``used``; ``pattern`` adds a number to the
    name."""
    number, free = 1, name
    while free.casefold() in used:
        number += 1
        free = pattern.format(name, number)
    used.add(free.casefold())
    return free


MOST_NAMES = 2000
"""The largest number of metrics in a line; runs of this project have some dozens."""


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the rows of a file of metrics (`drest_torch.tracking.sinks.JsonLines`), with null as NaN.

    Incomplete lines and values that are not numbers are skipped.
    """
    if not path.exists():
        return []
    rows = []
    for line in read_whole(path).decode(errors="replace").split("\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and len(row) <= MOST_NAMES and _is_number(row.get("step"), int):
            numbers = {name: math.nan if value is None else value for name, value in row.items()}
            rows.append({name: value for name, value in numbers.items() if _is_number(value, int | float)})
    return rows


def _is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and not abs(value) >= 2**1023


LOCK = ".lock"
"""The lock file of a folder."""
_locks: dict[Path, int] = {}
"""The locks of this process, by folder."""


def lock_folder(folder: Path, refusal: Callable[[], UserError]) -> bool:
    """Lock a folder for writing, or raise the refusal if another process has locked it.

    Return False if this process has locked it before.

    The lock ends with the process, however it ends, or with `unlock_folder`. It works over NFS; on a file system
    without locks every process is admitted.
    """
    folder = folder.resolve()
    if folder in _locks:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise FileError(f"{folder}: cannot be written to ({error.strerror}); choose another folder") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise refusal() from None
    except OSError:
        pass
    _locks[folder] = descriptor
    return True


def unlock_folder(folder: Path) -> None:
    """Release the lock of a folder."""
    if (descriptor := _locks.pop(folder.resolve(), None)) is not None:
        os.close(descriptor)


def open_streams() -> None:
    """Open missing standard streams, and replace characters that an output cannot encode."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed: the next opened file would get its number
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
        elif number and isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # such as arrows, on some terminals


def flush_output() -> int:
    """Write the buffered output; return 0, or 2 with a message if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return no_output(error)
    return 0


def no_output(error: OSError) -> int:
    """Report a failed output and return 2, or return 0 if its reader, such as `head`, has ended."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # prevents a second attempt at exit
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"drest_torch: the output cannot be written ({error.strerror})", file=sys.stderr)
    return 2
