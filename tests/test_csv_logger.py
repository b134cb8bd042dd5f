"""metrics.csv: a line for each step and metric, and after a kill the same bytes as if there had been none."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from drest_torch.tracking.sinks import LoggerConfig, Loggers, read_metrics
from drest_torch.training.run import resume, start
from tests.helpers.runs import configured, stop_after

CSV = LoggerConfig({"csv": None})


def log(folder: Path, steps: range, continue_from: int = 0) -> Path:
    with Loggers(CSV, folder, {}, continue_from=continue_from) as loggers:
        for step in steps:
            late = {"late, and quoted": step / 7} if step > 20 else {}
            loggers.log(step, {"a/b": step / 3, **late})
    return folder / "metrics.csv"


def test_a_line_for_each_step_and_metric(tmp_path: Path) -> None:
    with Loggers(CSV, tmp_path, {}) as loggers:
        loggers.log(0, {"a/b": 0.1, "bad": math.nan, "worse": math.inf})
        loggers.log(10, {"a/b": 2, "new": 1e-30})
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,name,value\n0,a/b,0.1\n0,bad,\n0,worse,\n10,a/b,2.0\n10,new,1e-30\n"


def test_pandas_reads_it_as_it_was_logged(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = pandas.read_csv(log(tmp_path, range(0, 50, 10)), float_precision="round_trip")
    wide = table.pivot(index="step", columns="name", values="value")
    assert wide["a/b"].to_dict() == {step: step / 3 for step in range(0, 50, 10)}
    assert wide["late, and quoted"].dropna().to_dict() == {30: 30 / 7, 40: 40 / 7}


@pytest.mark.parametrize("torn", ["", "50,a/b,0.", '50,"late, an', "\0\0\0", "50"])
def test_a_resumed_run_continues_after_its_checkpoint(tmp_path: Path, torn: str) -> None:
    expected = log(tmp_path / "straight", range(0, 60, 10)).read_bytes()
    path = log(tmp_path / "killed", range(0, 50, 10))  # the checkpoint is at 20
    path.write_bytes(path.read_bytes() + torn.encode())
    log(tmp_path / "killed", range(30, 60, 10), continue_from=20)
    assert path.read_bytes() == expected
    assert sorted(each.name for each in path.parent.iterdir()) == ["metrics.csv", "metrics.jsonl"]


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    log(tmp_path, range(0, 20, 10))
    assert log(tmp_path, range(0, 10, 10)).read_text() == "step,name,value\n0,a/b,0.0\n"


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed_leaves_what_metrics_jsonl_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(configured(tmp_path / "run", "logger=csv", "pictures=0"))
    stop_after(run, 2, monkeypatch)
    assert run.train() is None
    resume(run.folder).train()
    with (run.folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        lines = [(int(line["step"]), line["name"], float(line["value"] or "nan")) for line in csv.DictReader(file)]
    rows = read_metrics(run.folder / "metrics.jsonl")
    wanted = [(int(row["step"]), name, value) for row in rows for name, value in row.items() if name != "step"]
    assert [line[:2] for line in lines] == [line[:2] for line in wanted]
    assert [line[2] for line in lines] == pytest.approx([line[2] for line in wanted], abs=0, rel=0, nan_ok=True)
