"""The one place where files are written whole or not at all."""

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
    """Write a file so that, whatever happens, it is found as it was before or complete.

    Make the folders above it where they are missing. A link at ``path`` is replaced, and what it leads to stays.
    ``refusal`` makes the error to raise from the reason for which the file cannot be written.
    """
    # Of a random name and made anew: neither another process nor a link can stand in its place.
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        why = str(error.strerror)
        if refusal is not None:
            raise refusal(why) from None
        raise FileError(f"{path}: cannot be written ({why}); what was there before is untouched") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all."""
    write_whole(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2) + "\n")
