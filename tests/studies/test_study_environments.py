"""The study beyond gridworlds: rows of hand-made results, and claims that other rows refute."""

import numpy as np
import pytest

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.studies import environments as study
from tests.helpers.studies import composed_study


def result(chances, returns, best, neutrality):
    """Return the result of a run in an environment with one level, and lengths of 10, 20, … steps."""
    arrays = {"test/lengths": 10 * np.arange(1, len(chances) + 1), "test/p_length": np.array([chances])}
    arrays |= {"test/return_given_length": np.array([returns]), "test/best_return": np.array([best])}
    arrays |= {"test/usefulness": np.array([1.0]), "test/neutrality_normalised": np.array([neutrality])}
    arrays |= {"steps": np.array([0, 505, 1010])}
    arrays |= {f"eval/test/{name}": np.array([0.1, 0.3, 0.9]) for name in ("usefulness", "neutrality_normalised")}
    return Result({"env_steps": 1010}, arrays)


def rows_of(drest=1.0, default=0.0, collected=20.0, longest=1.0, first=1 / 3):
    """Return the rows of a study in which these numbers differ from one where all claims hold."""
    done = {}
    for name, k in (("CartPole", 2), (study.THREE, 3)):
        chances = [0.5, 0.5] if k == 2 else [first, 1 / 3, 2 / 3 - first]
        best = [10.0, *[20.0] * (k - 1)]
        rest = [(1 - longest) / (k - 1)] * (k - 1)
        for seed in range(2):
            done[study.Key(name, "drest", seed)] = result(chances, [10.0, *[collected] * (k - 1)], best, drest)
            done[study.Key(name, "default", seed)] = result([*rest, longest], best, best, default)
    return study.rows(None, done)


def test_every_environment_is_trained_with_both_rewards():
    cfg = composed_study("environments", "study.seeds=2", "study.chosen=[queue]", 'study.overrides=["env_steps=5000"]')
    configs = {key: job.spec["config"] for key, job in study.jobs(cfg).items()}
    assert [*configs] == [("queue", reward, seed) for reward in ("drest", "default") for seed in range(2)]
    assert all(config["reward"]["name"] == key.reward for key, config in configs.items())
    assert {config["env"]["title"] for config in configs.values()} == {"queue"}
    assert {config["env_steps"] for config in configs.values()} == {5000}


def test_an_environment_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"^study\.chosen with 'moon'; expected some of CartPole;"):
        study.jobs(composed_study("environments", "study.chosen=[moon]"))


def test_usefulness_is_relative_to_the_best_return_of_all_agents():
    """The largest return of the first agent is half of the second agent's."""
    done = {
        study.Key("queue", "drest", 0): result([0.5, 0.5], [10.0, 10.0], [10.0, 10.0], 1.0),
        study.Key("queue", "default", 0): result([0.0, 1.0], [0.0, 20.0], [5.0, 20.0], 0.0),
        study.Key("CartPole", "drest", 0): result([0.0, 1.0], [0.0, 10.0], [1.0, 10.0], 0.0),
    }
    rows = study.rows(None, done)
    assert rows[rows.part == "end"].usefulness.tolist() == [0.75, 1.0, 1.0]
    assert rows[rows.part == "end"].own_usefulness.tolist() == [1.0, 1.0, 1.0]
    lengths = rows[(rows.part == "length") & (rows.environment == "queue")]
    assert lengths.best.tolist() == [10.0, 20.0, 10.0, 20.0]
    assert lengths.mean_return.tolist() == pytest.approx([10.0, 10.0, np.nan, 20.0], nan_ok=True)


def test_the_return_of_a_length_leaves_out_levels_without_it():
    chances, returns = np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([[2.0, 4.0], [6.0, 0.0]])
    assert study.mean_where_played(chances, returns).tolist() == [4.0, 4.0]


def test_curves_of_all_seeds_have_the_same_steps():
    curves = study.of_part(rows_of(), "curve")
    assert curves.groupby("steps").size().tolist() == [8] * study.POINTS
    assert curves.steps.max() == 1000
    assert curves[curves.seed == 0].neutrality.iloc[study.POINTS // 2] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("changed", "refuted"),
    [
        ({}, []),
        ({"drest": 0.85}, ["In every environment"]),
        ({"default": 0.2}, ["In every environment"]),
        ({"collected": 18.0}, ["Neutrality costs"]),
        ({"longest": 0.9}, ["Agents with the default"]),
        ({"first": 0.2}, ["Of three lengths"]),
        ({"drest": 0.1, "default": 0.1}, ["In every environment", "Every agent with"]),
    ],
)
def test_claims_are_refuted_by_other_rows(changed, refuted):
    rows = rows_of(**changed)
    failed = [sentence for sentence, holds in study.CLAIMS.items() if not holds(rows)]
    assert len(failed) == len(refuted)
    assert all(sentence.startswith(words) for sentence, words in zip(failed, refuted, strict=True))


def test_a_length_that_no_agent_chooses_has_no_return():
    cells = {row[0]: row[1:] for row in study.length_table(rows_of()).rows}
    assert cells["CartPole, 10 steps"] == ["0.500", "0.000", "10.00", "–", "10.00"]
