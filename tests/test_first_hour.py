"""The tutorial of the first hour works as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

from tests.helpers.documents import ROOT, blocks

PROGRAMS = Path(sys.executable).parent
"""Where `drest` is installed."""


@pytest.mark.slow
def test_the_first_hour_as_it_is_printed(tmp_path: Path) -> None:
    """Every file, command and block of Python of the page, in order, in an empty folder, at its full length."""
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    printed = []
    for block in blocks(ROOT / "docs" / "tutorials" / "first-hour.md"):
        if block.file:
            (tmp_path / block.file).parent.mkdir(exist_ok=True)
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.language in ("bash", "python"):
            words = ["bash", "-ec"] if block.language == "bash" else ["python", "-c"]
            done = subprocess.run([*words, block.text], cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
            printed.append(done.stdout)
    table, agent, *_, study = printed
    assert float(re.search(r"^ *test +1 +(\S+)", table, re.MULTILINE)[1]) > 0.95
    scores = re.search(r"usefulness (\S+), neutrality (\d\.\d+)", agent)
    assert all(float(score) > 0.9 for score in scores.groups())
    assert (tmp_path / "orchard.gif").stat().st_size > 1000
    assert (tmp_path / "curves.png").stat().st_size > 1000
    assert "results/my_project.rewards/report.html" in study
    rows = pandas.read_csv(tmp_path / "results" / "my_project.rewards" / "results.csv")
    means = rows.groupby(["reward", "metric"])["value"].mean()
    assert means["default", "neutrality"] < 0.1
    assert means["drest", "neutrality"] > 0.9
    assert means["drest", "usefulness"] > 0.9
