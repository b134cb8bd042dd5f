"""A pytest plugin that runs a list of tests in order until one fails or the time is over.

``CHOSEN`` is the path of a JSON object with ``tests``, processor ``seconds``, and ``out``, the file for the name of the
test that failed, or ``time`` if the time was over first.
"""

import json
import os
import time
from pathlib import Path

CHOSEN = json.loads(Path(os.environ["CHOSEN"]).read_text(encoding="utf-8"))
BEGAN = time.process_time()


def pytest_collection_modifyitems(items):
    """Select and order the tests of the list."""
    place = {name: index for index, name in enumerate(CHOSEN["tests"])}
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def pytest_runtest_setup(item):
    """Stop the session when the time is over."""
    if time.process_time() - BEGAN > CHOSEN["seconds"]:
        item.session.shouldstop = "the time is over"
        Path(CHOSEN["out"]).write_text("time", encoding="utf-8")


def pytest_runtest_logreport(report):
    """Write the name of the test that detected the fault."""
    if report.failed:
        Path(CHOSEN["out"]).write_text(report.nodeid, encoding="utf-8")
