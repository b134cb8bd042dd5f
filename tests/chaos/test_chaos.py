"""The campaign of `tests/chaos` in its small form, and that it tells what is broken."""

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import __main__ as campaign
from tests.chaos import forked
from tests.chaos.mutations import read_all
from tests.helpers.documents import ROOT


def test_mutated_levels_are_read_or_refused(tmp_path: Path) -> None:
    found = Counter(read_all(random.Random(0), 60, tmp_path))
    assert found["refused"] > 10
    assert found["accepted"] > 5
    assert sum(found[kind] for kind in campaign.GOOD) == 60


def test_the_page_has_the_table_of_the_last_campaign() -> None:
    kept = json.loads((ROOT / "docs" / "explanation" / "reliability.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "explanation" / "reliability.md").read_text(encoding="utf-8")
    assert campaign.written(page, kept) == page
    assert {row["what"] for row in kept["rows"]} == {part.what for part in campaign.PARTS}
    assert re.search(rf"seed {kept['seed']}\b", page)


@pytest.mark.slow
def test_the_campaign_in_its_small_form(capfd: pytest.CaptureFixture[str]) -> None:
    """Single processes, so that what pytest has imported is shared with them."""
    forked.warm()
    rows = [campaign.run(index, seed=1, share=0.01) for index in range(len(campaign.PARTS))]
    assert [row["broken"] for row in rows] == [[] for _ in rows]
