"""The campaign of `tests/chaos` in its small form, and that it tells what is broken."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos import __main__ as campaign
from tests.chaos import forked
from tests.chaos.folders import differences
from tests.chaos.mutations import mutated, read_all
from tests.helpers.documents import ROOT


def test_outcomes_are_told_apart(tmp_path: Path) -> None:
    def fails() -> int:
        raise ValueError("broken")

    def waits() -> int:
        while True:
            pass

    kinds = [forked.forked(act, folder=tmp_path, seconds=1).kind for act in (lambda: 0, lambda: 3, fails, waits)]
    assert kinds == ["done", "status 3", "traceback", "hang"]


def test_folders_differ_in_files_and_in_what_they_say() -> None:
    one, two = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "d": 4}
    assert differences(one, two) == ["b: other", "c: missing", "d: extra"]


def test_mutated_levels_are_read_or_refused(tmp_path: Path) -> None:
    found = read_all(random.Random(0), 60, tmp_path)
    assert found["refused"] > 10
    assert found["accepted"] > 5
    assert sum(found[kind] for kind in campaign.GOOD) == 60


def test_a_mutation_can_be_repeated() -> None:
    data = b"shutdown: 3\n\nA C1\n"
    assert mutated(data, random.Random(7)) == mutated(data, random.Random(7))
    assert len({mutated(data, random.Random(seed)) for seed in range(20)}) > 10


def test_what_broke_is_counted_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    part = campaign.Part("levels", 4, lambda rng, count: Counter({"same": count - 1, "a traceback": 1}))
    monkeypatch.setattr(campaign, "PARTS", (part,))
    row = campaign.run(0, seed=0, share=0.5)
    assert (row["tried"], row["found"], row["broken"]) == (2, {"same": 1}, ["a traceback"])
    assert campaign.table([row]).splitlines()[-1] == "| levels | 2 | 1 same | 1 |"


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
