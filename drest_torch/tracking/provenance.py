"""Record what a run was made with: versions, the commit, the machine and the command, in ``provenance.json``."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from drest_torch._version import __version__
from drest_torch.errors import FileError
from drest_torch.files import read_whole, write_json

FILE = "provenance.json"
PACKAGES = ("torch", "torchrl", "tensordict", "numpy", "numba")
"""The packages whose version can change a result."""


def provenance(device: torch.device, step: int = 0) -> dict[str, Any]:
    """Return what a session of a run is made with; ``step`` is where it begins: 0, or that of a checkpoint."""
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "step": step,
        "command": command(sys.orig_argv),
        "drest_torch": __version__,
        "git": git_state(Path(__file__).resolve().parents[2]),
        "python": platform.python_version(),
        "packages": {name: version_of(name) for name in PACKAGES},
        "platform": platform.platform(),
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "threads": torch.get_num_threads(),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "cuda": torch.version.cuda if device.type == "cuda" else None,
    }


def append_provenance(folder: Path, session: dict[str, Any]) -> None:
    """Add a session to the file in a run's folder, which has one for the start and for each time it was resumed."""
    write_json(folder / FILE, [*read_provenance(folder), session])


def read_provenance(folder: Path) -> list[dict[str, Any]]:
    """Return the sessions of a run, the first one first; none for a run that has not begun."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        sessions = json.loads(read_whole(path))
    except (ValueError, RecursionError):
        sessions = None
    if not isinstance(sessions, list):
        raise FileError(f"{path}: damaged; delete it, or put its last good copy there")
    return sessions


def command(words: Sequence[str]) -> str:
    """Return a command line as it was typed, without the folders of Python and of the command ``drest``."""
    program, *arguments = words
    if arguments and Path(arguments[0]).name == "drest":
        program, *arguments = arguments
    return shlex.join([Path(program).name, *arguments])


def git_state(checkout: Path) -> dict[str, Any] | None:
    """Return the commit, and whether any file differs from it or is new; None without a checkout or without git."""
    if not (checkout / ".git").exists():
        return None
    # Git may have been what called us, as in a hook, and may then mean another repository by these variables.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        status = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(checkout), "status", "--porcelain=v2", "--branch"],
            capture_output=True,
            check=True,
            env=environment,
            text=True,
            timeout=10,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    heads = [line for line in status if line.startswith("# ")]  # the first is "# branch.oid COMMIT"
    return {"commit": heads[0].split()[-1], "dirty": len(heads) < len(status)}


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
