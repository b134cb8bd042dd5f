"""The measurements of speed: their arithmetic, what they compare, and the page that is made of them."""

import json
import math

import numpy as np
import pytest
import torch

from benchmarks import machine, page, run, stepping
from benchmarks.measuring import MILLION_STEPS, SECONDS, Bench, Point, Times, once
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.interfaces.slots import start_episodes, step_episodes
from drest_torch.envs.levels import world
from tests.helpers.documents import ROOT


class Clock:
    """Time that passes only while work is done."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def work(self, *seconds, amount=1.0):
        """Takes so long when it is called for the first, second, … time, and then always as long as the last time."""
        left = list(seconds)

        def run():
            self.now += left.pop(0) if len(left) > 1 else left[0]
            return amount

        return run


def test_contenders_take_turns():
    bench, order = Bench(quick=True), []
    bench.repeats = 3
    works = {name: once(lambda name=name: order.append(name)) for name in "ab"}
    bench.measure(works)
    assert order == list("ab") * 4


def test_the_first_call_is_apart_and_short_work_is_called_often():
    clock = Clock()
    bench = Bench(clock=clock)
    short = bench.measure({"work": clock.work(0.9, 0.01, amount=2.0)})["work"]
    assert short.first == pytest.approx(0.9)
    assert short.seconds == pytest.approx([0.05] * bench.repeats)  # five calls of 0.01
    assert short.amounts == [10.0] * bench.repeats
    assert bench.measure({"work": clock.work(3.0)})["work"].seconds == pytest.approx([3.0] * 10)


def test_figures_of_a_comparison():
    bench = Bench()
    bench.table("title")
    ours = Times([8e6] * 3, [1.0, 2.0, 4.0], first=7.0)
    theirs = Times([1e6] * 3, [1.0, 1.0, 2.0], first=0.0)
    most = Times([16e6] * 3, [1.0, 1.0, 1.0], first=0.0)
    times = {"ours": ours, "theirs": theirs, "limit": most}
    bench.compare(times, MILLION_STEPS, baselines=["theirs"], limit="limit", wanted={"ours": 3.0})
    first, second, third = bench.tables[0].rows
    assert (first.median, first.slowest, first.first) == (4.0, 2.0, 7.0)
    assert (first.beside, first.limit) == ({"theirs": 1.0}, 16.0)
    assert first.reached is False  # it holds in the median, but not in the slowest
    assert (second.beside, second.limit, third.limit) == ({}, None, None)


def test_numpy_plays_what_the_tensor_function_plays():
    mdp = compile_levels([world("example")])
    slots, rng = 64, np.random.default_rng(0)
    numpy, observe = stepping.NumpySlots(mdp, slots), make_observation("vector", mdp)
    mdp = mdp.to(dtype=torch.float32)
    now = start_episodes(mdp, torch.zeros(slots, dtype=torch.int64))
    ended = coins = 0
    for _ in range(200):
        action = rng.integers(NUM_ACTIONS, size=slots)
        now, played = step_episodes(mdp, now, torch.from_numpy(action))
        seen, coin, done = numpy.step(action)
        assert (seen == observe(now.spot, now.taken, now.time_left).numpy()).all()
        assert (coin == played.coin.numpy()).all()
        assert (done == played.mini_done.numpy()).all()
        assert (numpy.ticks == now.ticks.numpy()).all()
        ended, coins = ended + done.sum(), coins + coin.sum()
    assert ended > 0
    assert coins > 0


def test_gymnasium_environment_plays_what_ours_plays():
    plain = pytest.importorskip("benchmarks.plain", exc_type=ImportError)
    levels = generate(GeneratorConfig(), 5, seed=0)
    plain.check_plain(levels, mini_episodes=40)


GOOD, NOT_NEUTRAL, USELESS = (0.8, 0.8), (0.8, 0.7), (0.7, 0.8)


def results(**about):
    bench = Bench()
    bench.table("A table", "Its text.")
    ours, theirs = Times([1.0], [0.5], 0.25), Times([1.0], [2.0], 0.0)
    bench.compare({"ours | one": ours, "theirs": theirs}, SECONDS, baselines=["theirs"], wanted={"ours | one": 0.1})
    bench.missing("nothing", "s", "not measured: no file given")
    bench.quick = True
    bench.growth("slots", "Text.", [Point(at, {"step": once(lambda: None)}, 10 * at) for at in (1, 2_000)])
    told = {
        "command": "python -m benchmarks.run --only stepping",
        "date": "2026-01-02",
        "commit": "abc",
        "processor": "A processor",
        "cores": 2,
        "memory_gib": 8.0,
        "gpu": "no GPU was available",
        "system": "Linux",
        "versions": {"torch": "2"},
        "threads": 2,
        "clock": "wall",
        "quick": False,
    }
    return {"title": "Title", "text": "Text of the part.", "about": told | about, "seconds": 3.0, **bench.results()}


def test_page_has_every_figure_with_what_it_is_held_against():
    shown = page.render({"cpu": {"stepping": results()}}, "picture.png")
    assert "| ours \\| one | s | 0.5 | 1 | 0.25 | 2 theirs |  | ≤ 0.1 **missed** |" in shown
    assert "| nothing | s | not measured: no file given |" in shown
    assert "`python -m benchmarks.run --only stepping`: 3 s, 2026-01-02, commit abc." in shown
    assert "A processor, 2 cores, 8 GiB, no GPU was available" in shown
    assert "- stepping (cpu), A table: ours | one: 0.5 s, wanted ≤ 0.1" in shown
    assert "![Time and memory as one number grows](picture.png)" in shown
    assert "| 2,000 | 20,000 | " in shown
    assert "on the GPU" not in shown
    assert page.QUICK not in shown


def test_page_has_a_column_for_the_gpu_only_if_it_was_measured_there():
    there = results(gpu="A GPU", quick=True)
    there["tables"][0]["rows"][0] |= {"median": 0.125, "slowest": 0.25, "repeats": 2}
    shown = page.render({"cpu": {"stepping": results()}, "cuda": {"stepping": there}})
    assert "| on the GPU |" in shown
    assert "**missed** | 0.125 (0.25) |" in shown
    assert page.QUICK in shown


@pytest.fixture
def cheap(monkeypatch):
    """The parts as they are, but for those that are told; the rest has one row."""

    def row(bench):
        bench.table("A table")
        bench.numbers("a row", "s", [1.0])

    for module in (machine, stepping):
        monkeypatch.setattr(module, "run", row)


def test_quick_run_writes_json_and_page(tmp_path, capsys):
    path = tmp_path / "found.json"
    run.main(["--quick", "--only", "machine", "evaluating", "--json", str(path)])
    found = json.loads(path.read_text(encoding="utf-8"))
    assert list(found["cpu"]) == ["machine", "evaluating"]
    for part in found["cpu"].values():
        assert part["about"]["quick"]
        for table in part["tables"]:
            assert all(row["slowest"] > 0 and math.isfinite(row["median"]) for row in table["rows"])
    shown = path.with_suffix(".md").read_text(encoding="utf-8")
    assert shown == page.render(found)
    assert page.QUICK in shown
    assert "=== evaluating (2 of 2)" in capsys.readouterr().out


def test_parts_that_are_not_measured_stay_as_they_were(tmp_path, cheap, monkeypatch):
    path = tmp_path / "found.json"
    run.main(["--only", "stepping", "--json", str(path)])
    before = json.loads(path.read_text())["cpu"]["stepping"]
    run.main(["--only", "machine", "--json", str(path)])
    found = json.loads(path.read_text())["cpu"]
    assert list(found) == ["machine", "stepping"]
    assert found["stepping"] == before


def test_what_was_measured_before_an_interruption_is_kept(tmp_path, cheap, monkeypatch, capsys):
    def stopped(bench):
        raise KeyboardInterrupt

    monkeypatch.setattr(stepping, "run", stopped)
    path = tmp_path / "found.json"
    with pytest.raises(SystemExit) as ended:
        run.main(["--only", "machine", "stepping", "--json", str(path)])
    assert ended.value.code == 130
    assert list(json.loads(path.read_text())["cpu"]) == ["machine"]
    assert path.with_suffix(".md").exists()
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--threads", "0"], "--threads 0; expected at least 1"),
        (["--render", "MISSING"], "no such file; measure first"),
        (["--render", "BROKEN"], "not the results of this version's benchmarks"),
    ],
)
def test_mistakes_are_told_in_a_sentence(tmp_path, given, said):
    broken = tmp_path / "broken.json"
    broken.write_text('{"cpu": {"stepping": {}}}')
    names = {"MISSING": str(tmp_path / "missing.json"), "BROKEN": str(broken)}
    with pytest.raises(run.BenchmarkError, match=said):
        run.main([names.get(each, each) for each in given])


def test_page_of_the_documentation_is_that_of_its_figures():
    kept = ROOT / run.KEPT
    results = json.loads(kept.read_text(encoding="utf-8"))
    picture = kept.with_suffix(".png")
    assert picture.exists()
    assert kept.with_suffix(".md").read_text(encoding="utf-8") == page.render(results, picture.name)


@pytest.mark.slow
def test_every_part_runs(tmp_path):
    path = tmp_path / "found.json"
    run.main(["--quick", "--json", str(path)])
    found = json.loads(path.read_text(encoding="utf-8"))
    assert tuple(found["cpu"]) == run.PARTS
    assert [each["against"] for each in found["cpu"]["growing"]["growths"]][-1] == "seeds, of tables"
    assert path.with_suffix(".png").exists()
