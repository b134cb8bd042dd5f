"""The first commands of the README and the tutorial of the first hour work as they are printed."""

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


def run(code, folder, *, language="bash"):
    """Run a block as somebody does who has copied it, with `drest` on the path; return what it prints."""
    environment = {**os.environ, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    words = ["bash", "-ec"] if language == "bash" else ["python", "-c"]
    done = subprocess.run([*words, code], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_level_of_the_readme(tmp_path):
    """The commands that make and evaluate it print what the README shows, and write its pictures."""
    (made, shown) = (block.text for block in blocks(ROOT / "README.md")[1:3])
    printed = [line.rstrip() for line in run(made, tmp_path).splitlines() if line.strip()]
    assert printed == [line.rstrip() for line in shown.splitlines() if line.strip()]
    assert (tmp_path / "pictures" / "mine.png").exists()
    assert (tmp_path / "mine.gif").exists()


@pytest.mark.slow
def test_the_first_hour_as_it_is_printed(tmp_path):
    """Every file, command and block of Python of the page, in order, in an empty folder, at its full length."""
    printed = []
    for block in blocks(ROOT / "docs" / "tutorials" / "first-hour.md"):
        if block.file:
            (tmp_path / block.file).parent.mkdir(exist_ok=True)
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        elif block.language in ("bash", "python"):
            printed.append(run(block.text, tmp_path, language=block.language))
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
