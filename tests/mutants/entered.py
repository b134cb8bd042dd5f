"""A plugin for pytest: which lines of the project each test enters, in its subprocesses too.

``python -m tests.mutants --power`` loads it. A test enters what its fixtures enter. A subprocess knows its test from
the variable that pytest sets, and starts recording because a folder with this file as ``sitecustomize.py`` is on its
path. Nothing outside Python's own library is imported here.
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
"""Of one function within a test that are followed line by line; a function that runs often runs through its lines."""

lines: dict = {}
"""The lines entered in the current stretch, by file."""
calls: dict = {}
files: dict = {}


def traced(frame, event, argument):
    """Follow a call into the project; all else is left alone."""
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
    """Return the path of a file within the project, links followed; None for tests and for everything else."""
    real = os.path.realpath(name)
    if not real.startswith(ROOT + os.sep):
        return None
    path = os.path.relpath(real, ROOT)
    return path if path.split(os.sep)[0] in ("drest_torch", "envs", "algos", "configs") else None


def begin():
    """Follow all threads from here on."""
    threading.settrace(traced)
    sys.settrace(traced)


def taken():
    """Return the lines entered since the last time, and forget them."""
    found = {file: sorted(numbers) for file, numbers in lines.items()}
    lines.clear()
    calls.clear()
    return found


# ------------------------------------------------------------------------------------------------- in a subprocess


class _Told(set):
    """Lines of a file, each written at once when it is new, as a subprocess can be killed at any time."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def add(self, number):
        """Write the line, with the test that the process belongs to."""
        if number not in self:
            super().add(number)
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
            os.write(_records(), (json.dumps([test, self.file, number]) + "\n").encode())


class _ToldLines(dict):
    def setdefault(self, file, default=None):
        """Return the lines of a file, which are written."""
        if file not in self:
            self[file] = _Told(file)
        return self[file]


def _records():
    """Return the file of this process."""
    if os.getpid() not in records:
        name = Path(OUT, f"{uuid.uuid4().hex}.jsonl")
        records[os.getpid()] = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    return records[os.getpid()]


def _forked():
    """Record a child that was forked: its parent keeps what was entered before."""
    global lines
    lines = _ToldLines()
    calls.clear()


records: dict = {}
parent = os.environ.get("ENTERED_PARENT")
if OUT and ROOT and parent:
    if parent != str(os.getpid()):
        lines = _ToldLines()
        begin()
    os.register_at_fork(after_in_child=_forked)


# ------------------------------------------------------------------------------------------------------- in pytest

of_fixtures: dict = {}
of_tests: dict = {}
failed: set = set()

if "pytest" in sys.modules:
    import pytest

    def pytest_configure(config):
        """Begin to record, here and in subprocesses."""
        os.environ["ENTERED_PARENT"] = str(os.getpid())
        folder = Path(OUT, "path")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sitecustomize.py").write_text(Path(__file__).read_text(encoding="utf-8"), encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(folder)])
        os.register_at_fork(after_in_child=_forked)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(fixturedef, request):
        """Record what a fixture of more than one test enters, for all tests that use it."""
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
        """Record one test."""
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
        """Remember which tests fail without a fault."""
        if report.failed:
            failed.add(report.nodeid)

    def pytest_sessionfinish(session):
        """Write everything into one file."""
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
