"""The speed benchmarks: their arithmetic, their comparisons and their page."""

import json
from unittest.mock import Mock

import pytest
import torch

from benchmarks import answering, gpu, machine, road, run, starting, stepping, updating
from benchmarks.jax_ppo import Settings
from benchmarks.measuring import MILLION_STEPS, SECONDS, Bench, Times, once
from benchmarks.page import page_of, parts_of
from benchmarks.pipelines import Autocast, Plan, TorchRL, critics_without_counts, our_run
from drest_torch.language import prompts as data
from tests.helpers.documents import ROOT
from tests.helpers.language import transformers


@pytest.fixture(autouse=True)
def a_clean_commit(monkeypatch):
    """Allow measurements with uncommitted changes."""
    monkeypatch.setattr(run, "uncommitted", list)


def working(*seconds, amount=1.0):
    """Return a bench with a fake clock, and work whose calls take these seconds; the last one repeats."""
    now = [0.0]
    left = list(seconds)

    def run():
        now.append(now[-1] + (left.pop(0) if len(left) > 1 else left[0]))
        return amount

    return Bench(clock=lambda: now[-1]), {"work": run}


def test_implementations_take_turns():
    bench = Bench(quick=True)
    order = []
    bench.measure({name: once(lambda name=name: order.append(name)) for name in "ab"})
    assert order == list("ab") * 3


def test_short_work_is_called_often():
    bench, work = working(0.9, 0.01, amount=2.0)
    short = bench.measure(work)["work"]
    assert short.first == pytest.approx(0.9)  # reported separately
    assert short.seconds == pytest.approx([0.05] * bench.repeats)  # five calls of 0.01
    assert short.amounts == [10.0] * bench.repeats


def test_long_work_is_called_once_a_repeat():
    bench, work = working(3.0)
    assert bench.measure(work)["work"].seconds == pytest.approx([3.0] * 10)


OURS = Times([8e6] * 3, [1.0, 2.0, 4.0], first=7.0)
THEIRS = Times([1e6] * 3, [1.0, 1.0, 2.0], first=0.0)
MOST = Times([16e6] * 3, [1.0, 1.0, 1.0], first=0.0)


def test_a_figure_is_listed_with_its_baselines():
    bench = Bench()
    bench.table("A table", "Its text.")
    times = {"ours | one": OURS, "theirs": THEIRS, "limit": MOST}
    bench.compare(times, MILLION_STEPS, baselines=["theirs"], limit="limit")
    assert "\n".join(bench.blocks).splitlines()[-3:] == [
        "| ours \\| one | million steps/s | 4 (2) | 3 | 7 | 1 theirs | 16, reached to 25% |  |",
        "| theirs | million steps/s | 1 (0.5) | 3 |  |  |  |  |",
        "| limit | million steps/s | 16 (16) | 3 |  |  |  |  |",
    ]


def test_the_slowest_repeat_has_to_reach_a_target():
    bench = Bench()
    bench.table("A table")
    times = {"ours": OURS, "theirs": THEIRS}
    bench.ratio(times, "ours", "theirs", target=5.0)  # 8, 4 and 4 times as fast
    bench.ratio(times, "ours", "theirs", target=4.0)
    bench.ratio(times, "ours", "nobody", target=4.0)
    bench.figure("seconds", SECONDS, OURS.over(THEIRS), target=0.25)
    bench.numbers("once", SECONDS, [1234.5], target=2000)
    bench.missing("nothing", SECONDS, "not measured: no file", target=1.0)
    assert "\n".join(bench.blocks).splitlines()[-5:] == [
        "| ours ÷ theirs | × as fast | 4 (4) | 3 |  |  |  | ≥ 5 **missed** |",
        "| ours ÷ theirs | × as fast | 4 (4) | 3 |  |  |  | ≥ 4 ✓ |",
        "| seconds | s | 0.25 (0.25) | 3 |  |  |  | ≤ 0.25 ✓ |",
        "| once | s | 1,234 | 1 |  |  |  | ≤ 2,000 ✓ |",
        "| nothing | s | not measured: no file |  |  |  |  | ≤ 1 **missed** |",
    ]


def test_the_page_begins_with_the_missed_targets():
    bench = Bench()
    bench.table("A table", "Its text.")
    bench.figure("ours | one", MILLION_STEPS, OURS, target=3.0)
    bench.missing("nothing", SECONDS, "not measured: no file", target=1.0)
    parts = {"one": "\n\n".join(["## Title", "Text.", *bench.blocks]), "two": "## Other"}
    page = page_of(parts)
    assert parts_of(page) == parts
    assert "- one, A table: ours \\| one: 4 (2) million steps/s, target ≥ 3\n" in page
    assert "- one, A table: nothing: not measured: no file s, target ≤ 1\n" in page


def test_a_stop_keeps_the_parts_of_the_page(tmp_path, monkeypatch):
    def row(bench, target=None):
        bench.table("A table")
        bench.numbers("a row", SECONDS, [1.0], target=target)

    path = tmp_path / "page.md"
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
    assert run.main(["--only", "machine", "--page", str(path)]) == 1  # a missed target
    assert run.main(["--only", "machine", "--quick", "--page", str(path)]) == 0
    assert "these figures mean nothing" in path.read_text("utf-8")


def test_the_page_is_made_from_a_commit(tmp_path, monkeypatch):
    path = tmp_path / "page.md"
    monkeypatch.setattr(run, "uncommitted", lambda: ["envs/levels.py"])
    monkeypatch.setattr(machine, "run", lambda bench: None)
    with pytest.raises(SystemExit, match=r"^envs/levels.py has uncommitted changes; commit them, or"):
        run.main(["--only", "machine", "--page", str(path)])
    assert not path.exists()
    run.main(["--only", "machine", "--uncommitted", "--page", str(path)])
    assert "**with uncommitted changes**" in path.read_text("utf-8")


def test_the_page_of_the_documentation_is_whole():
    page = (ROOT / run.PAGE).read_text("utf-8")
    parts = parts_of(page)
    assert tuple(parts) == run.PARTS
    assert page_of(parts) == page


def test_autocast_returns_bfloat16_results_as_float32():
    network = torch.nn.Linear(3, 2)
    inputs = torch.randn(4, 3)
    exact, rounded = (Autocast(network, precision)(inputs) for precision in ("float32", "bfloat16"))
    assert torch.equal(exact, network(inputs))
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, rounded.bfloat16().float())
    assert not torch.equal(rounded, exact)


def test_peers_train_networks_of_the_same_size():
    with critics_without_counts():
        ours = our_run(Bench(quick=True), "ppo", "reward.counting=sequential")
    theirs = TorchRL(ours.gridworlds.levels.train, Plan(ours.cfg, envs=2, steps=8))
    size, peer_size = (
        sorted(parameter.numel() for parameter in networks.parameters())
        for networks in (ours.algorithm.networks, theirs.loss)
    )
    assert size == peer_size


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_torchrl_learns_in_both_precisions(precision):
    ours = our_run(Bench(quick=True), "ppo")
    theirs = TorchRL(ours.gridworlds.levels.train, Plan(ours.cfg, 2, 32, precision))
    before = [parameter.clone() for parameter in theirs.loss.parameters()]
    assert theirs.update() == 64
    assert not any(torch.equal(old, new) for old, new in zip(before, theirs.loss.parameters(), strict=True))


def test_recorded_products_are_the_products_of_layers():
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    with updating.recorded(network) as products:
        network(torch.zeros(5, 3))
        with torch.no_grad():
            network(torch.zeros(7, 3))
    forward, backward = [(5, 3, 4), (5, 4, 2)], [(4, 5, 3), (2, 5, 4), (5, 2, 4)]
    assert sorted(products) == sorted([*forward, *backward, (7, 3, 4), (7, 4, 2)])
    assert updating.operations([(2, 3, 4)]) == 48


def test_a_stage_within_another_counts_for_itself(monkeypatch):
    clock = iter([0.0, 1.0, 3.0, 10.0])
    monkeypatch.setattr(gpu.time, "perf_counter", lambda: next(clock))
    watch = gpu.Stopwatch(torch.device("cpu"))
    with watch.stage("outer"), watch.stage("inner"):
        pass
    assert watch.seconds == {"outer": 8.0, "inner": 2.0}


@pytest.mark.parametrize("algo", ["ppo", "generalist"])
def test_the_stages_of_an_update_add_up(algo):
    row = gpu.measure("name", [f"algo={algo}", *SMALL[algo]], 8, "cpu", quick=True)
    assert row.per_second > 0
    assert sum(row.shares.values()) == pytest.approx(1)
    assert all(row.shares[stage] > 0 for stage in ("collecting", "forward", "backward", "optimiser"))


SMALL = {"ppo": ["algo.episodes=8", "reward.group=4"], "generalist": ["algo.levels_at_once=2"]}


def test_the_section_of_a_gpu_is_made_from_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "FIGURES", tmp_path / "gpu.json")
    row = gpu.Row("default command", 1024, "steps", 1.5e6, 0.1, 2.0, dict.fromkeys(gpu.STAGES, 0.2))
    gpu.write(gpu.FIGURES, {"commit": "abc", "machine": "A GPU.", "rows": [vars(row)]})
    bench = Bench()
    gpu.run(bench)
    assert bench.blocks[0] == "Measured on commit abc: A GPU."
    assert "| default command | 1,024 | 1,500,000 steps | 0.1 | 2 | 20% |" in bench.blocks[1]
    assert json.loads(gpu.FIGURES.read_text("utf-8"))["rows"][0]["slots"] == 1024


def test_checkouts_train_in_turn(monkeypatch):
    order = []

    def train(words, *, checkout):
        order.append((checkout.name, words[-2]))
        return [road.Speed(1.0, 1.0, 2.0)]

    monkeypatch.setattr(road, "train", train)
    variants = [road.Variant(ROOT, "a=1"), road.Variant(ROOT.parent / "old")]
    speeds = road.compare("algo=ppo", variants, steps=10, repetitions=2)
    here, old = (ROOT.name, "a=1"), ("old", "algo=ppo")
    assert order == [here, old, old, here]
    assert [len(of_variant) for of_variant in speeds] == [2, 2]


def test_a_comparison_prints_its_ratios(capsys):
    variants = [road.Variant(road.HERE, "precision=float32"), road.Variant(ROOT.parent / "old")]
    road.report("algo=ppo", variants, [road.Speed(10.0, 20.0, 300.0), road.Speed(11.0, 25.0, 200.0)], has_baseline=True)
    printed = capsys.readouterr().out
    assert "whole command 1.10 ×, its processors 1.25 ×, training 1.50 ×   target ≥ 1.05 ×: reached" in printed


def test_the_jax_peer_needs_nothing_of_this_project():
    source = (ROOT / "benchmarks" / "jax_ppo.py").read_text("utf-8")
    assert "import drest_torch" not in source
    assert "from benchmarks" not in source
    assert "minibatches" in Settings.__dataclass_fields__


@transformers
def test_updates_of_language_models_share_beginnings():
    """The update that shares reads fewer tokens, and its gradient is that of the other one."""
    prompts = data.generate("post", 4)
    texts = [prompt.messages[0]["content"] for prompt in prompts]
    model = answering.model_of(texts, "lines", 1, 24)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    tokens, gradients = [], []
    model.model.register_forward_pre_hook(
        lambda network, words, named: tokens.append(named["input_ids"].numel()), with_kwargs=True
    )
    for shares in (True, False):
        for name, value in model.state_dict().items():
            value.copy_(start[name])
        answering.update_of(model, prompts, 2, shares=shares, is_reading=False)()
        gradients.append({name: weight.grad.clone() for name, weight in model.weights().items()})
    assert tokens[0] < tokens[1] / 2
    for name, expected in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


@pytest.mark.slow
def test_every_part_runs(tmp_path):
    path = tmp_path / "page.md"
    assert run.main(["--quick", "--page", str(path)]) == 0
    assert tuple(parts_of(path.read_text("utf-8"))) == run.PARTS
