"""metrics.csv: a line for each step and metric, and after a kill the same bytes as if there had been none."""

import math

import pytest

from drest_torch.tracking.sinks import LoggerConfig, Loggers

CSV = LoggerConfig({"csv": None})


def log(folder, steps, continue_from=0):
    with Loggers(CSV, folder, {}, continue_from=continue_from) as loggers:
        for step in steps:
            late = {"late, and quoted": step / 7} if step > 20 else {}
            loggers.log(step, {"a/b": step / 3, **late})


def test_a_line_for_each_step_and_metric(tmp_path):
    with Loggers(CSV, tmp_path, {}) as loggers:
        loggers.log(0, {"a/b": 0.1, "bad": math.nan, "worse": math.inf})
        loggers.log(10, {"a/b": 2, "new": 1e-30})
    text = (tmp_path / "metrics.csv").read_text()
    assert text == "step,name,value\n0,a/b,0.1\n0,bad,\n0,worse,\n10,a/b,2.0\n10,new,1e-30\n"


@pytest.mark.parametrize(
    "torn",
    [
        *(b"", b"50,a/b,0.", b'50,"late, an', b"\0\0\0", b"50"),
        *(b'{"st', b'{"step": 50, "a": 0.', b"[]", b'{"a": 1}', '{"step": 50, "é'.encode()[:-1]),
    ],
)
def test_a_resumed_run_continues_after_its_checkpoint(tmp_path, torn):
    """In metrics.csv and in metrics.jsonl, whatever a kill has left at their ends."""
    names = ["metrics.csv", "metrics.jsonl"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    log(straight, range(0, 60, 10))
    log(killed, range(0, 50, 10))  # the checkpoint is at 20
    for name in names:
        (killed / name).write_bytes((killed / name).read_bytes() + torn)
    log(killed, range(30, 60, 10), continue_from=20)
    for name in names:
        assert (killed / name).read_bytes() == (straight / name).read_bytes(), name
    assert sorted(each.name for each in killed.iterdir()) == names
