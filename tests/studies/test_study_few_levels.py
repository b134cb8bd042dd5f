"""The study of few levels: its runs, its rows, and rows that refute each claim."""

import numpy as np
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import few_levels as study
from drest_torch.studies.few_levels import AS_THEY_ARE, VARIED, Key
from tests.helpers.studies import composed_study


@pytest.fixture(scope="module")
def planned():
    cfg = composed_study("few_levels", "study.seeds=2")
    cfg.methods = {name: cfg.methods[name] for name in (AS_THEY_ARE, "weight decay")}  # each takes a second
    return study.jobs(cfg)


def test_runs_of_an_algorithm_differ_only_in_their_method(planned):
    for agent in ("PPO", "exact gradients"):
        plain, decayed = (planned[Key(agent, method, 1)].spec["config"] for method in (AS_THEY_ARE, "weight decay"))
        assert decayed["algo"].pop("weight_decay") == 0.05
        plain["algo"].pop("weight_decay", None)
        assert plain == decayed


def test_runs_share_their_levels(planned):
    levels = [job.spec["config"]["levels"] for job in planned.values()]
    assert {(values["train"], values["test"], values["split_seed"]) for values in levels} == {(64, 500, 58)}


def test_a_method_that_is_null_has_no_run():
    planned = study.jobs(composed_study("few_levels", "study.seeds=1", "study.methods.dropout=null"))
    assert AS_THEY_ARE in {key.method for key in planned}
    assert "dropout" not in {key.method for key in planned}


def result(train, test):
    """Return the result of a run with these values on two training levels and on two unseen levels."""
    return Result(
        {},
        {
            f"{split}/{measure}": np.array([value - 0.1, value + 0.1])
            for split, value in (("train", train), ("test", test))
            for measure in study.MEASURES
        },
    )


def rows_of(plain, varied):
    """Return the rows of two agents without a method, and of two with varied levels; see `result`."""
    done = {
        Key(agent, method, seed): result(*(value + 0.001 * seed for value in values))
        for agent in ("PPO", "exact gradients")
        for method, values in {AS_THEY_ARE: plain, VARIED: varied}.items()
        for seed in range(2)
    }
    return study.rows(None, done)


def test_an_end_is_the_mean_over_levels():
    ends = study.unseen(rows_of((1.0, 0.6), (0.9, 0.8)), agent="PPO", method=VARIED)
    assert ends.usefulness.tolist() == pytest.approx([0.8, 0.801])


def test_a_difference_is_from_agents_without_a_method():
    rows = rows_of((1.0, 0.6), (0.9, 0.8))
    differences = study.of_part(rows, "difference")
    assert differences.method.unique().tolist() == [VARIED]
    assert differences.y.tolist() == pytest.approx([0.2] * 4)


@pytest.mark.parametrize(
    ("plain", "varied", "expected"),
    [((1.0, 0.6), (0.9, 0.8), [True, True]), ((1.0, 0.99), (0.9, 0.5), [False, False])],
)
def test_claims_depend_on_the_rows(plain, varied, expected):
    rows = rows_of(plain, varied)
    assert [holds(rows) for holds in study.CLAIMS.values()] == expected
