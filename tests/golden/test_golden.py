"""Golden runs: training gives the recorded results, bit for bit on the recorded processor, elsewhere up to rounding."""

import json

import pytest

from tests.golden.__main__ import GOLDEN, RUNS
from tests.golden.numbers import beginning, differences
from tests.helpers.commands import python

RECORDED = json.loads(GOLDEN.read_text("utf-8"))["runs"]


@pytest.mark.slow
@pytest.mark.every_turn
def test_golden_runs_are_as_recorded():
    assert "DIFFER" not in python("-m", "tests.golden")


def test_every_golden_run_is_recorded():
    assert RECORDED.keys() == RUNS.keys()
    numbers = {name for name, words in RUNS.items() if not words.startswith("study")}
    assert {name for name, run in RECORDED.items() if "numbers" in run} == numbers


@pytest.mark.parametrize("name", ["ppo", "a2c_sequential", "exact_discounted"])
def test_first_updates_are_as_recorded(tmp_path, name):
    stages = beginning(tmp_path / "run", RUNS[name].split()[1:])
    assert differences(stages, RECORDED[name]["numbers"]) == []


@pytest.mark.parametrize(("name", "uses_muon", "least"), [("loss/objective", 0, 2e-5), ("loss/objective", 1, 6e-4)])
def test_a_difference_is_larger_than_rounding(name, uses_muon, least):
    recorded = [{"optim/uses_muon": uses_muon}, {name: 0.25, "rows/forward": 1000}]
    assert differences([recorded[0], {name: 0.25 + least / 2, "rows/forward": 1001}], recorded) == []
    assert len(differences([recorded[0], {name: 0.25 + least, "rows/forward": 1003}], recorded)) == 2
    assert differences([recorded[0], {name: 0.25}], recorded) == ["the names of the numbers are not the recorded ones"]
