"""Tests of ``drest compare``, which reads runs from their folders alone."""

import json
import re
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from drest_torch import compare
from drest_torch.comparison.aggregation import aggregated
from drest_torch.comparison.configurations import configurations, curves_over_training, labels
from drest_torch.comparison.records import RUNS_OF_SWEEP, find_runs, read_run
from drest_torch.plots.curves import compare_curves
from tests.helpers.comparing import POLE, write_run


@pytest.fixture
def call(call):
    return partial(call, compare.main)


def cells(out):
    return [line.split() for line in out.splitlines()]


def test_a_comparison_has_results_with_differing_settings(call):
    write_run(Path("a"))
    write_run(Path("b"), algo="a2c", seed=3)
    code, out, err = call("a", "b")
    assert code == 0
    assert err == ""
    numbers = ["2,040", "0.870", "0.770", "0.970", "0.670", "61"]
    first, second, *others = cells(out)
    assert first == ["usefulness", "neutrality"]
    assert second == ["run", "algorithm", "levels", "seed", "steps", *["train", "test"] * 2, "seconds"]
    assert ["1", "ppo", "generated", "0", *numbers] in others
    assert ["2", "a2c", "generated", "3", *numbers] in others
    for line in ("algo.name ppo 1", "a2c 2", "seed 0 1", "run 2: b"):
        assert line.split() in others
    assert not re.search(r"reward|algo\.lr|algo\.clip|run_dir|not finished", out)  # equal settings


def test_an_unfinished_run_is_marked_in_the_table(call):
    write_run(Path("a"), finished=False)
    out = call("a")[1]
    values = ["1,200*", "0.510", "0.410", "0.610", "0.310", "10"]
    assert ["1", "ppo", "generated", "0", *values] in cells(out)
    assert "run 1: a (not finished: 60%)" in out


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("new/a.svg", b"<?xml"), ("a.PDF", b"%PDF")])
def test_a_run_without_metrics_has_a_picture(call, name, begins):
    write_run(Path("a"), finished=False)
    Path("a/metrics.jsonl").unlink()
    code, out, _ = call("a", f"out={name}")
    assert code == 0
    assert f"The learning curves are in {name}" in out
    assert Path(name).read_bytes().startswith(begins)
    assert ["1", "ppo", "generated", "0", "0*", "-"] in cells(out)


@pytest.fixture
def sweep(tmp_path):
    """Write three runs, and a sweep that lists two of them and a deleted one; return the folder of all runs."""
    for name in "abc":
        write_run(tmp_path / "runs" / name)
    sweep = tmp_path / "runs" / "multirun" / "now"
    sweep.mkdir(parents=True)
    (sweep / RUNS_OF_SWEEP).write_text("../../b\n../../deleted\n../../a\n")
    (tmp_path / "runs" / "notes.txt").write_text("")
    return tmp_path / "runs"


@pytest.mark.parametrize(("folder", "expected"), [("runs", "abc"), ("runs/multirun/now", "ba")])
def test_runs_are_read_from_nested_folders(call, sweep, folder, expected):
    runs, refused = find_runs([Path(folder)])
    assert [run.folder for run in runs] == [Path("runs", name) for name in expected]
    assert refused == []


def test_a_run_in_several_folders_is_listed_once(call, sweep):
    code, out, err = call(*(f"runs/{path.name}" for path in sorted(sweep.iterdir())))
    assert code == 0
    assert "run 3: runs/c" in out
    assert "run 4" not in out
    assert err.count("\n") == 1
    assert "runs/notes.txt: no run in it" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no run is named"),
        (["nowhere"], "nowhere: no such folder"),
        (["other"], "other/config.yaml: not the configuration"),
        (["torn"], "torn/summary.json: not the summary"),
        (["a", "out=a.gif"], "a.gif: cannot be written"),
        (["a", "out=a.png", "out=a.png"], "out=a.png: given twice"),
        (["a", "outt=a.png"], "outt=a.png: no such key; expected out, table, plot, aggregate, over, across, or"),
        (["a", "aggregate=max"], "aggregate=max: expected one of mean, median, iqm"),
        (["a", "over=levels"], "over=levels: expected one of seeds, both"),
        (["a", "table=rows"], "table=rows: expected one of configurations, runs, levels, improvement"),
        (["a", "plot=bars"], "plot=bars: expected one of curves, profile"),
        (["a", "across=algoo"], "across=algoo: no run has this key"),
        (["a", "table=levels", "out=a.tex"], "a.tex: table=levels has thousands of rows; expected .csv or .json"),
        (["a", "out=a/summary.json"], "a/summary.json: would replace"),
        (["a", "--out", "a.png"], "--out: no such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_argument_is_refused_in_one_sentence(call, arguments, words):
    write_run(Path("a"))
    Path("other").mkdir()
    Path("other/config.yaml").write_text("defaults: [a, b]\n")
    (write_run(Path("torn")) / "summary.json").write_text('{"env_st')
    assert words in call(*arguments).sentence


def test_runs_have_colours_in_the_axes_of_each_split(tmp_path):
    figure = plotted([read_run(write_run(tmp_path / f"{lr}", algo__lr=lr)) for lr in range(14)])
    assert len(figure.axes) == 4
    train = figure.axes[0].lines
    assert [list(line.get_xdata()) for line in train] == [[0, 1000]] * 14
    assert [list(line.get_ydata()) for line in train] == [[0.1, 0.51]] * 14
    assert len({tuple(line.get_color()) for line in train}) == 14
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["lr 0", "lr 1"]


def test_a_label_has_the_settings_in_which_runs_differ(tmp_path):
    """Settings implied by the algorithm are omitted, and at most three further settings are listed."""
    both = [write_run(tmp_path / "a", algo__lr=1), write_run(tmp_path / "b", algo="a2c", algo__lr=2)]
    assert labels(configurations([read_run(folder) for folder in both])) == ["ppo", "a2c"]
    many = {"algo__lr": 3, "algo__clip": 4, "policy__width": 5, "policy__depth": 6}
    folders = [*both, write_run(tmp_path / "c", **dict.fromkeys(many, 0)), write_run(tmp_path / "d", **many)]
    third, fourth = labels(configurations([read_run(folder) for folder in folders]))[2:]
    assert fourth.startswith("ppo, ")
    assert len(fourth.split(", ")) == len(third.split(", ")) == 1 + 3


def test_the_table_has_a_column_for_differing_rewards(call):
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


@pytest.fixture
def seeds_and_another(call):
    """Write the runs a, b and c, which differ in their seed and are each 0.1 more useful and evaluated 100 steps later,
    and the run d."""
    for seed, name in enumerate("abc"):
        train = {"usefulness": 0.7 + seed / 10, "neutrality": 0.97, "optimum": {"neutrality": 1.0}}
        folder = write_run(Path(name), seed=seed, summary={"splits": {"train": train}})
        rows = [{"step": at + 100 * seed * (at > 0), "eval/train/usefulness": at / 1000} for at in (0, 1000)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_run(Path("d"), algo="a2c")


@pytest.mark.usefixtures("seeds_and_another")
def test_seeds_of_a_configuration_have_an_interval(call):
    out = call("a", "d", "b", "c")[1]
    # By hand: 4.303 x 0.1 / sqrt(3) = 0.248 around 0.8; neutrality and the upper end are cut off at possible values.
    assert ["1", "3", "4", "ppo", "train", "3", "0.800", "(0.552-1.000)", "0.970", "(0.970-0.970)"] in cells(out)
    assert not any(line[:3] == ["2", "a2c", "train"] for line in cells(out))  # a single seed has no interval
    for number, name in enumerate("adbc", start=1):
        assert f"run {number}: {name}" in out
    assert "mean over seeds" not in call("a", "d")[1]


@pytest.mark.usefixtures("seeds_and_another")
def test_seeds_of_a_configuration_are_plotted_as_a_band():
    figure = plotted([read_run(Path(name)) for name in "adbc"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "ppo, 3 seeds",
        "a2c",
        "line: mean over seeds; band: lowest to highest seed",
    ]
    seeds, alone = figure.axes[0].lines
    assert seeds.get_xdata()[-1] == 1000  # the last step that all seeds have reached
    assert alone.get_xdata()[-1] == 1000
    assert seeds.get_ydata()[-1] == pytest.approx((1 + 1000 / 1100 + 1000 / 1200) / 3)
    (band,) = figure.axes[0].collections
    assert band.get_paths()[0].vertices[:, 1].min() == 0
    assert figure.axes[0].get_ylim()[1] <= 1.1


def test_runs_outside_gridworlds_have_their_environment(call):
    write_run(Path("a"), **POLE)
    write_run(Path("b"), **POLE, levels__name="other")
    out = call("a", "b")[1]
    assert ["run", "algorithm", "environment", "seed"] in [line[:4] for line in cells(out)]
    assert "CartPole-v1" in out
    assert "levels" not in out  # a setting of gridworlds, in which the runs differ
    assert "sampled mini-episodes" in out


def test_runs_of_both_kinds_have_a_task(call):
    write_run(Path("a"), **POLE)
    write_run(Path("b"))
    out = call("a", "b", "out=a.svg")[1]
    rows = [line[:4] for line in cells(out)]
    assert ["run", "algorithm", "task", "seed"] in rows
    assert ["1", "ppo", "CartPole-v1", "0"] in rows
    assert ["2", "ppo", "generated", "0"] in rows
    assert labels(configurations([read_run(Path(name)) for name in "ab"])) == ["CartPole-v1", "generated"]


def test_an_unfinished_neutrality_has_an_interval_below_log2_k(tmp_path):
    """The neutralities are 0.9 and 1.0, so that an interval without bounds would reach 1.585."""
    runs = []
    for seed, bits in enumerate((0.9, 1.0)):
        folder = write_run(tmp_path / f"{seed}", seed=seed, finished=False)
        row = {"step": 1, "eval/test/neutrality": bits, "eval/test/neutrality_normalised": bits}
        (folder / "metrics.jsonl").write_text(json.dumps(row))
        runs.append(read_run(folder))
    (configuration,) = configurations(runs)
    score = aggregated(configuration, "test", "neutrality")
    assert score.high == 1.0
    assert score.low == pytest.approx(0.95 - 12.706 * 0.05, abs=1e-3)


def test_labels_that_would_be_equal_have_numbers_of_runs(tmp_path):
    """Labels have at most three further settings, and the last two configurations differ in the fourth alone."""
    keys = [f"policy__{key}" for key in "wxyz"]
    settings = [dict.fromkeys(keys, 0) | {key: 1} for key in keys] + [dict.fromkeys(keys, 0)]
    folders = [write_run(tmp_path / f"{index}", **values) for index, values in enumerate(settings)]
    names = labels(configurations([read_run(folder) for folder in folders]))
    assert names[0] == "w 1, x 0, y 0"
    assert names[3:] == ["w 0, x 0, y 0, run 4", "w 0, x 0, y 0, run 5"]


def test_a_repeated_seed_counts_as_a_run(tmp_path):
    runs = [read_run(write_run(tmp_path / f"{index}", seed=seed)) for index, seed in enumerate((0, 1, 1))]
    assert labels(configurations(runs)) == ["ppo, 3 runs"]


@pytest.mark.usefixtures("seeds_and_another")
def test_a_line_may_be_the_median_of_its_seeds():
    compared = configurations([read_run(Path(name)) for name in "abc"])
    axis, curves = curves_over_training(compared)
    with patch("drest_torch.plots.curves.write_figure") as write:
        compare_curves(curves, labels(compared), Path("curves.png"), axis, aggregate="median")
    (figure, _) = write.call_args.args
    assert figure.axes[0].lines[0].get_ydata()[-1] == pytest.approx(1000 / 1100)
    assert figure.legends[0].get_texts()[-1].get_text() == "line: median over seeds; band: lowest to highest seed"


EFFORT = {"updates": 20, "levels_per_update": 64, "forward_rows": 12_300_000, "backward_rows": 9_000}
TEXTS = ("", "null", "[]", "{}", "5", '"text"', "{", "\x00", "[" * 3000, "a: [1", "9" * 400)
VALUES = (None, "x", [], {}, -1, 0, float("nan"), float("inf"), 10**300, True, "$x^$")


def with_odd_values(values):
    """Yield nested values with an odd value in one place."""
    for key, value in values.items():
        yield from (values | {key: odd} for odd in VALUES)
        if isinstance(value, dict):
            yield from (values | {key: changed} for changed in with_odd_values(value))


def check_output(call, *arguments):
    """Check that the command raises no exception, and that every error line names the run."""
    code, out, err = call(*arguments)
    assert code == 0 or (code == 2 and not out)
    assert err.count("\n") == (code == 2 or "left out" in err), err
    assert not err or re.match(r"drest_torch: run/?[\w.]*: ", err), err


@pytest.mark.parametrize("name", ["config.yaml", "summary.json", "metrics.jsonl", RUNS_OF_SWEEP])
def test_a_damaged_file_of_a_run_raises_no_exception(call, name):
    file = write_run(Path("run"), finished=name != "metrics.jsonl") / name
    whole = file.read_bytes() if file.exists() else b"/dev/null\nrun\n"
    for data in (*(text.encode() for text in TEXTS), whole[: len(whole) // 2], b"\xff\xfe" + whole, whole[::-1]):
        file.write_bytes(data)
        check_output(call, "run")
    file.unlink()
    check_output(call, "run")
    file.mkdir()
    check_output(call, "run")


def test_a_value_of_the_wrong_type_raises_no_exception(call):
    folder = write_run(Path("run"), algo="exact", summary=EFFORT, algo__counted_steps=100)
    write_run(Path("other"), algo="exact", seed=1, algo__counted_steps=100)
    for file in (folder / "config.yaml", folder / "summary.json"):
        whole = file.read_text()
        for changed in with_odd_values(yaml.safe_load(whole)):
            file.write_text(json.dumps(changed))
            check_output(call, "run", "other")
        file.write_text(whole)


def test_no_escape_sequence_of_a_name_reaches_the_terminal(call):
    evil = "\x1b]0;owned\x07\x1b[31m<img src=x onerror=alert(1)>"
    folders = [Path(f"a{evil.replace('/', '')}"), Path("b")]
    for seed, folder in enumerate(folders):
        write_run(folder, seed=seed, levels__name=evil, policy__network=evil)
    write_run(Path("c"), algo=evil)
    (write_run(Path(f"torn{evil}")) / "summary.json").write_text("{")
    code, out, err = call(*map(str, folders), "c", f"torn{evil}", f"out={evil}.svg")
    assert code == 0
    assert "run 3: c" in out
    assert "run 4" not in out
    assert err.endswith("/summary.json: not the summary of a run; left out\n")
    assert not {"\x1b", "\x07"} & {*out, *err}
    assert "\\x1b" in out
    assert "<img" not in Path(f"{evil}.svg").read_text("utf-8")


@pytest.fixture
def sampled_with_exact_runs(call):
    """Write a run a with PPO, and runs b and c with exact gradients."""
    write_run(Path("a"), algo__counted_steps=100)
    write_run(Path("b"), algo="exact", summary=EFFORT, algo__counted_steps=100)
    write_run(Path("c"), algo="exact", finished=False, algo__counted_steps=100)


@pytest.mark.usefixtures("sampled_with_exact_runs")
def test_exact_gradients_have_updates_instead_of_steps(call):
    out = call("a", "b", "c")[1]
    assert ["2", "exact", "generated", "0", "-", *["0.870", "0.770", "0.970", "0.670", "61"]] in cells(out)
    assert "run 2: b: 20 updates of 64 levels; network rows: 12.3 M forward, 9,000 backward" in out
    assert "run 3: c (not finished: 60%): 12 updates" in out


def test_distillation_has_updates_instead_of_steps(call):
    write_run(Path("a"), algo="distil", summary=EFFORT, algo__counted_steps=100)
    write_run(Path("b"), algo="distil", finished=False, algo__counted_steps=100)
    out = call("a", "b")[1]
    assert "run 1: a: 20 updates of 64 levels; network rows: 12.3 M forward, 9,000 backward" in out
    assert "run 2: b (not finished: 60%): 12 updates" in out


@pytest.mark.usefixtures("sampled_with_exact_runs")
@pytest.mark.parametrize(
    ("names", "index", "axis", "steps"),
    [
        ("abc", 1, "share of training, %", [0, 50]),
        ("bc", 0, "updates", [0, 10]),
        ("a", 0, "environment steps", [0, 1000]),
    ],
)
def test_curves_have_an_axis_that_fits_the_algorithms(names, index, axis, steps):
    runs = [read_run(Path(name)) for name in names]
    common_axis, curves = curves_over_training(configurations(runs))
    assert common_axis == axis
    assert curves[index]["train", "usefulness"][0][0] == steps
