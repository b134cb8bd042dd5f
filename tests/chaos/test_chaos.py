"""The campaign of `tests/chaos` in its small form, and that it tells what is broken."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import __main__ as campaign
from tests.chaos import forked
from tests.chaos.mutations import read_all


def test_mutated_levels_are_read_or_refused(tmp_path: Path) -> None:
    found = Counter(read_all(random.Random(0), 60, tmp_path))
    assert found["refused"] > 10
    assert found["accepted"] > 5
    assert sum(found[kind] for kind in campaign.GOOD) == 60


@pytest.mark.slow
def test_the_campaign_in_its_small_form(capfd: pytest.CaptureFixture[str]) -> None:
    """Single processes, so that what pytest has imported is shared with them."""
    forked.warm()
    rows = [campaign.run(part, seed=1, share=0.01) for part in campaign.PARTS]
    assert [row["broken"] for row in rows] == [[] for _ in rows]
