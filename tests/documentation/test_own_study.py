"""The study of the tutorial, which readers copy: its length, and its tables for constructed results."""

import importlib

import pytest

from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import training_jobs
from drest_torch.report.blocks import Plot
from drest_torch.studies.engine import file_of
from tests.helpers.documents import ROOT

FOLDER = ROOT / "docs" / "tutorials" / "my_study"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER.parent)
    return importlib.import_module("my_study.levels")


def result(train, test):
    splits = {"train": {"usefulness": 1.0, "neutrality": train}, "test": {"usefulness": 0.5, "neutrality": test}}
    return Result({"splits": splits})


@pytest.fixture
def rows(study):
    done = {(1, 0): result(0.9, 0.2), (1, 1): result(0.9, 0.4), (16, 0): result(0.8, 0.6), (16, 1): result(0.8, 0.8)}
    return study.rows(None, done)


def test_the_study_has_at_most_sixty_lines():
    assert len((FOLDER / "levels.py").read_text("utf-8").splitlines()) <= 60


def test_rows_have_the_metrics_of_each_split(rows):
    assert len(rows) == 8
    assert rows[rows.split == "test"].neutrality.tolist() == [0.2, 0.4, 0.6, 0.8]
    assert set(rows[rows.split == "train"].usefulness) == {1.0}


def test_the_claim_fails_where_neutrality_falls(study, rows):
    (rises,) = study.CLAIMS.values()
    assert rises(rows)
    assert not rises(rows.assign(levels=17 - rows.levels))


def test_figures_are_placed_on_the_page(study, rows):
    text = file_of(study, ".md").read_text("utf-8")
    for name, figure in study.FIGURES.items():
        assert isinstance(figure(rows), Plot)
        assert f'"{name}"' in text


def test_the_table_has_the_range_of_unseen_levels(study, rows):
    table = study.TABLES["unseen"](rows)
    assert table.rows == [["1", "0.500", "0.300 (0.200 to 0.400)"], ["16", "0.500", "0.700 (0.600 to 0.800)"]]


def test_runs_have_distinct_names(study):
    cfg = study.Config(seeds=2, numbers=[1, 4])
    jobs = study.jobs(cfg)
    assert [job.name for job in jobs.values()] == ["levels=1-0", "levels=1-1", "levels=4-0", "levels=4-1"]
    assert len({job.digest() for job in jobs.values()}) == 4
    assert jobs[4, 1].spec["config"]["levels"]["train"] == 4
    assert jobs[1, 0].runner == training_jobs("a", [0], algo="ppo")[0].runner
