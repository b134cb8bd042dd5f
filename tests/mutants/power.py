"""Measure the share of faults that the fast tests detect: ``python -m tests.mutants --power FILE``.

``FILE`` is a YAML list of faults, each with ``room``, ``path``, ``was`` (a text that occurs once in the file), ``is``,
and a line ``why``. A first run of the fast tests records the lines that each test executes (`entered`); it takes a
while. Then each fault is inserted into a copy of the project, and the tests that execute its lines run, the fastest
files first. A fault survives if no test executes it, or if no test fails within `SECONDS` of processor time.

``--in FOLDER`` stores the copy and the record in a folder, and reuses them.
"""

from __future__ import annotations

import ast
import compileall
import contextlib
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
FAST = "not slow and not gpu and not benchmark"
SECONDS, SECONDS_BESIDE, SECONDS_TO_HANG = 150.0, 20.0, 900.0
"""Processor seconds for the tests of a fault and for other tests in their files; wall-clock seconds until a hang."""
LIBRARIES = (
    "torch",
    "torchrl.envs",
    "torchrl.objectives",
    "numba",
    "pandas",
    "matplotlib.figure",
    "hypothesis",
    "hydra",
)
"""Libraries that are imported once for all faults."""


def main(words: list[str]) -> int:
    """Measure the faults of a file; print a line for each, and the share of each room."""
    folder = Path(words[words.index("--in") + 1]) if "--in" in words else None
    if folder is not None:
        del words[words.index("--in") : words.index("--in") + 2]
    faults = yaml.safe_load(Path(words[0]).read_text(encoding="utf-8"))
    faults = [fault for fault in faults if not words[1:] or fault["room"] in words[1:]]
    with contextlib.ExitStack() as stack:
        if folder is None:
            from tempfile import TemporaryDirectory

            folder = Path(stack.enter_context(TemporaryDirectory()))
        copy, record = folder / "copy", folder / "entered.json"
        if not record.exists():
            copied(copy)
            recorded(copy, record)
        tests = {name: of for name, of in json.loads(record.read_text()).items() if of["passes"]}
        compileall.compile_dir(copy, quiet=1, workers=1)
        for library in LIBRARIES:
            importlib.import_module(library)
        results = []
        for fault in faults:
            results.append(tried(copy, folder, fault, tests))
            outcome, by, seconds = results[-1]
            print(f"{outcome:8} {fault['room']:13} {fault['path']}: {fault['why']} [{by}, {seconds:.0f} s]", flush=True)
    return report(faults, [outcome for outcome, *_ in results])


def report(faults: list[dict[str, str]], outcomes: list[str]) -> int:
    """Print the share of each room; return 1 if less than 95 % are detected, or less than 80 % in a room."""
    total = Counter(fault["room"] for fault in faults)
    noticed = Counter[str]()
    for fault, outcome in zip(faults, outcomes, strict=True):
        noticed[fault["room"]] += outcome == "noticed"
    print()
    for room, number in total.items():
        print(f"{room:13} {noticed[room]:3} of {number}")
    print(f"{'all':13} {noticed.total():3} of {total.total()} ({noticed.total() / max(1, total.total()):.0%})")
    is_weak = any(noticed[room] < 0.8 * number for room, number in total.items())
    return int(is_weak or noticed.total() < 0.95 * total.total())


def copied(copy: Path) -> None:
    """Copy the files of the project that git does not ignore, with uncommitted changes."""
    copy.mkdir(parents=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=PROJECT, check=True, capture_output=True, text=True).stdout.splitlines()
    existing = "\n".join(name for name in names if os.path.lexists(PROJECT / name))
    subprocess.run(["tar", "-cf", f"{copy}.tar", "-T", "-"], cwd=PROJECT, check=True, input=existing, text=True)
    subprocess.run(["tar", "-xf", f"{copy}.tar", "-C", str(copy)], check=True)
    Path(f"{copy}.tar").unlink()


def recorded(copy: Path, record: Path) -> None:
    """Run the fast tests once, and record the lines that each executes."""
    environment = os.environ | {"PYTHONPATH": str(copy), "ENTERED_ROOT": str(copy), "ENTERED_OUT": str(record.parent)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.mutants.entered"]
    subprocess.run([*command, "-m", FAST], cwd=copy, env=environment, check=False)


# ------------------------------------------------------------------------------------------------------ one fault


def tried(copy: Path, folder: Path, fault: dict[str, str], tests: dict[str, Any]) -> tuple[str, str, float]:
    """Try a fault, restore the copy, and return the outcome, the detecting test or the reason, and the seconds."""
    file, began = copy / fault["path"], time.monotonic()
    whole, stamp = file.read_text(encoding="utf-8"), file.stat()
    if whole.count(fault["was"]) != 1:
        return "absent", "its text does not occur once in the file", 0.0
    chosen = that_enter(fault, whole, tests)
    if not chosen:
        return "SURVIVES", "no fast test executes it", 0.0
    plan, out = folder / "chosen.json", folder / "outcome.txt"
    plan.write_text(json.dumps({"tests": chosen, "seconds": SECONDS, "out": str(out)}), encoding="utf-8")
    out.unlink(missing_ok=True)
    file.write_text(whole.replace(fault["was"], fault["is"]), encoding="utf-8")
    try:
        process = multiprocessing.get_context("fork").Process(target=_test, args=(copy, plan, chosen, folder))
        process.start()
        process.join(SECONDS_TO_HANG)
        hangs = process.is_alive()
        process.kill()
        process.join()
    finally:
        file.write_text(whole, encoding="utf-8")
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    seconds, by = time.monotonic() - began, out.read_text(encoding="utf-8") if out.exists() else ""
    if hangs:
        return "timeout", "a test does not end", seconds
    if process.exitcode == 0 or by == "time":
        return "SURVIVES", f"{len(chosen)} tests" + " in part" * (by == "time"), seconds
    return "noticed", by or f"exit status {process.exitcode}", seconds


def _test(copy: Path, plan: Path, chosen: list[str], folder: Path) -> None:
    """Run the chosen tests in this process, which ends with them."""
    import pytest

    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "CHOSEN": str(plan)}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(copy), *(place for place in sys.path if Path(place or ".").resolve() != PROJECT)]
    for name in [name for name in sys.modules if name == "tests" or name.startswith(("tests.", "drest_torch"))]:
        del sys.modules[name]
    files = list(dict.fromkeys(name.partition("::")[0] for name in chosen))
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.mutants.chosen"]
    os._exit(int(pytest.main([*options, "--hypothesis-profile=mutants", *files])))


def that_enter(fault: dict[str, str], whole: str, tests: dict[str, Any]) -> list[str]:
    """Return the tests that execute the statement of a fault, then those that execute its function, the fastest first.

    Other tests in the same files follow, because tests may share cached results.
    """
    path = fault["path"]
    first = whole[: whole.index(fault["was"])].count("\n") + 1
    statement, function = place_of(ast.parse(whole), first, first + fault["was"].rstrip("\n").count("\n"))
    lines = {name: {*of["lines"].get(path, ())} for name, of in tests.items()}
    if function is None:  # executed during the import of the module
        importing = importers(fault["path"])
        chosen = [[name for name, of in tests.items() if of["lines"].keys() & importing]]
    else:
        chosen = [[name for name in tests if lines[name] & {*numbers}] for numbers in (statement, function)]
    ordered = list(dict.fromkeys(name for names in chosen for name in in_order(names, tests)))
    modules, beside, seconds = {name.partition("::")[0] for name in ordered}, [], 0.0
    for name in in_order([name for name in tests if name not in ordered], tests):
        if name.partition("::")[0] in modules and seconds + tests[name]["seconds"] < SECONDS_BESIDE:
            beside.append(name)
            seconds += tests[name]["seconds"]
    return ordered + beside


def in_order(names: list[str], tests: dict[str, Any]) -> list[str]:
    """Return tests file by file, the files with the fastest tests first."""
    by_file: dict[str, list[str]] = {}
    for name in names:
        by_file.setdefault(name.partition("::")[0], []).append(name)

    def mean(in_file: list[str]) -> float:
        return sum(tests[name]["seconds"] for name in in_file) / len(in_file)

    return [name for in_file in sorted(by_file.values(), key=mean) for name in in_file]


def place_of(tree: ast.Module, first: int, last: int) -> tuple[range, range | None]:
    """Return the lines of the innermost statement with these lines, and of its function, if any."""
    statement, function = range(first, last + 1), None
    for node in ast.walk(tree):  # outer nodes come first
        if not isinstance(node, ast.stmt) or not node.lineno <= first <= (node.end_lineno or 0):
            continue
        body = getattr(node, "body", [])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body[0].lineno <= first:
            function = range(body[0].lineno, (node.end_lineno or 0) + 1)
        elif not body or first < body[0].lineno:
            statement = range(node.lineno, max(last, (node.end_lineno or 0) if not body else body[0].lineno - 1) + 1)
    return statement, function


def importers(path: str) -> set[str]:
    """Return a file and the files that import it."""
    module = path.removesuffix(".py").replace("/", ".")
    module = module if module.startswith("drest_torch") else f"drest_torch.{module}"
    package, _, name = module.rpartition(".")
    paths = {path}
    for folder in ("drest_torch", "envs", "algos"):
        for file in (PROJECT / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if f"{module} import" in text or f"from {package} import {name}" in text:
                paths.add(str(file.relative_to(PROJECT)))
    return paths
