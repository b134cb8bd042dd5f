"""Insert each fault of `faults.yaml` into a copy of the project, and print the faults that no test detects.

``python -m tests.mutants`` tries all of them; ``python -m tests.mutants reward envs`` tries those in files with one of
these words in their path. The exit status is 1 if a fault survives, if its tests do not end, or if its text is no
longer in the file.

The list is a regression test: it contains faults that were detected once. ``python -m tests.mutants --power FILE``
estimates the share of new faults that the tests detect (`power`).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tests.mutants.power import FAST
from tests.mutants.power import main as power

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("drest_torch", "envs", "algos", "configs", "tests", "docs", "benchmarks", "pyproject.toml", "README.md")
SECONDS = 600


def main(words: list[str]) -> int:
    """Try the selected faults; print a line for each."""
    if words[:1] == ["--power"]:
        return power(words[1:])
    faults = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
    chosen = [path for path in faults if not words or any(word in path for word in words)]
    outcomes = []
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(["cp", "-RP", *COPIED, temporary], cwd=PROJECT, check=True)
        copy = Path(temporary)
        named = dict.fromkeys(name for path in chosen for fault in faults[path] for name in fault["tests"].split())
        status = status_of(copy, [file for name in named for file in files_of(copy, name)])
        if status != 0:
            print(f"without a fault the tests {'do not end' if status is None else 'fail'}; fix them first")
            return 1
        for path in chosen:
            for fault in faults[path]:
                outcomes.append(tried(copy, path, fault))
                print(f"{outcomes[-1]:9} {path}: {fault['was'].strip()} → {fault['is'].strip()}", flush=True)
    survived = len(outcomes) - outcomes.count("noticed")
    print(f"{len(outcomes)} faults, {survived} of them not noticed")
    return int(survived > 0)


def tried(copy: Path, path: str, fault: dict[str, str]) -> str:
    """Return the outcome of a fault, and restore the copy."""
    file, tests = copy / path, fault["tests"].split()
    whole = file.read_text(encoding="utf-8")
    if whole.count(fault["was"]) != 1:
        return "not there"
    files = [path for name in tests for path in files_of(copy, name)]
    if len(files) < len(tests):
        return "no test"
    file.write_text(whole.replace(fault["was"], fault["is"]), encoding="utf-8")
    try:
        status = status_of(copy, files)
    finally:
        file.write_text(whole, encoding="utf-8")
    return "timeout" if status is None else {0: "SURVIVES", 1: "noticed"}.get(status, "no result")


def files_of(copy: Path, name: str) -> list[Path]:
    """Return the test files with this name."""
    return sorted((copy / "tests").rglob(f"test_{name}.py"))


def status_of(copy: Path, files: list[Path]) -> int | None:
    """Run the tests of `make test` in these files; return the exit status, None if they do not end."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", FAST]
    command += ["--hypothesis-profile=mutants", *map(str, files)]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
