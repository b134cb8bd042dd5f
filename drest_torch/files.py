"""Write files whole or not at all, and read those of strangers. All files of the project are written here."""

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
    """Write a file atomically: after a crash it has its old content or the new one, complete.

    Missing parent folders are created. A link at ``path`` is replaced; its target is not changed. ``refusal`` makes the
    error to raise, from the reason for which the file cannot be written.
    """
    # The name is random and the file must be new: neither another process nor a link can take its place.
    if not path.name:
        raise FileError(f"'{path}': is the path of no file; expected one that ends in a name")
    with suppress(OSError):
        kind = path.lstat().st_mode
        # A folder cannot be replaced by a file, and the error below says so.
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind) or stat.S_ISDIR(kind)):
            raise FileError(f"{path}: is no regular file; expected the path of a file, or of one that is not there yet")
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
        raise FileError(f"{path}: cannot be written ({reason}); what was there before is untouched") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all."""
    write_whole(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2) + "\n")


MOST_BYTES = 1 << 30
"""The largest file that is read whole."""


def read_whole(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file, or a link to one. A pipe or a device could go on for ever, and is refused."""
    # Without waiting for somebody to write to a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):  # `open` has no name for a folder in its error
        os.close(descriptor)
        raise FileError(f"{path}: is no regular file; expected one")
    with open(descriptor, "rb") as file:
        if found.st_size > most:
            raise FileError(f"{path}: {found.st_size:,} bytes; expected at most {most:,}")
        return file.read(most)


def remove_partial(folder: Path) -> None:
    """Delete what writes that were cut off by a kill have left in a folder; call it as the owner of the folder."""
    for parent, folders, names in os.walk(folder):  # no link is followed
        # Another process may be writing in the folder of another run.
        folders[:] = [inner for inner in folders if not (Path(parent) / inner / LOCK).exists()]
        for name in names:
            if re.fullmatch(r"\.[0-9a-f]{16}\.partial", name):
                with suppress(OSError):
                    (Path(parent) / name).unlink()


def unused(name: str, pattern: str, used: set[str]) -> str:
    """Return a name that is not used yet, whatever its case, and add it: ``pattern`` has a place for a number, too."""
    number, free = 1, name
    while free.casefold() in used:
        number += 1
        free = pattern.format(name, number)
    used.add(free.casefold())
    return free


MOST_NAMES = 2000
"""The most metrics that a line may have; ours have some dozens."""


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the rows of a file of metrics (`drest_torch.tracking.sinks.JsonLines`), with null as NaN.

    Incomplete lines, and what is no number, are left out.
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
"""The file in a folder by which a process owns it."""
_owned: dict[Path, int] = {}
"""The locks that this process holds, by folder."""


def own(folder: Path, refusal: Callable[[], UserError]) -> None:
    """Make this process the only one that writes to a folder, or raise the refusal if another one is.

    The lock ends with the process, however it ends, or with `disown`. It works over NFS; on a file system without locks
    every process is let in.
    """
    folder = folder.resolve()
    if folder in _owned:
        return
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
    _owned[folder] = descriptor


def disown(folder: Path) -> None:
    """Let others write to a folder again."""
    if (descriptor := _owned.pop(folder.resolve(), None)) is not None:
        os.close(descriptor)


def open_streams() -> None:
    """Give the program an input and outputs where it was started without, and let them show what they can."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed: the next file to be opened would take its place
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
        elif number and isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows shows question marks


def flush_output() -> int:
    """Write the rest of the output; return 2, after a sentence, if there is no room for it, and otherwise 0."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return no_output(error)
    return 0


def no_output(error: OSError) -> int:
    """Say why the output cannot be written, and return 2; where the reader, such as `head`, has ended, return 0."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tries again, and complains
    if isinstance(error, BrokenPipeError):
        return 0
    print(f"drest_torch: the output cannot be written ({error.strerror})", file=sys.stderr)
    return 2
