"""The study of alternatives to DReST: its runs, rows of hand-made results, and claims that other rows refute."""

from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.studies import alternatives as study
from drest_torch.studies.alternatives.measured import missed
from drest_torch.studies.alternatives.runs import Key
from drest_torch.studies.engine import Done
from tests.helpers.studies import composed_study

WITHOUT_STRENGTH = {"family": "sum", "arguments": "objective=weighted objective.product=true"}


def composed(*overrides, **objectives):
    cfg = composed_study("alternatives", *overrides)
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, {"objectives": objectives})


def configs(*overrides, **objectives):
    """Return the configurations of runs by their keys."""
    return {key: job.spec["config"] for key, job in study.jobs(composed(*overrides, **objectives)).items()}


def test_each_objective_has_a_run_for_each_strength_and_seed():
    runs = configs("study.chosen=[DReST,own]", "study.seeds=2", "study.with_bit=[DReST]", own=WITHOUT_STRENGTH)
    strengths = [64.0, None, 64.0, 4.0, 16.0, 32.0, 128.0]
    titles = ["DReST", "own", *["DReST"] * 5]
    bits = [False, False, True, *[False] * 4]
    expected = [Key(*run, seed) for run in zip(titles, strengths, bits, strict=True) for seed in range(2)]
    assert [*runs] == expected
    for key, config in runs.items():
        assert config["seed"] == key.seed
        assert config["policy"]["private_bits"] == int(key.bit)
        if key.objective == "DReST":
            assert config["reward"]["episodes_per_meta"] == key.strength


def test_all_agents_share_network_levels_and_updates():
    runs = configs("study.chosen=[DReST,divergence from uniform,'default ÷ m']", "study.seeds=1")
    for shared in ("levels", "policy", "env_steps", "device", "threads"):
        values = [config[shared] for key, config in runs.items() if not key.bit]
        assert all(value == values[0] for value in values), shared


def test_an_objective_has_what_it_is_like_and_its_own_arguments():
    own = {"like": "coins, N ≥ h", "arguments": "objective.problem=usefulness_entropy", "values": [0.7]}
    (config,) = configs("study.chosen=[own]", "study.seeds=1", own=own).values()
    objective = config["objective"]
    assert (objective["name"], objective["integral"]) == ("constrained", 0.5)
    assert (objective["problem"], objective["at_least"]) == ("usefulness_entropy", 0.7)


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        ({"colour": "red"}, r"^study.objectives: 'own' has the key 'colour'; expected some of family;"),
        ({"like": "nobody"}, r"^study.objectives: 'own' is like 'nobody'; expected some of DReST;"),
        (
            {"arguments": "objective=drest", "values": [1]},
            r"^study.objectives: 'own' needs strength, symbol and values",
        ),
    ],
)
def test_an_objective_that_no_run_can_be_made_of_is_refused(own, complaint):
    with pytest.raises(ConfigError, match=complaint):
        study.jobs(composed(own=own))


# ---------------------------------------------------------------------------------------------- rows

BOUND = {"family": "constraint", "arguments": "objective=constrained objective.at_least=0.9"}
PLANNED = ("study.chosen=[DReST,own]", "study.seeds=2", "study.with_bit=[]")


def result(usefulness, neutrality, p_longest):
    """Return the result of a run with these numbers on each unseen level; on training levels neutrality is 0.85."""
    unseen = {"usefulness": usefulness, "neutrality": neutrality, "p_longest": p_longest}
    arrays = {f"test/{name}": np.array(values) for name, values in unseen.items()}
    training = {"usefulness": 0.9, "neutrality": 0.85, "p_longest": 0.5}
    arrays |= {f"train/{name}": np.full(3, number) for name, number in training.items()}
    return Result({"splits": {"test": {"neutrality_own": 0.1}}}, arrays)


@pytest.fixture(scope="module")
def measured():
    """Rows of two objectives, each with two seeds and two unseen levels."""
    cfg = composed(*PLANNED, own=BOUND)
    planned = {key: job for key, job in study.jobs(cfg).items() if key.strength in (64.0, None)}
    results = {
        ("DReST", 0): result([0.8, 0.8], [0.9, 0.5], [0.5, 0.6]),
        ("DReST", 1): result([0.9, 0.7], [0.9, 0.5], [0.5, 0.6]),
        ("own", 0): result([0.9, 0.9], [0.9, 0.5], [0.5, 1.0]),
        ("own", 1): result([1.0, 0.8], [0.9, 0.5], [0.5, 1.0]),
    }
    by_digest = {job.digest(): results[key.objective, key.seed] for key, job in planned.items()}
    store = SimpleNamespace(get=lambda job: by_digest[job.digest()])
    return study.rows(cfg, Done(planned, store))


def test_rows_have_means_and_shares_of_levels(measured):
    end = measured[(measured.part == "end") & (measured.objective == "own")].iloc[0]
    assert (end.usefulness, end.neutrality, end.given_bit) == pytest.approx((0.9, 0.7, 0.1))
    assert (end.short, end.always) == (0.5, 0.5)
    assert (end.missed, end.missed_training) == pytest.approx((0.2, 0.05))


def test_the_profile_is_the_share_of_levels_that_are_so_neutral(measured):
    profile = measured[(measured.part == "profile") & (measured.objective == "own") & (measured.seed == 0)]
    assert profile.set_index("tau").share.to_dict() == {t / 10: [1.0, 0.5, 0.0][(t > 5) + (t > 9)] for t in range(11)}


def test_a_comparison_is_paired_by_seed_and_level(measured):
    (comparison,) = measured[measured.part == "comparison"].to_dict("records")
    assert (comparison["objective"], comparison["seeds"]) == ("own", 2)
    assert [comparison[name] for name in ("apart", "low", "high")] == pytest.approx([0.05] * 3)


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ({"name": "constrained", "problem": "coins_entropy", "at_least": 0.9}, 0.1),
        ({"name": "constrained", "problem": "entropy_usefulness", "at_least": 0.9}, 0.2),
        ({"name": "constrained", "problem": "coins_shares", "at_least": 0.9}, 0.3),
        ({"name": "constrained", "problem": "coins_entropy", "at_least": 0.7}, 0.0),
        ({"name": "weighted", "at_least": 0.9}, np.nan),
    ],
)
def test_a_bound_is_one_on_the_mean_of_what_is_constrained(objective, expected):
    """A part of 1/k is 2 P(l) where there are two lengths."""
    reached = {"usefulness": 0.7, "neutrality": 0.8, "p_longer": 0.7}
    assert missed(objective, reached) == pytest.approx(expected, nan_ok=True)
