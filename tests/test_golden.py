"""Trained agents are, bit for bit, those that they were, where the machine is the one on which they were recorded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import GOLDEN, this_machine


@pytest.mark.slow
@pytest.mark.every_turn
def test_golden_runs_are_as_recorded():
    recorded = json.loads(GOLDEN.read_text("utf-8"))
    if (found := this_machine()) != {name: recorded[name] for name in found}:
        pytest.skip(f"golden runs are of another machine: {recorded['processor']}, torch {recorded['torch']}")
    result = subprocess.run(
        [sys.executable, "-m", "tests.golden"],
        cwd=Path(__file__).parents[1],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert "DIFFER" not in result.stdout, result.stdout
    assert result.returncode == 0, result.stderr
