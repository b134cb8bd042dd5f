"""The provenance of a run, in ``provenance.json``: versions, commit, machine and command."""

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
"""Packages whose version can change a result."""


def provenance(device: torch.device, step: int = 0) -> dict[str, Any]:
    """Return the provenance of a session that begins at ``step``: 0, or the step of a checkpoint."""
    gpu = cuda = None
    if device.type == "cuda":
        gpu, cuda = torch.cuda.get_device_name(device), torch.version.cuda
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
        "gpu": gpu,
        "cuda": cuda,
    }


def append_provenance(folder: Path, session: dict[str, Any]) -> None:
    """Append a session to the file in a run's folder: one for the start, and one for each resumption."""
    write_json(folder / FILE, [*read_provenance(folder), session])


def read_provenance(folder: Path) -> list[dict[str, Any]]:
    """Return the sessions of a run in order; the list is empty if none are recorded."""
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
    """Return a command line as typed, without the folders of Python and ``drest``."""
    program, *arguments = words
    if arguments and Path(arguments[0]).name == "drest":
        program, *arguments = arguments
    return shlex.join([Path(program).name, *arguments])


def git_state(checkout: Path) -> dict[str, Any] | None:
    """Return the commit, and whether the checkout has changed or new files; None if there is no checkout or no git."""
    if not (checkout / ".git").exists():
        return None
    # In a hook, Git sets these variables, which can refer to another repository.
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
