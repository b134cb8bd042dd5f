"""The campaign of `tests/chaos` in its small form, and that it tells what is broken."""

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
    found = Counter(read_all(random.Random(0), 60, tmp_path))
    assert found["refused"] > 10
    assert found["accepted"] > 5
    assert sum(found[kind] for kind in campaign.GOOD) == 60


def test_what_must_not_be_is_told(tmp_path: Path) -> None:
    acts = {
        "hang": lambda: time.sleep(60),
        "crash": lambda: os.kill(os.getpid(), signal.SIGTERM),
        "traceback": lambda: 1 // 0,
        "status 1": lambda: sys.exit(1),
        "done": lambda: 0,
    }
    found = [forked.forked(act, folder=tmp_path, seconds=1).kind for act in acts.values()]
    assert found == list(acts)


@pytest.mark.slow
def test_each_attack_of_a_stranger_would_run_code() -> None:
    """Where nobody looks whom the code belongs to."""
    forked.warm()
    attacks = (*strangers.OF_RUNS, *strangers.OF_LANGUAGE)
    places = zip(attacks, copies(len(attacks)), strict=True)
    assert [values for values, here in places if not strangers.is_run_unchecked(here, values)] == []


@pytest.mark.slow
def test_the_campaign_in_its_small_form(capfd: pytest.CaptureFixture[str]) -> None:
    """Single processes, so that what pytest has imported is shared with them."""
    forked.warm()
    rows = [campaign.run(what, seed=1, share=0.01) for what in campaign.PARTS]
    assert [row["broken"] for row in rows] == [[] for _ in rows]
