"""``drest compare``: runs beside each other, read from their folders alone."""

import json
import re
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from drest_torch import compare
from drest_torch.comparison.configurations import configurations, curves_over_training, labels
from drest_torch.comparison.records import RUNS_OF_SWEEP, find_runs, read_run
from drest_torch.plots.curves import compare_curves


def write_run(folder, *, algo="ppo", seed=0, finished=True, summary=None, **values):
    """Write what a run leaves: two evaluations, and a summary with other numbers, as it is of all levels."""
    folder.mkdir(parents=True)
    groups = {"reward": {"name": "drest"}, "levels": {"name": "generated", "path": None}, "policy": {"network": "mlp"}}
    algo = {"name": algo, "lr": 0.001, **({"clip": 0.2} if algo == "ppo" else {})}
    config = groups | {"algo": algo, "seed": seed, "env_steps": 2000, "run_dir": str(folder)}
    for key, value in values.items():
        group, name = key.split("__")
        config[group] = config[group] | {name: value}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    rows = [
        {"step": 0, "eval/train/usefulness": 0.1, "eval/train/neutrality": 0.2},
        {
            "step": 1000,
            **{"eval/train/usefulness": 0.51, "eval/train/neutrality": 0.61, "time/wall_seconds": 7.4},
            **{"eval/test/usefulness": 0.41, "eval/test/neutrality": 0.31, "eval/selection/usefulness": 0.99},
        },
        {"step": 1200, "train/return": 0.5, "time/wall_seconds": 9.6},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 13')
    if finished:
        splits = {"train": {"usefulness": 0.87, "neutrality": 0.97}, "test": {"usefulness": 0.77, "neutrality": 0.67}}
        numbers = {"env_steps": 2040, "wall_seconds": 61.2, "splits": splits} | (summary or {})
        (folder / "summary.json").write_text(json.dumps(numbers))
    return folder


@pytest.fixture
def call(call):
    return partial(call, compare.main)


def cells(out):
    return [line.split() for line in out.splitlines()]


def test_a_line_a_run_with_its_results_and_what_differs(call):
    write_run(Path("a"))
    write_run(Path("b"), algo="a2c", seed=3)
    code, out, err = call("a", "b")
    assert (code, err) == (0, "")
    numbers = ["2,040", "0.870", "0.770", "0.970", "0.670", "61"]
    first, second, *others = cells(out)
    assert first == ["usefulness", "neutrality"]
    assert second == ["run", "algorithm", "levels", "seed", "steps", *["train", "test"] * 2, "seconds"]
    assert ["1", "ppo", "generated", "0", *numbers] in others
    assert ["2", "a2c", "generated", "3", *numbers] in others
    for line in ("algo.name ppo 1", "a2c 2", "seed 0 1", "run 2: b"):
        assert line.split() in others
    assert not re.search(r"reward|algo\.lr|algo\.clip|run_dir|not finished", out)  # they are the same


def test_a_run_that_is_not_finished_is_shown_as_such(call):
    write_run(Path("a"), finished=False)
    out = call("a")[1]
    values = ["1,200*", "0.510", "0.410", "0.610", "0.310", "10"]
    assert ["1", "ppo", "generated", "0", *values] in cells(out)
    assert "run 1: a (not finished: 60%)" in out
    Path("a/metrics.jsonl").unlink()
    for name, begins in (("a.png", b"\x89PNG"), ("new/a.svg", b"<?xml"), ("a.PDF", b"%PDF")):
        code, out, _ = call("a", f"out={name}")
        assert (code, f"The learning curves are in {name}" in out) == (0, True)
        assert Path(name).read_bytes().startswith(begins)
    assert ["1", "ppo", "generated", "0", "0*", "-"] in cells(out)


def test_folders_of_runs_and_sweeps_are_gone_through_and_no_run_is_shown_twice(call, tmp_path):
    for name in "abc":
        write_run(tmp_path / "runs" / name)
    sweep = tmp_path / "runs" / "multirun" / "now"
    sweep.mkdir(parents=True)
    (sweep / RUNS_OF_SWEEP).write_text("../../b\n../../deleted\n../../a\n")
    (tmp_path / "runs" / "notes.txt").write_text("")
    for folder, expected in (("runs", "abc"), ("runs/multirun/now", "ba")):
        found, refused = find_runs([Path(folder)])
        assert ([run.folder for run in found], refused) == ([Path("runs", name) for name in expected], [])
    code, out, err = call(*(f"runs/{path.name}" for path in sorted((tmp_path / "runs").iterdir())))
    assert (code, "run 3: runs/c" in out, "run 4" in out) == (0, True, False)
    assert (err.count("\n"), "runs/notes.txt: no run in it" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no run is named"),
        (["nowhere"], "nowhere: no such folder"),
        (["other"], "other/config.yaml: not the configuration"),
        (["torn"], "torn/summary.json: not the summary"),
        (["a", "out=a.gif"], "a.gif: cannot be written"),
        (["a", "out=a.png", "out=b.png"], "out=b.png: given twice"),
        (["a", "--out", "a.png"], "--out: no such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_sentence(call, arguments, words):
    write_run(Path("a"))
    Path("other").mkdir()
    Path("other/config.yaml").write_text("defaults: [a, b]\n")
    (write_run(Path("torn")) / "summary.json").write_text('{"env_st')
    assert words in call(*arguments).sentence


def test_a_colour_for_each_run_and_a_row_of_axes_for_each_split(tmp_path):
    figure = plotted([read_run(write_run(tmp_path / f"{lr}", algo__lr=lr)) for lr in range(14)])
    assert len(figure.axes) == 4
    train = figure.axes[0].lines
    assert [list(line.get_xdata()) for line in train] == [[0, 1000]] * 14
    assert [list(line.get_ydata()) for line in train] == [[0.1, 0.51]] * 14
    assert len({tuple(line.get_color()) for line in train}) == 14
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["1  lr 0", "2  lr 1"]


def test_a_label_has_what_tells_a_run_from_others_of_its_kind(tmp_path):
    """Of further values at most three, and none that only goes with the algorithm."""
    both = [write_run(tmp_path / "a", algo__lr=1), write_run(tmp_path / "b", algo="a2c", algo__lr=2)]
    assert labels(configurations([read_run(folder) for folder in both])) == ["1  ppo", "2  a2c"]
    many = {"algo__lr": 3, "algo__clip": 4, "policy__width": 5, "policy__depth": 6}
    several = [*both, write_run(tmp_path / "c", **dict.fromkeys(many, 0)), write_run(tmp_path / "d", **many)]
    third, fourth = labels(configurations([read_run(folder) for folder in several]))[2:]
    assert fourth.startswith("4  ppo, ")
    assert len(fourth.split(", ")) == len(third.split(", ")) == 1 + 3


def test_a_column_for_the_reward_where_it_differs(call):
    write_run(Path("a"))
    write_run(Path("b"), reward__name="default")
    out = cells(call("a", "b")[1])
    assert out[1][:4] == ["run", "algorithm", "reward", "levels"]
    assert [line[:4] for line in out if line[:1] in (["1"], ["2"]) and "ppo" in line] == [
        ["1", "ppo", "drest", "generated"],
        ["2", "ppo", "default", "generated"],
    ]


def plotted(runs):
    compared = configurations(runs)
    axis, curves = curves_over_training(compared)
    with patch("drest_torch.plots.curves.write_figure") as write:
        compare_curves(curves, labels(compared), Path("curves.png"), axis)
    write.assert_called_once()
    return write.call_args.args[0]


def test_runs_that_differ_in_their_seed_alone_are_one_configuration(call):
    for seed, name in enumerate("abc"):  # each is a tenth more useful, and evaluated 100 steps later
        train = {"usefulness": 0.7 + seed / 10, "neutrality": 0.97, "optimum": {"neutrality": 1.0}}
        folder = write_run(Path(name), seed=seed, summary={"splits": {"train": train}})
        rows = [{"step": at + 100 * seed * (at > 0), "eval/train/usefulness": at / 1000} for at in (0, 1000)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_run(Path("d"), algo="a2c")
    out = call("a", "d", "b", "c")[1]
    # By hand: 4.303 x 0.1 / sqrt(3) = 0.248 around 0.8; neutrality and the upper end are within what is possible.
    assert ["1", "3", "4", "ppo", "train", "3", "0.800", "(0.552-1.000)", "0.970", "(0.970-0.970)"] in cells(out)
    assert not any(line[:3] == ["2", "a2c", "train"] for line in cells(out))  # one seed has no interval
    assert all(f"run {number}: {name}" in out for number, name in enumerate("adbc", start=1))  # and each stands alone
    figure = plotted([read_run(Path(name)) for name in "adbc"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["1 3 4  ppo, 3 seeds", "2  a2c"]
    seeds, alone = figure.axes[0].lines
    assert (seeds.get_xdata()[-1], alone.get_xdata()[-1]) == (1000, 1000)  # no further than all seeds
    assert seeds.get_ydata()[-1] == pytest.approx((1 + 1000 / 1100 + 1000 / 1200) / 3)
    (band,) = figure.axes[0].collections
    assert band.get_paths()[0].vertices[:, 1].min() == 0
    assert figure.axes[0].get_ylim()[1] <= 1.1
    assert "mean over seeds" not in call("a", "d")[1]


TOOK = {"updates": 20, "levels_per_update": 64, "forward_rows": 12_300_000, "backward_rows": 9_000}
TEXTS = ("", "null", "[]", "{}", "5", '"text"', "{", "\x00", "[" * 3000, "a: [1", "9" * 400)
VALUES = (None, "x", [], {}, -1, 0, float("nan"), float("inf"), 10**300, True, "$x^$")


def with_odd_values(values):
    """Yield nested values with something else in one place of them."""
    for key, value in values.items():
        yield from (values | {key: odd} for odd in VALUES)
        if isinstance(value, dict):
            yield from (values | {key: changed} for changed in with_odd_values(value))


def a_sentence_or_a_result(call, *arguments):
    """No exception, and every line of complaint names what it is about."""
    code, out, err = call(*arguments)
    assert code == 0 or (code == 2 and not out)
    assert err.count("\n") == (code == 2 or "left out" in err), err
    assert not err or re.match(r"drest_torch: run/?[\w.]*: ", err), err


@pytest.mark.parametrize("name", ["config.yaml", "summary.json", "metrics.jsonl", RUNS_OF_SWEEP])
def test_a_damaged_file_of_a_run_is_a_sentence_or_a_result(call, name):
    file = write_run(Path("run"), finished=name != "metrics.jsonl") / name
    whole = file.read_bytes() if file.exists() else b"/dev/null\nrun\n"
    for data in (*(text.encode() for text in TEXTS), whole[: len(whole) // 2], b"\xff\xfe" + whole, whole[::-1]):
        file.write_bytes(data)
        a_sentence_or_a_result(call, "run")
    file.unlink()
    a_sentence_or_a_result(call, "run")
    file.mkdir()
    a_sentence_or_a_result(call, "run")


def test_a_value_of_the_wrong_kind_is_a_sentence_or_a_result(call):
    folder = write_run(Path("run"), algo="exact", summary=TOOK, algo__counted_steps=100)
    write_run(Path("other"), algo="exact", seed=1, algo__counted_steps=100)
    for file in (folder / "config.yaml", folder / "summary.json"):
        whole = file.read_text()
        for changed in with_odd_values(yaml.safe_load(whole)):
            file.write_text(json.dumps(changed))
            a_sentence_or_a_result(call, "run", "other")
        file.write_text(whole)


def test_no_escape_sequence_of_a_name_reaches_the_terminal(call):
    evil = "\x1b]0;owned\x07\x1b[31m<img src=x onerror=alert(1)>"
    folders = [Path(f"a{evil.replace('/', '')}"), Path("b")]
    for seed, folder in enumerate(folders):
        write_run(folder, seed=seed, levels__name=evil, policy__network=evil)
    write_run(Path("c"), algo=evil)
    (write_run(Path(f"torn{evil}")) / "summary.json").write_text("{")
    code, out, err = call(*map(str, folders), "c", f"torn{evil}", f"out={evil}.svg")
    assert (code, "run 3: c" in out, "run 4" in out) == (0, True, False)
    assert err.endswith("/summary.json: not the summary of a run; left out\n")  # and keeps no other out
    assert not {"\x1b", "\x07"} & {*out, *err}
    assert "\\x1b" in out
    assert "<img" not in Path(f"{evil}.svg").read_text("utf-8")


def test_exact_gradients_have_no_steps_beside_steps_that_are_played(call):
    write_run(Path("a"), algo__counted_steps=100)
    write_run(Path("b"), algo="exact", summary=TOOK, algo__counted_steps=100)
    write_run(Path("c"), algo="exact", finished=False, algo__counted_steps=100)
    out = call("a", "b", "c")[1]
    assert ["2", "exact", "generated", "0", "-", *["0.870", "0.770", "0.970", "0.670", "61"]] in cells(out)
    assert "run 2: b: 20 updates of 64 levels; network rows: 12.3 M forward, 9,000 backward" in out
    assert "run 3: c (not finished: 60%): 12 updates" in out
    runs = [read_run(Path(name)) for name in "abc"]
    for chosen, of, axis, steps in (
        (runs, 1, "share of training, %", [0, 50]),
        (runs[1:], 0, "updates", [0, 10]),
        (runs[:1], 0, "environment steps", [0, 1000]),
    ):
        found, curves = curves_over_training(configurations(chosen))
        assert (found, curves[of]["train", "usefulness"][0][0]) == (axis, steps)
