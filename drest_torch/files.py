"""Files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from drest_torch.errors import FileError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that, whatever happens, it is found as it was before or complete."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror}); what was there before is untouched") from None
    finally:
        with suppress(OSError):
            partial.unlink()


def write_json(path: Path, value: Any) -> None:
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())
