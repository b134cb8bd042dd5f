"""The study of alternatives to DReST: its runs, rows of hand-made results, and claims that other rows refute."""

from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.studies import alternatives as study
from drest_torch.studies.alternatives import figures
from drest_torch.studies.alternatives.measured import missed
from drest_torch.studies.alternatives.runs import Key, compared_strength, label_of, objectives_of
from tests.helpers.studies import composed_study

WITHOUT_STRENGTH = {"family": "sum", "arguments": "objective=weighted objective.product=true"}


def composed(*overrides, **objectives):
    cfg = composed_study("alternatives", *overrides)
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, {"objectives": objectives})


def configs(*overrides, **objectives):
    """Return the configurations of runs by their keys."""
    return {key: job.spec["config"] for key, job in study.jobs(composed(*overrides, **objectives)).items()}


def test_each_objective_has_a_run_for_each_strength():
    seeds = ("study.seeds=2", "study.seeds_at_other_strengths=2")
    runs = configs("study.chosen=[DReST,own]", *seeds, "study.with_bit=[DReST]", own=WITHOUT_STRENGTH)
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


def test_all_agents_share_everything_but_the_objective():
    runs = configs("study.chosen=[DReST,divergence from uniform,'default ÷ m']", "study.seeds=1")
    for shared in ("levels", "policy", "env_steps", "device", "threads"):
        values = [config[shared] for key, config in runs.items() if not key.bit]
        assert all(value == values[0] for value in values), shared


def test_an_objective_inherits_values_that_it_can_override():
    values = {"like": "coins, N ≥ h", "arguments": "objective.problem=usefulness_entropy", "values": [0.7]}
    (config,) = configs("study.chosen=[own]", "study.seeds=1", own=values).values()
    objective = config["objective"]
    assert objective["name"] == "constrained"
    assert objective["integral"] == 0.5
    assert objective["problem"] == "usefulness_entropy"
    assert objective["at_least"] == 0.7


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"colour": "red"}, r"^study.objectives: 'own' has the key 'colour'; expected some of family;"),
        ({"like": "nobody"}, r"^study.objectives: 'own' is like 'nobody'; expected some of DReST;"),
        (
            {"arguments": "objective=drest", "values": [1]},
            r"^study.objectives: 'own' needs strength, symbol and values",
        ),
    ],
    ids=["unknown key", "unknown parent", "no symbol"],
)
def test_an_invalid_objective_is_refused(values, complaint):
    with pytest.raises(ConfigError, match=complaint):
        study.jobs(composed(own=values))


# ---------------------------------------------------------------------------------------------- rows

BOUND = {"family": "constraint", "arguments": "objective=constrained objective.at_least=0.9"}


def result(usefulness, neutrality, p_longest, given_bit=0.1):
    """Return the result of a run with these numbers on each unseen level; on training levels neutrality is 0.85."""
    unseen = {"usefulness": usefulness, "neutrality": neutrality, "p_longest": p_longest}
    arrays = {f"test/{name}": np.array(values) for name, values in unseen.items()}
    training = {"usefulness": 0.9, "neutrality": 0.85, "p_longest": 0.5}
    arrays |= {f"train/{name}": np.full(3, number) for name, number in training.items()}
    return Result({"splits": {"test": {"neutrality_own": given_bit}}}, arrays)


class Runs(dict):
    """Results by key, and for each key the objective of its run."""

    def __init__(self, results, objectives):
        super().__init__(results)
        self.planned = {
            key: SimpleNamespace(spec={"config": {"objective": objectives.get(key.objective, {"name": "drest"})}})
            for key in results
        }


@pytest.fixture(scope="module")
def measured():
    """Return rows of two objectives, each with two seeds and two unseen levels."""
    results = {
        Key("DReST", 64.0, False, 0): result([0.8, 0.8], [0.9, 0.5], [0.5, 0.6]),
        Key("DReST", 64.0, False, 1): result([0.9, 0.7], [0.9, 0.5], [0.5, 0.6]),
        Key("own", None, False, 0): result([0.9, 0.9], [0.9, 0.5], [0.5, 1.0]),
        Key("own", None, False, 1): result([1.0, 0.8], [0.9, 0.5], [0.5, 1.0]),
        Key("DReST", 4.0, False, 0): result([0.0, 0.0], [0.0, 0.0], [0.0, 0.0]),
    }
    bound = {"name": "constrained", "problem": "coins_entropy", "at_least": 0.9}
    return study.rows(composed(own=BOUND), Runs(results, {"own": bound}))


def test_other_strengths_are_not_compared(measured):
    compared = measured[(measured.part == "end") & measured.compared.eq(True)]
    assert compared.label.tolist() == ["DReST, E = 64"] * 2 + ["own"] * 2
    assert set(measured[measured.part == "profile"].strength.dropna()) == {64.0}


def test_rows_summarise_levels(measured):
    """Rows hold means, shares of levels, and violations of the bound."""
    end = measured[(measured.part == "end") & (measured.objective == "own")].iloc[0]
    assert end.usefulness == pytest.approx(0.9)
    assert end.neutrality == pytest.approx(0.7)
    assert end.given_bit == pytest.approx(0.1)
    assert end.short == 0.5
    assert end.always == 0.5
    assert end.missed == pytest.approx(0.2)
    assert end.missed_training == pytest.approx(0.05)


def test_the_profile_is_the_share_of_levels_above_a_threshold(measured):
    profile = measured[(measured.part == "profile") & (measured.objective == "own") & (measured.seed == 0)]
    assert profile.set_index("tau").share.to_dict() == {t / 10: [1.0, 0.5, 0.0][(t > 5) + (t > 9)] for t in range(11)}


def test_comparisons_are_paired(measured):
    """Seeds and levels are paired, so a constant difference has an interval without width."""
    (comparison,) = measured[measured.part == "comparison"].to_dict("records")
    assert comparison["objective"] == "own"
    assert comparison["seeds"] == 2
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
def test_a_bound_applies_to_the_mean_over_levels(objective, expected):
    """With two lengths, P(l) as a fraction of 1/k is 2 P(l)."""
    reached = {"usefulness": 0.7, "neutrality": 0.8, "p_longer": 0.7}
    assert missed(objective, reached) == pytest.approx(expected, nan_ok=True)


def test_one_seed_has_a_difference_without_an_interval():
    results = {
        Key("DReST", 64.0, False, 0): result([0.8, 0.8], [0.9, 0.5], [0.5, 0.6]),
        Key("own", None, False, 0): result([0.9, 0.9], [0.9, 0.5], [0.5, 1.0]),
    }
    rows = study.rows(composed(own=BOUND), Runs(results, {}))
    (comparison,) = rows[rows.part == "comparison"].to_dict("records")
    assert comparison["apart"] == pytest.approx(0.05)
    assert np.isnan([comparison[name] for name in ("low", "high", "p")]).all()


@pytest.mark.parametrize(
    ("title", "symbol", "strength", "label"),
    [
        ("U + w N", "w", 1.15, "U + 1.15 N"),
        ("N, U ≥ u", "u", 0.9, "N, U ≥ 0.9"),
        ("coins, P ≥ h/k", "h", 0.9, "coins, P ≥ 0.9/k"),
        ("DReST", "E", 64.0, "DReST, E = 64"),
        ("U × N", "w", None, "U × N"),
    ],
)
def test_a_label_has_the_strength_in_place_of_its_symbol(title, symbol, strength, label):
    assert label_of(title, {"symbol": symbol}, strength) == label


# ------------------------------------------------------------------------------- figures and claims

RESULTS = {  # usefulness, neutrality, P(longer) on two levels
    "DReST": (0.89, 0.94, [0.45, 0.55]),
    "U + w N": (0.89, 0.96, [0.45, 0.55]),
    "U + w Gini": (0.89, 0.95, [0.45, 0.55]),
    "U × N": (0.90, 0.95, [0.45, 0.55]),
    "coins, N ≥ h": (0.88, 0.93, [0.45, 0.55]),
    "U, N ≥ h": (0.88, 0.96, [0.45, 0.55]),
    "N, U ≥ u": (0.94, 0.81, [0.4, 0.6]),
    "coins, P ≥ h/k": (0.95, 0.01, [0.0, 1.0]),
    "entropy of trajectories": (0.85, 0.52, [0.1, 0.3]),
    "divergence from uniform": (0.95, 0.16, [0.1, 0.3]),
    "divergence from balanced": (0.91, 0.43, [0.1, 0.3]),
    "divergence from best": (0.94, 0.42, [0.1, 0.3]),
    "default ÷ m": (0.96, 0.04, [0.0, 0.3]),
}
"""Results like those of an earlier version of the project, for two seeds and two levels."""
PROBLEMS = {
    "coins, N ≥ h": "coins_entropy",
    "U, N ≥ h": "usefulness_entropy",
    "N, U ≥ u": "entropy_usefulness",
    "coins, P ≥ h/k": "coins_shares",
}


def rows_of(**changes):
    """Return rows of agents as in RESULTS, with some of them changed."""
    cfg = composed()
    objectives = objectives_of(cfg)
    constrained = {
        title: {"name": "constrained", "problem": problem, "at_least": compared_strength(objectives[title])}
        for title, problem in PROBLEMS.items()
    }
    results = {}
    for title, (useful, neutral, longer) in {**RESULTS, **changes.pop("results", {})}.items():
        for seed in range(2):
            spread = 0.001 * (2 * seed - 1)
            on_levels = [neutral - 0.07, neutral + 0.06 + 0.002 * seed]
            key = Key(title, compared_strength(objectives[title]), False, seed)
            results[key] = result([useful + spread, useful - spread], on_levels, longer)
    for seed in range(2):
        given_bit = changes.get("given_bit", 0.02)
        bit = changes.get("bit", (0.94, 0.99))
        key = Key("U + w N", compared_strength(objectives["U + w N"]), True, seed)
        results[key] = result([bit[0]] * 2, [bit[1]] * 2, [0.5, 0.5], given_bit)
    for title, strength, useful, neutral in changes.get("others", [("DReST", 4.0, 0.95, 0.6)]):
        results[Key(title, strength, False, 0)] = result([useful] * 2, [neutral] * 2, [0.5, 0.5])
    return study.rows(cfg, Runs(results, constrained))


def holds(beginning, rows):
    (claim,) = (claim for sentence, claim in study.CLAIMS.items() if sentence.startswith(beginning))
    return bool(claim(rows))


@pytest.fixture(scope="module")
def rows():
    return rows_of()


REFUTED = {
    "Objectives that pay": {"results": {"U × N": (0.95, 0.99, [0.5, 0.5])}},
    "At their best": {"others": [("U + w N", 2.3, 0.95, 0.98)]},
    "No alternative": {"results": {"N, U ≥ u": (0.95, 0.99, [0.5, 0.5])}},
    "Every price": {"results": {"divergence from best": (0.9, 0.94, [0.5, 0.5])}},
    "A price on": {"others": [("divergence from best", 1.0, 0.9, 0.9)]},
    "A bound on each": {"results": {"coins, P ≥ h/k": (0.9, 0.9, [0.3, 0.7])}},
    "Means hide": {"results": {"coins, N ≥ h": (0.88, 0.98, [0.5, 0.5])}},
    "Not every bound": {"results": {title: (1.0, 1.0, [0.5, 0.5]) for title in PROBLEMS}},
    "A private bit": {"given_bit": 0.9},
}


def test_claims_hold_in_results_of_an_earlier_version(rows):
    assert {sentence for sentence in study.CLAIMS if not study.CLAIMS[sentence](rows)} == set()


def test_other_rows_refute_each_claim():
    assert len(REFUTED) == len(study.CLAIMS)
    still = [beginning for beginning, changes in REFUTED.items() if holds(beginning, rows_of(**changes))]
    assert still == []


def test_a_less_useful_agent_with_a_bit_refutes_the_claim():
    assert not holds("A private bit", rows_of(bit=(0.7, 0.99)))


def test_figures_group_objectives_by_family(rows):
    looks = figures.looks(rows)
    assert looks["U × N"][0] == looks["U + w N"][0] != looks["DReST"][0]
    assert len(set(looks.values())) == len(RESULTS)


def test_the_table_has_differences_from_drest(rows):
    cells = {row[0]: row for row in figures.comparison_table(rows).rows}
    assert cells["DReST, E = 64"][3:] == ["–", "–"]
    assert cells["default ÷ m"][3].startswith("-0.41")


def test_the_table_of_bounds_has_only_constraints(rows):
    labels = [row[0] for row in figures.bounds_table(rows).rows]
    assert labels == ["coins, N ≥ 0.95", "U, N ≥ 0.95", "N, U ≥ 0.95", "coins, P ≥ 0.9/k"]
