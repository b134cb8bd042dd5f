"""The measurements of speed: their arithmetic, what they compare, and the page that is made of them."""

from unittest.mock import Mock

import pytest

from benchmarks import machine, run, starting, stepping
from benchmarks.measuring import MILLION_STEPS, SECONDS, Bench, Times, once
from benchmarks.page import page_of, parts_of
from tests.helpers.documents import ROOT


def working(*seconds, amount=1.0):
    """A clock, and work that takes so long on it when it is called for the first, second, … and every later time."""
    now, left = [0.0], list(seconds)

    def run():
        now.append(now[-1] + (left.pop(0) if len(left) > 1 else left[0]))
        return amount

    return Bench(clock=lambda: now[-1]), {"work": run}


def test_contenders_take_turns_and_short_work_is_called_often():
    bench, order = Bench(quick=True), []
    bench.measure({name: once(lambda name=name: order.append(name)) for name in "ab"})
    assert order == list("ab") * 3
    bench, work = working(0.9, 0.01, amount=2.0)
    short = bench.measure(work)["work"]
    assert short.first == pytest.approx(0.9)  # apart
    assert short.seconds == pytest.approx([0.05] * bench.repeats)  # five calls of 0.01
    assert short.amounts == [10.0] * bench.repeats
    bench, work = working(3.0)
    assert bench.measure(work)["work"].seconds == pytest.approx([3.0] * 10)


def test_a_figure_stands_beside_all_that_it_is_held_against_and_what_was_missed_at_the_top_of_the_page():
    bench = Bench()
    bench.table("A table", "Its text.")
    ours = Times([8e6] * 3, [1.0, 2.0, 4.0], first=7.0)
    theirs = Times([1e6] * 3, [1.0, 1.0, 2.0], first=0.0)
    most = Times([16e6] * 3, [1.0, 1.0, 1.0], first=0.0)
    times = {"ours | one": ours, "theirs": theirs, "limit": most}
    bench.compare(times, MILLION_STEPS, baselines=["theirs"], limit="limit", wanted={"ours | one": 3.0})
    bench.figure("ratio", SECONDS, ours.over(theirs), wanted=1.0)
    bench.numbers("once", "s", [1234.5], wanted=2000)
    bench.missing("nothing", "s", "not measured: no file", wanted=1.0)
    found = "\n\n".join(["## Title", "Text.", *bench.blocks])
    assert found.splitlines()[-6:] == [
        # Three are reached in the median, and not in the slowest repeat.
        "| ours \\| one | million steps/s | 4 (2) | 3 | 7 | 1 theirs | 16, reached to 25% | ≥ 3 **missed** |",
        "| theirs | million steps/s | 1 (0.5) | 3 |  |  |  |  |",
        "| limit | million steps/s | 16 (16) | 3 |  |  |  |  |",
        "| ratio | s | 0.25 (0.25) | 3 |  |  |  | ≤ 1 ✓ |",
        "| once | s | 1,234 | 1 |  |  |  | ≤ 2,000 ✓ |",
        "| nothing | s | not measured: no file |  |  |  |  | ≤ 1 **missed** |",
    ]
    parts = {"one": found, "two": "## Other"}
    page = page_of(parts)
    assert parts_of(page) == parts
    assert "- one, A table: ours \\| one: 4 (2) million steps/s, wanted ≥ 3\n" in page
    assert "- one, A table: nothing: not measured: no file s, wanted ≤ 1\n" in page


def test_parts_that_are_not_measured_stay_a_stop_loses_nothing_and_a_missed_target_fails(tmp_path, monkeypatch):
    def row(bench, wanted=None):
        bench.table("A table")
        bench.numbers("a row", "s", [1.0], wanted=wanted)

    path = tmp_path / "found.md"
    monkeypatch.setattr(stepping, "run", row)
    monkeypatch.setattr(machine, "run", lambda bench: row(bench, 0.5))
    monkeypatch.setattr(starting, "run", Mock(side_effect=KeyboardInterrupt))
    assert run.main(["--only", "stepping", "--page", str(path)]) == 0
    before = parts_of(path.read_text("utf-8"))
    with pytest.raises(KeyboardInterrupt):
        run.main(["--only", "machine", "starting", "--page", str(path)])
    after = parts_of(path.read_text("utf-8"))
    assert list(after) == ["machine", "stepping"]
    assert after["stepping"] == before["stepping"]
    assert run.main(["--only", "machine", "--page", str(path)]) == 1
    assert run.main(["--only", "machine", "--quick", "--page", str(path)]) == 0
    assert "Its figures mean nothing" in path.read_text("utf-8")


def test_the_page_of_the_documentation_has_every_part_and_all_that_was_missed():
    page = (ROOT / run.KEPT).read_text("utf-8")
    parts = parts_of(page)
    assert tuple(parts) == run.PARTS
    assert page_of(parts) == page


@pytest.mark.slow
def test_every_part_runs(tmp_path):
    path = tmp_path / "found.md"
    assert run.main(["--quick", "--page", str(path)]) == 0
    assert tuple(parts_of(path.read_text("utf-8"))) == run.PARTS
