"""Put each fault of `faults.yaml` into a copy of the project, and say which of them no test notices.

``python -m tests.mutants`` tries all of them, ``python -m tests.mutants reward envs`` those of files with such a word
in their path. The status is 1 if a fault survives, or if its line is no longer in the file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("drest_torch", "envs", "algos", "configs", "tests", "docs", "benchmarks", "pyproject.toml", "README.md")
SECONDS = 600
"""A test that takes longer has failed."""


@dataclass(frozen=True)
class Fault:
    """A small fault."""

    path: str
    before: str
    after: str
    tests: list[str]


def faults() -> list[Fault]:
    """Return all faults."""
    files = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
    return [
        Fault(path, entry["was"], entry["is"], entry["tests"].split())
        for path, entries in files.items()
        for entry in entries
    ]


def main(words: list[str]) -> int:
    """Try the chosen faults; print one line for each."""
    chosen = [fault for fault in faults() if not words or any(word in fault.path for word in words)]
    outcomes = []
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "copy"
        copy.mkdir()
        for name in COPIED:
            if (PROJECT / name).is_dir():
                shutil.copytree(PROJECT / name, copy / name, symlinks=True)
            else:
                shutil.copy(PROJECT / name, copy / name)
        for fault in chosen:
            outcomes.append(tried(fault, copy))
            print(f"{outcomes[-1]:9} {fault.path}: {fault.before.strip()} → {fault.after.strip()}", flush=True)
    survived = len(outcomes) - outcomes.count("noticed")
    print(f"{len(outcomes)} faults, {survived} of them not noticed")
    return int(survived > 0)


def tried(fault: Fault, copy: Path) -> str:
    """Return whether a fault was noticed, and leave the copy as it was."""
    file = copy / fault.path
    whole = file.read_text(encoding="utf-8")
    if whole.count(fault.before) != 1:
        return "not there"
    files = [path for name in fault.tests for path in sorted((copy / "tests").rglob(f"test_{name}.py"))]
    if len(files) < len(fault.tests):
        return "no test"
    file.write_text(whole.replace(fault.before, fault.after), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=mutants", *map(str, files)]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "noticed"
    finally:
        file.write_text(whole, encoding="utf-8")
    return {0: "SURVIVES", 1: "noticed"}.get(result.returncode, "no result")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
