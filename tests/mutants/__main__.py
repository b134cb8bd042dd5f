"""Put each fault of `faults.yaml` into a copy of the project, and say which of them no test notices.

``python -m tests.mutants`` tries all of them, ``python -m tests.mutants reward envs`` those of files with such a word
in their path. The status is 1 if a fault survives, or if its line is no longer in the file.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("drest_torch", "envs", "algos", "configs", "tests", "docs", "benchmarks", "pyproject.toml", "README.md")


def main(words: list[str]) -> int:
    """Try the chosen faults; print one line for each."""
    faults = yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text(encoding="utf-8"))
    chosen = [path for path in faults if not words or any(word in path for word in words)]
    outcomes = []
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(["cp", "-RP", *COPIED, temporary], cwd=PROJECT, check=True)
        for path in chosen:
            for fault in faults[path]:
                outcomes.append(tried(Path(temporary), path, fault))
                print(f"{outcomes[-1]:9} {path}: {fault['was'].strip()} → {fault['is'].strip()}", flush=True)
    survived = len(outcomes) - outcomes.count("noticed")
    print(f"{len(outcomes)} faults, {survived} of them not noticed")
    return int(survived > 0)


def tried(copy: Path, path: str, fault: dict[str, str]) -> str:
    """Return whether a fault of a file was noticed, and leave the copy as it was."""
    file, tests = copy / path, fault["tests"].split()
    whole = file.read_text(encoding="utf-8")
    if whole.count(fault["was"]) != 1:
        return "not there"
    files = [path for name in tests for path in sorted((copy / "tests").rglob(f"test_{name}.py"))]
    if len(files) < len(tests):
        return "no test"
    file.write_text(whole.replace(fault["was"], fault["is"]), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile=mutants", *map(str, files)]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:  # a test that takes so long has failed
        return "noticed"
    finally:
        file.write_text(whole, encoding="utf-8")
    return {0: "SURVIVES", 1: "noticed"}.get(result.returncode, "no result")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
