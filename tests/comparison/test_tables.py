"""Tables of ``drest compare``: frames, files, and aggregates over seeds and levels."""

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drest_torch import compare
from drest_torch.compare import frame
from drest_torch.comparison.documents import latex_text
from drest_torch.statistics.aggregates import interquartile_mean, probability_of_improvement
from drest_torch.statistics.intervals import t_interval
from tests.helpers.comparing import write_evaluated, write_run

PPO = np.array([[0.1, 0.9, 0.4, 0.8], [0.3, 0.7, 0.2, 0.6], [0.5, 0.8, 0.3, 0.7]])
A2C = np.array([[0.2, 0.4, 0.6, 0.1], [0.2, 0.8, 0.1, 0.0]])


@pytest.fixture
def call(call):
    return partial(call, compare.main)


@pytest.fixture
def runs(call):
    """Write three seeds of PPO, and two of A2C with fewer steps, on the same four levels."""
    for algo, scores in (("ppo", PPO), ("a2c", A2C)):
        for seed, levels in enumerate(scores):
            steps = 2000 + 100 * seed if algo == "ppo" else 1000
            write_evaluated(Path(f"runs/{algo}{seed}"), levels.tolist(), steps=steps, algo=algo, seed=seed)
    return Path("runs")


def values_of(table, **where):
    """Return the only row with these values."""
    for column, value in where.items():
        table = table[table[column] == value]
    (row,) = table.to_dict("records")
    return row


def test_a_frame_of_configurations_has_intervals_over_seeds(runs):
    table = frame(runs)
    assert table.columns.tolist()[:6] == [
        *("configuration", "algorithm", "reward", "task", "env_steps_least", "env_steps_most")
    ]
    row = values_of(table, algorithm="ppo", measure="usefulness")
    expected = t_interval(PPO.mean(1))
    assert row["configuration"] == "ppo, 3 seeds"
    assert (row["env_steps_least"], row["env_steps_most"]) == (2000, 2200)
    assert (row["seeds"], row["levels"]) == (3, 4)
    assert row["value"] == pytest.approx(PPO.mean())
    assert row["low"] == pytest.approx(expected.low)
    assert row["high"] == pytest.approx(expected.high)


@pytest.mark.parametrize("over", ["seeds", "both"])
def test_a_frame_has_interquartile_means(runs, over):
    row = values_of(frame(runs, aggregate="iqm", over=over), algorithm="a2c", measure="neutrality_bits")
    assert row["value"] == pytest.approx(interquartile_mean([A2C / 2]))
    assert 0 <= row["low"] <= row["value"] <= row["high"] <= 1


@pytest.mark.parametrize("aggregate", ["mean", "median", "iqm"])
@pytest.mark.parametrize("over", ["seeds", "both"])
def test_no_interval_leaves_the_range_of_its_measure(call, aggregate, over):
    """Scores near 1, with a seed that fails: intervals without bounds would exceed 1."""
    for seed, score in enumerate((1.0, 1.0, 0.7)):
        write_evaluated(Path(f"high{seed}"), [score, 1.0], seed=seed)
    table = frame([f"high{seed}" for seed in range(3)], aggregate=aggregate, over=over)
    assert (table.high <= 1).all()
    assert (table.low >= 0).all()
    assert not table.value.isna().any()


def test_a_single_seed_has_no_interval(call):
    table = frame(write_evaluated(Path("alone"), [0.5, 0.7]))
    assert table.low.isna().all()
    assert values_of(table, measure="usefulness")["value"] == pytest.approx(0.6)


def test_a_frame_of_runs_has_one_value_a_row(runs):
    table = frame(runs, table="runs")
    assert len(table) == 5 * 3
    row = values_of(table, folder="runs/ppo2", measure="usefulness")
    assert row["value"] == pytest.approx(PPO[2].mean())
    assert row["run"] == 5
    assert row["seed"] == 2
    assert row["env_steps"] == 2200
    assert row["finished"] is True


def test_a_frame_of_runs_has_the_settings_in_which_they_differ(call):
    for lr in (1, 2):
        write_run(Path(f"runs/{lr}"), algo__lr=lr)
    table = frame("runs", table="runs")
    assert table.groupby("algo.lr").size().to_dict() == {1: 4, 2: 4}


def test_a_frame_of_levels_has_the_values_of_each_level(runs):
    table = frame(runs, table="levels")
    useful = table[table.measure == "usefulness"].pivot(index="folder", columns="level", values="value")
    assert useful.loc["runs/ppo1"].tolist() == PPO[1].tolist()
    lengths = table[(table.measure == "length_probability") & (table.folder == "runs/a2c0")]
    assert dict(zip(lengths.length_ticks, lengths.value, strict=True)) == {4: 0.25, 8: 0.75}


def test_a_frame_of_improvements_has_each_pair_once(runs):
    table = frame(runs, table="improvement")
    row = values_of(table, measure="usefulness")
    expected = probability_of_improvement(A2C, PPO, axes=[0])
    assert (row["configuration"], row["compared_with"]) == ("a2c, 2 seeds", "ppo, 3 seeds")
    assert row["value"] == pytest.approx(expected.estimate)
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))


def test_configurations_on_other_levels_are_compared_by_means(call):
    for seed in range(2):
        write_evaluated(Path(f"runs/a{seed}"), [0.9, 0.1], seed=seed, names=["x", "y"])
        write_evaluated(Path(f"runs/b{seed}"), [0.2, 0.4], seed=seed, names=["z", "w"], algo="a2c")
    row = values_of(frame("runs", table="improvement"), measure="usefulness")
    assert (row["value"], row["levels"]) == (1.0, 1)


def test_runs_are_pooled_across_levels(call):
    for levels, scores in (("easy", [0.9, 0.7]), ("hard", [0.1, 0.3])):
        for seed in range(2):
            folder = Path(f"runs/{levels}{seed}")
            write_evaluated(folder, scores, seed=seed, levels__name=levels, env__title=levels, env__name="gridworld")
    assert frame("runs").configuration.nunique() == 2
    row = values_of(frame("runs", across="levels"), measure="usefulness")
    assert row["configuration"] == "ppo, 2 seeds"
    assert row["task"] == "easy, hard"
    assert row["value"] == pytest.approx(0.5)
    assert (row["seeds"], row["levels"]) == (2, 4)
    assert row["low"] == row["high"] == pytest.approx(0.5)  # seeds are alike; strata are not mixed


def test_a_run_without_values_by_level_has_means(runs):
    (runs / "ppo0" / "levels_test.json").write_text("[{}]")
    row = values_of(frame(runs, aggregate="median"), algorithm="ppo", measure="usefulness")
    assert row["levels"] == 1
    assert row["value"] == pytest.approx(np.median(PPO.mean(1)))


def test_a_run_without_values_by_level_is_named(call, runs):
    (runs / "ppo0" / "levels_test.json").unlink()
    err = call("runs", "table=levels", "out=a.csv").err
    assert "runs/ppo0: no values by level" in err


# ------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize("table", ["configurations", "runs", "levels", "improvement"])
def test_a_csv_or_json_file_has_the_rows_of_the_frame(call, runs, table):
    code, out, _ = call("runs", f"table={table}", "out=new/a.csv", "out=a.json")
    assert code == 0
    assert "The table is in new/a.csv" in out
    expected = frame(runs, table=table)
    pd.testing.assert_frame_equal(pd.read_csv("new/a.csv"), expected, check_dtype=False)
    rows = json.loads(Path("a.json").read_text())
    assert [row["value"] for row in rows] == expected.value.tolist()
    assert [*rows[0]] == expected.columns.tolist()
    assert "NaN" not in Path("a.json").read_text()


def test_an_interval_that_does_not_exist_is_empty(call):
    write_evaluated(Path("alone"), [0.5])
    call("alone", "out=a.csv", "out=a.json")
    with open("a.csv", encoding="utf-8") as file:
        assert {row["low"] for row in csv.DictReader(file)} == {""}
    assert {row["low"] for row in json.loads(Path("a.json").read_text())} == {None}


def test_a_latex_table_has_rules_of_booktabs(call, runs):
    call("runs", "out=a.tex")
    lines = Path("a.tex").read_text().splitlines()
    assert lines[0] == r"% needs \usepackage{booktabs}"
    assert lines[1] == "% mean over seeds (95 % interval, Student's t)"
    assert lines[2] == r"\begin{tabular}{llrr}"
    assert [line for line in lines if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r" &  & \multicolumn{2}{c}{test levels} \\" in lines
    interval = t_interval(PPO.mean(1))
    score = rf"${PPO.mean():.3f}\;[{interval.low:.3f}, {interval.high:.3f}]$"
    assert any(line.startswith(f"ppo, 3 seeds & 2,000--2,200 & {score} & ") for line in lines)
    assert lines[-1] == r"\end{tabular}"


def test_a_markdown_table_has_aligned_numbers(call, runs):
    call("runs", "table=runs", "out=a.md")
    lines = Path("a.md").read_text().splitlines()
    heads = "run | algorithm | levels | seed | environment steps"
    assert lines[0] == f"| {heads} | usefulness, test levels | neutrality (bits), test levels |"
    assert lines[1] == "| --- | --- | --- | --- | --- | ---: | ---: |"
    assert lines[2] == "| a2c0 | a2c | generated | 0 | 1,000 | 0.325 | 0.163 |"
    assert len(lines) == 2 + 5


def test_names_are_escaped_in_documents(call):
    write_evaluated(Path("a"), [0.5], levels__name="50%_of|{x}\n\\input{y} λ")
    write_evaluated(Path("b"), [0.5])
    call("a", "b", "table=runs", "out=a.tex", "out=a.md")
    assert r"50\%\_of\textbar{}\{x\} \textbackslash{}input\{y\} $\lambda$" in Path("a.tex").read_text()
    assert r"50%\_of\|{x} \\input{y} λ" in Path("a.md").read_text()
    assert len({line.count(" | ") for line in Path("a.md").read_text().splitlines() if line}) == 1


@pytest.mark.parametrize("text", ["a_b", "5 %", "a & b", "x^2", "~", "#1", "{", "\\", "$x$", "<b>", "a|b"])
def test_latex_reads_no_character_as_a_command(text):
    escaped = latex_text(text)
    for command in (r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"\textbar{}"):
        escaped = escaped.replace(command, "")
    for command in (r"\textless{}", r"\textgreater{}", r"\&", r"\%", r"\$", r"\#", r"\_", r"\{", r"\}"):
        escaped = escaped.replace(command, "")
    assert not {*escaped} & {*"\\&%$#_{}~^<>|"}


def test_a_replaced_file_is_named(call, runs):
    Path("a.tex").write_text("mine")
    assert "The table is in a.tex, in place of the file that was there" in call("runs", "out=a.tex").out
    assert "in place of" not in call("runs", "out=b.tex").out


def test_the_printed_aggregate_is_named(call, runs):
    out = call("runs", "aggregate=median", "over=both").out
    assert "median over seeds and levels (95 % bootstrap interval over" in out
    ppo = f"{np.median(PPO.mean(0)):.3f}"
    assert any(line.split()[4:7] == ["test", "3", ppo] for line in out.splitlines() if "ppo" in line)


def test_improvements_are_printed_if_they_are_asked_for(call, runs):
    out = call("runs", "table=improvement").out
    expected = probability_of_improvement(A2C, PPO).estimate
    assert f"{expected:.3f} (" in out
    assert "probability that a seed of the first is better" not in call("runs").out


@pytest.mark.parametrize("plot", ["curves", "profile"])
@pytest.mark.parametrize(("ending", "begins"), [("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_picture_is_a_vector_file(call, runs, plot, ending, begins):
    code, out, _ = call("runs", f"plot={plot}", f"out=a.{ending}")
    assert code == 0
    assert f"are in a.{ending}" in out
    assert Path(f"a.{ending}").read_bytes().startswith(begins)


def test_a_profile_of_unfinished_runs_is_refused(call):
    write_run(Path("a"), finished=False)
    Path("a/metrics.jsonl").unlink()
    assert "performance profiles need finished runs" in call("a", "plot=profile", "out=a.pdf").sentence


def test_a_frame_refuses_an_unknown_choice(runs):
    with pytest.raises(ValueError, match="aggregate=max: expected one of mean, median, iqm"):
        frame(runs, aggregate="max")
