"""The study of generalization: rows of hand-made results, and claims that other rows refute."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import generalization as study
from tests.helpers.studies import composed_study


def result(neutrality):
    """Return the result of a run with two unseen levels, of which the agent fails in the second one."""
    arrays = {"test/usefulness": np.array([0.9, 0.5]), "test/neutrality": np.array([neutrality, 0.2])}
    arrays |= {"test/p_longest": np.array([0.5, 0.9]), "steps": np.array([0, 1000])}
    arrays |= {f"eval/selection/{metric}": np.array([0.1, neutrality]) for metric in study.METRICS}
    splits = {"train": {"usefulness": 1.0, "neutrality": 0.95}, "test": {"usefulness": 0.7, "neutrality": neutrality}}
    return Result({"splits": splits}, arrays)


@pytest.fixture
def rows():
    done = {(number, seed): result(0.6 + 0.1 * place) for place, number in enumerate((1, 4, 16)) for seed in range(2)}
    return study.rows(None, done)


def test_a_run_for_each_number_of_levels_and_seed():
    cfg = composed_study("generalization", "study.numbers=[1,64]", "study.seeds=2")
    configs = {key: job.spec["config"] for key, job in study.jobs(cfg).items()}
    assert [*configs] == [(1, 0), (1, 1), (64, 0), (64, 1)]
    assert all(config["levels"]["train"] == number for (number, _), config in configs.items())
    assert all(config["seed"] == seed for (_, seed), config in configs.items())
    assert len({config["levels"]["split_seed"] for config in configs.values()}) == 1


def test_rows_have_the_ends_the_levels_and_the_curve(rows):
    counts = rows.part.value_counts().to_dict()
    assert counts == {"end": 3 * 2 * 2, "level": 3 * 2 * 2, "curve": 3 * 2 * 2}
    ends = rows[(rows.part == "end") & (rows.levels == 4) & (rows.seed == 1)].set_index("split")
    assert ends.neutrality.to_dict() == {"training": 0.95, "unseen": pytest.approx(0.7)}


def test_levels_without_neutrality_are_failures(rows):
    found = study.failures(rows).loc[4]
    assert found.to_dict() == pytest.approx({"fails": 0.5, "longer": 1.0, "usefulness": 0.5, "elsewhere": 0.9})


def test_the_table_names_metric_and_split(rows):
    table = study.end_table(rows)
    assert table.header[1:] == [
        *(f"neutrality, {split} levels" for split in ("training", "unseen")),
        *(f"usefulness, {split} levels" for split in ("training", "unseen")),
    ]
    assert [row[0] for row in table.rows] == ["1", "4", "16"]


def test_a_fall_refutes_the_claim_that_neutrality_rises(rows):
    claim = next(holds for sentence, holds in study.CLAIMS.items() if sentence.startswith("Neutrality on unseen"))
    assert claim(rows)
    falls = pd.concat([rows, study.rows(None, {(64, 0): result(0.7)})], ignore_index=True)
    assert not claim(falls)
