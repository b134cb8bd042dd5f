"""What every test needs."""

import signal


def pytest_configure() -> None:
    """A process that a script starts in the background ignores Ctrl-C, and so would all that the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
