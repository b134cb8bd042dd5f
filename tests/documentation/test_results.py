"""The tables of the README agree with the published rows, and the code reproduces a row."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.tabular_job import last, train
from drest_torch.studies import example
from drest_torch.studies.example.claims import end_of
from drest_torch.studies.shared import AS_REPORTED
from drest_torch.studies.study_rows import read_rows
from tests.helpers.documents import load
from tests.helpers.studies import composed_study

tables = load("tables")


def test_speeds_of_the_readme_are_in_the_benchmarks():
    section = (tables.DOCS.parent / "README.md").read_text("utf-8").partition("## Speed")[2].partition("\n## ")[0]
    numbers = re.findall(r"\d+,\d{3}|\d\.\d{2,}", section.replace("standard error 0.01", ""))
    measured = (tables.DOCS / "benchmarks.md").read_text("utf-8")
    assert len(numbers) >= 6
    assert [number for number in numbers if f" {number} " not in measured] == []


@pytest.mark.slow
def test_the_code_reproduces_the_first_line_of_the_table():
    """The ten default and ten DReST agents of the paper's Figure 3 are trained again."""
    cfg = composed_study("example")
    rows, _ = read_rows(tables.DOCS / "results" / "example.csv")
    for reward in example.REWARDS:
        job = example.jobs(cfg)[example.Key("example", "moves", reward)]
        spec = job.spec | {"agents": cfg.agents_in_paper, "evaluated_on": ["steps"]}
        spec["training"] = spec["training"] | {"evaluate_every": cfg.training.meta_episodes}
        trained = train(spec, Path("."))
        published = end_of(rows, reward, AS_REPORTED, sample="first").loc["example"]
        for metric in ("neutrality", "usefulness"):
            values = last(trained, "steps", metric)
            assert np.isclose(values.mean(), published[metric], atol=6e-4)
            assert np.isclose(values.std(ddof=1), published[f"{metric}_sd"], atol=6e-4)


def test_a_row_of_the_readme_has_medians_of_published_rows(tmp_path, monkeypatch):
    rows = pd.DataFrame(
        {
            "part": "end",
            "environment": "CartPole",
            "reward": ["drest", "drest", "drest", "default"],
            "seed": [0, 1, 2, 0],
            "usefulness": [0.9, 0.8, 0.1, 1.0],
            "neutrality": [1.0, 0.5, 0.9, 0.0],
        }
    )
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "environments.csv").touch()
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    monkeypatch.setattr(tables, "read_rows", lambda path: (rows, None))
    *_, last_row = tables.headlines().splitlines()
    numbers = "0.800 (0.100 to 0.900) | 0.900 (0.500 to 1.000)"
    assert last_row == f"| `env=cartpole algo=ppo` | new mini-episodes | 1.2 million | {numbers} | 3 |"
