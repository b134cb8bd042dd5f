"""A reader who follows the data passes no more files than today."""

import subprocess
import sys

import pytest

from tests.house.walk import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("walk", "most"), [("train", 70), ("evaluate", 41)])
def test_the_way_of_the_data_does_not_get_longer(walk, most):
    done = subprocess.run(
        [sys.executable, "-m", "tests.house.walk", walk], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = done.stdout.splitlines()[:-1]
    assert 30 < len(files) <= most, files
