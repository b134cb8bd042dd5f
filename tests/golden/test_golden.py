"""Trained agents are, bit for bit, those that they were, where the machine is the one on which they were recorded."""

import json

import pytest

from tests.golden.__main__ import GOLDEN, this_machine
from tests.helpers.commands import python


@pytest.mark.slow
@pytest.mark.every_turn
def test_golden_runs_are_as_recorded():
    recorded = json.loads(GOLDEN.read_text("utf-8"))
    if (found := this_machine()) != {name: recorded[name] for name in found}:
        pytest.skip(f"golden runs are of another machine: {recorded['processor']}, torch {recorded['torch']}")
    assert "DIFFER" not in python("-m", "tests.golden")
