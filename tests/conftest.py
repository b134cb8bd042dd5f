"""Options, limits and fixtures of all tests."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

# Set before torch is loaded: threads that wait for each other sleep, and leave their core to other tests.
os.environ.setdefault("GOMP_SPINCOUNT", "0")

import hypothesis
import pytest
import pytest_timeout

from tests.helpers.commands import Done

SLOW_SECONDS = 1800
"""The timeout of a slow test; pyproject.toml has the timeout of other tests."""
IN_A_TURN = 3
"""The number of studies whose quick version a submission runs."""
EXPECTED_SKIPS = re.compile(
    "not installed|needs the extra|could not import|needs gymnasium|neither chromium|CUDA device|no bash|"
    "not a git checkout"
)
"""Reasons for which a test may be skipped; any other fails the session."""


# Few examples, the same each time, without a database of failures.
hypothesis.settings.register_profile(
    "tests",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("tests")
# Examples need no shrinking where only the failure counts.
hypothesis.settings.register_profile("mutants", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "of the slow tests those marked `every_turn`, and three studies: others with each commit"
    parser.addoption("--turn", action="store_true", help=words)


def pytest_configure() -> None:
    """Restore Ctrl-C: a background process of a script ignores it, and so would its child processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all cases of mostly slow tests but the first as slow; with ``--turn``, select the tests of a submission."""
    begun = set()
    for item in items:
        if item.get_closest_marker("mostly_slow"):
            test = item.nodeid.partition("[")[0]
            if test in begun:
                item.add_marker(pytest.mark.slow)
            begun.add(test)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
    if config.getoption("--turn"):
        studies = [item for item in items if item.get_closest_marker("in_turn")]
        command = ["git", "rev-list", "--count", "HEAD"]
        commits = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        first = IN_A_TURN * int(commits.stdout or 0)  # nothing is printed outside a checkout
        selected = {studies[(first + index) % len(studies)] for index in range(IN_A_TURN)} if studies else set()
        selected |= {item for item in items if item.get_closest_marker("every_turn")}
        config.hook.pytest_deselected(items=[item for item in items if item not in selected])
        items[:] = [item for item in items if item in selected]


def pytest_collection_finish() -> None:
    """Exclude what is loaded now from garbage collections, which take up to a fifth of the time otherwise."""
    gc.freeze()


AGAIN = 5.0
"""Seconds until a test is stopped again: an exception in a callback of the garbage collector is lost."""


class Stuck(BaseException):
    """The timeout of a test; no `Exception`, because Hypothesis would catch that and repeat the example without end."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Stop a test that takes too long; pytest-timeout does so on other platforms and threads."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None

    def stop(*_: object) -> None:
        if not pytest_timeout.is_debugging():
            raise Stuck(f"the test took more than {settings.timeout:g} s; the stack says where it was")

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN)
    item.cancel_timeout = cancel  # type: ignore[attr-defined]
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Cancel the timer of a test that was stopped."""
    if call.excinfo is not None and call.excinfo.errisinstance(Stuck):
        item.cancel_timeout()  # type: ignore[attr-defined]


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """Return a function that runs the main function of a command in this process and an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["command", *arguments])
        try:
            code = main() or 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return Done(code, *capsys.readouterr())

    return run


def _skipped(config: pytest.Config) -> Counter[str]:
    reports = config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", [])
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if exitstatus == 0 and not is_worker and not all(map(EXPECTED_SKIPS.search, _skipped(session.config))):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = _skipped(config)
    if skipped:
        terminalreporter.section("skipped, by reason")
    for reason, count in skipped.most_common():
        note = "" if EXPECTED_SKIPS.search(reason) else "   NOT EXPECTED (tests/conftest.py)"
        terminalreporter.write_line(f"{count:5}  {reason}{note}")
