"""Trained agents are, bit for bit, those that they were, where the machine is the one on which they were recorded."""

import json
import os
import subprocess
import sys

import pytest

from tests.golden.__main__ import GOLDEN, this_machine
from tests.helpers.documents import ROOT


@pytest.mark.slow
@pytest.mark.every_turn
def test_golden_runs_are_as_recorded():
    recorded = json.loads(GOLDEN.read_text("utf-8"))
    if (found := this_machine()) != {name: recorded[name] for name in found}:
        pytest.skip(f"golden runs are of another machine: {recorded['processor']}, torch {recorded['torch']}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.golden"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert "DIFFER" not in result.stdout, result.stdout
    assert result.returncode == 0, result.stderr
