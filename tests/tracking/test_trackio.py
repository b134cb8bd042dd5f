"""The logger for Trackio, with a module in its place that accepts the documented arguments and no others."""

import sys
from types import ModuleType

import pytest

from drest_torch.errors import UserError
from drest_torch.tracking.sinks import LoggerConfig, Loggers, RunInfo


class FakeRun:
    """A run that records its calls."""

    def __init__(self, **values):
        self.values, self.rows, self.is_finished = values, [], False

    def log(self, metrics, step=None):
        self.rows.append((step, metrics))

    def finish(self):
        self.is_finished = True


@pytest.fixture
def runs(monkeypatch):
    """Return the list of runs that the module has begun."""
    begun = []

    def init(project, name=None, group=None, space_id=None, config=None, resume="never"):
        begun.append(FakeRun(project=project, name=name, group=group, space_id=space_id, config=config, resume=resume))
        return begun[-1]

    module = ModuleType("trackio")
    module.init = init
    module.Image = lambda path: f"image {path}"
    monkeypatch.setitem(sys.modules, "trackio", module)
    return begun


def log(folder, steps, continue_from=0, **options):
    """Log a number at each of these steps."""
    config = LoggerConfig({"trackio": options or None}, project="p", group="g")
    with Loggers(RunInfo(folder, config, {"seed": 3}), continue_from) as loggers:
        for step in steps:
            loggers.log(step, {"n": step / 2})
        loggers.picture("curves", folder / "p.png")
        loggers.summary({"u": 0.5})


def test_a_run_has_its_names(runs, tmp_path):
    log(tmp_path / "mine", [0], space_id="me/space")
    (run,) = runs
    expected = {"project": "p", "name": "mine", "group": "g", "space_id": "me/space", "resume": "never"}
    assert {name: run.values[name] for name in expected} == expected
    assert run.values["config"]["seed"] == 3


def test_a_run_has_its_metrics(runs, tmp_path):
    log(tmp_path, [0, 100])
    (run,) = runs
    assert run.rows[:2] == [(0, {"n": 0.0}), (100, {"n": 50.0})]
    assert run.rows[2] == (100, {"curves": f"image {tmp_path / 'p.png'}"})
    assert run.rows[3] == (100, {"summary/u": 0.5})
    assert run.is_finished


def test_a_resumed_run_continues_under_its_name(runs, tmp_path):
    log(tmp_path / "mine", [0, 100])
    log(tmp_path / "mine", [200], continue_from=100)
    first, second = runs
    assert second.values["name"] == first.values["name"]
    assert second.values["resume"] == "allow"
    assert [step for step, metrics in second.rows if "n" in metrics] == [200]


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UserError, match=r"^logger=trackio needs the package trackio .*pip install trackio"):
        log(tmp_path, [0])
