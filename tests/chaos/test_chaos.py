"""The campaign of `tests/chaos` in a small form, and its detection of failures."""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import __main__ as campaign
from tests.chaos import forked, strangers
from tests.chaos.mutations import copies, read_all


def test_mutated_levels_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = Counter(read_all(random.Random(0), 60, tmp_path))
    assert outcomes["refused"] > 10
    assert outcomes["accepted"] > 5
    assert sum(outcomes[kind] for kind in campaign.GOOD) == 60


def test_kinds_of_failure_are_distinguished(tmp_path: Path) -> None:
    acts = {
        "hang": lambda: time.sleep(60),
        "crash": lambda: os.kill(os.getpid(), signal.SIGTERM),
        "traceback": lambda: 1 // 0,
        "status 1": lambda: sys.exit(1),
        "done": lambda: 0,
    }
    kinds = [forked.forked(act, folder=tmp_path, seconds=1).kind for act in acts.values()]
    assert kinds == list(acts)


@pytest.mark.slow
def test_foreign_code_would_run_without_the_check() -> None:
    forked.warm()
    attacks = (*strangers.OF_RUNS, *strangers.OF_LANGUAGE)
    places = zip(attacks, copies(len(attacks)), strict=True)
    assert [values for values, here in places if not strangers.is_run_unchecked(here, values)] == []


@pytest.mark.slow
def test_the_campaign_in_its_small_form(capfd: pytest.CaptureFixture[str]) -> None:
    """The parts run in this process, so that they share the imports of pytest."""
    forked.warm()
    rows = [campaign.run(what, seed=1, share=0.01) for what in campaign.PARTS]
    assert [row["broken"] for row in rows] == [[] for _ in rows]
