"""What every test needs."""

import signal

import pytest


def pytest_configure() -> None:
    """A process that a script starts in the background ignores Ctrl-C, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test that is mostly slow, the first case runs with the fast tests."""
    begun = set()
    for item in items:
        if item.get_closest_marker("mostly_slow"):
            test = item.nodeid.partition("[")[0]
            if test in begun:
                item.add_marker(pytest.mark.slow)
            begun.add(test)
