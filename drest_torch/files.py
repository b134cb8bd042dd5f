"""Write files whole or not at all. All files of the project are written here."""

from __future__ import annotations

import json
import os
import secrets
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
