"""metrics.csv: a line for each step and metric, and after a kill the same bytes as if there had been none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from drest_torch.tracking.sinks import LoggerConfig, Loggers

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


@pytest.mark.parametrize("torn", ["", "50,a/b,0.", '50,"late, an', "\0\0\0", "50"])
def test_a_resumed_run_continues_after_its_checkpoint(tmp_path: Path, torn: str) -> None:
    expected = log(tmp_path / "straight", range(0, 60, 10)).read_bytes()
    path = log(tmp_path / "killed", range(0, 50, 10))  # the checkpoint is at 20
    path.write_bytes(path.read_bytes() + torn.encode())
    log(tmp_path / "killed", range(30, 60, 10), continue_from=20)
    assert path.read_bytes() == expected
    assert sorted(each.name for each in path.parent.iterdir()) == ["metrics.csv", "metrics.jsonl"]
