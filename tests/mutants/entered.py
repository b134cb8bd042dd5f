"""A pytest plugin that records the lines of the project that each test executes, also in subprocesses.

``python -m tests.mutants --power`` loads it. The lines of a fixture count for its tests. A subprocess knows its test
from a variable that pytest sets, and starts recording because a folder with this file as ``sitecustomize.py`` is on its
path. Only the standard library is imported here.
"""

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from pathlib import Path

ROOT = os.environ.get("ENTERED_ROOT", "")
OUT = os.environ.get("ENTERED_OUT", "")
CALLS = 200
"""The number of calls of a function within a test that are traced line by line; further calls add few lines."""

lines: dict = {}
"""The lines executed in the current interval, by file."""
calls: dict = {}
files: dict = {}


def traced(frame, event, argument):
    """Trace calls of the project's functions; ignore others."""
    code = frame.f_code
    file = files.get(code.co_filename, 0)
    if file == 0:
        file = files[code.co_filename] = _of_project(code.co_filename)
    if file is None:
        return None
    entered = lines.setdefault(file, set())
    entered.add(code.co_firstlineno)
    count = calls[code] = calls.get(code, 0) + 1
    if count > CALLS:
        return None
    add = entered.add

    def line(frame, event, argument):
        add(frame.f_lineno)
        return line

    return line


def _of_project(name):
    """Return the real path of a file of the product, relative to the project; None for other files."""
    real = os.path.realpath(name)
    if not real.startswith(ROOT + os.sep):
        return None
    path = os.path.relpath(real, ROOT)
    return path if path.split(os.sep)[0] in ("drest_torch", "envs", "algos", "configs") else None


def begin():
    """Start tracing in all threads."""
    threading.settrace(traced)
    sys.settrace(traced)


def taken():
    """Return and clear the lines executed since the last call."""
    executed = {file: sorted(numbers) for file, numbers in lines.items()}
    lines.clear()
    calls.clear()
    return executed


# ------------------------------------------------------------------------------------------------- in a subprocess


class _WrittenLines(set):
    """Lines of a file, which are written at once, because a subprocess can be killed at any time."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def add(self, number):
        """Write a new line with the test of the process."""
        if number not in self:
            super().add(number)
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
            os.write(_records(), (json.dumps([test, self.file, number]) + "\n").encode())


class _WrittenFiles(dict):
    """The written lines of each file."""

    def setdefault(self, file, default=None):
        """Return the written lines of a file."""
        if file not in self:
            self[file] = _WrittenLines(file)
        return self[file]


def _records():
    """Return the descriptor of this process's file of records."""
    if os.getpid() not in records:
        name = Path(OUT, f"{uuid.uuid4().hex}.jsonl")
        records[os.getpid()] = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return records[os.getpid()]


def _forked():
    """Start new records in a forked child; the lines so far belong to its parent."""
    global lines
    lines = _WrittenFiles()
    calls.clear()


records: dict = {}
parent = os.environ.get("ENTERED_PARENT")
if OUT and ROOT and parent:
    if parent != str(os.getpid()):
        lines = _WrittenFiles()
        begin()
    os.register_at_fork(after_in_child=_forked)


# ------------------------------------------------------------------------------------------------------- in pytest

of_fixtures: dict = {}
of_tests: dict = {}
failed: set = set()

if "pytest" in sys.modules:
    import pytest

    def pytest_configure(config):
        """Prepare recording in this process and in subprocesses."""
        os.environ["ENTERED_PARENT"] = str(os.getpid())
        folder = Path(OUT, "path")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sitecustomize.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(folder)])
        os.register_at_fork(after_in_child=_forked)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(fixturedef, request):
        """Record the lines of a shared fixture for all its tests."""
        if fixturedef.scope == "function":
            return (yield)
        before = dict(lines)
        lines.clear()
        try:
            return (yield)
        finally:
            for file, numbers in lines.items():
                of_fixtures.setdefault(fixturedef.argname, {}).setdefault(file, set()).update(numbers)
            lines.clear()
            lines.update(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(item, nextitem):
        """Record the lines of a test."""
        lines.clear()
        calls.clear()
        began = time.perf_counter()
        begin()
        try:
            return (yield)
        finally:
            sys.settrace(None)
            seconds = time.perf_counter() - began
            of_tests[item.nodeid] = {
                "seconds": round(seconds, 3),
                "fixtures": list(getattr(item, "fixturenames", ())),
                "lines": taken(),
                "passes": item.nodeid not in failed,
            }

    def pytest_runtest_logreport(report):
        """Remember the tests that fail without a fault."""
        if report.failed:
            failed.add(report.nodeid)

    def pytest_sessionfinish(session):
        """Write all records to one file."""
        for path in Path(OUT).glob("*.jsonl"):
            for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # the last line of a process that was killed
                    test, file, number = json.loads(text)
                    if test in of_tests:
                        of_tests[test]["lines"].setdefault(file, []).append(number)
            path.unlink()
        for record in of_tests.values():
            for name in record.pop("fixtures"):
                for file, numbers in of_fixtures.get(name, {}).items():
                    record["lines"][file] = sorted({*record["lines"].get(file, ()), *numbers})
        Path(OUT, "entered.json").write_text(json.dumps(of_tests))
