"""The theorem's study: what is climbed to is the optimum that can be had without any level."""

from pathlib import Path

import numpy as np
import pytest
import torch

from drest_torch.envs.levels import LevelError
from drest_torch.jobs.job import Result
from drest_torch.report.tables import select
from drest_torch.studies import theorem
from drest_torch.studies.climbing import best_of, climbs, optimise
from drest_torch.theory import best_choice, choice_value, largest_neutral, margin, neutral_value, rule_of_thumb
from tests.helpers.studies import composed_study, reported

THREE = "shutdown: 2\nC1 A B1 C2\n# . B1 .\n"
"""Lengths 2, 3 and 4."""


def spec(lam, episodes, **changes):
    return {
        "worlds": ["lopsided"],
        "levels": {"three": THREE},
        "gamma": 1.0,
        "lam": lam,
        "episodes_per_meta": episodes,
        "credit": "meta",
        "random_starts": 1,
        "slip": 0.02,
        "steps": 240,
        "lr": [0.1, 1.0, 0.001],
    } | changes


def climbed(*args, **changes):
    """The climbs of a run, as the study sees them."""
    made = spec(*args, **changes)
    key = theorem.Key(made["credit"], made["lam"], made["episodes_per_meta"], made["gamma"])
    return climbs({key: optimise(made, Path())}, ["lopsided", "three"])


@pytest.mark.parametrize(("lam", "episodes"), [(0.5, 8), (0.9, 32), (0.5, 16), (0.9, 128)])
def test_what_is_climbed_to_is_the_optimum_on_the_simplex(lam, episodes):
    best = best_of(climbed(lam, episodes))
    for k in (2, 3):
        (row,) = best[best.k == k].to_dict("records")
        choice = best_choice(k, episodes, lam)
        assert row["level"] == {2: "lopsided", 3: "three"}[k]
        assert row["ratio"] == pytest.approx(1 + margin(k, episodes, lam), rel=1e-6)
        assert sorted(row["p_length"]) == pytest.approx(choice, abs=1e-3)
        assert row["usefulness"] == pytest.approx(1, abs=1e-5)
        assert row["return"] <= choice_value(torch.tensor(choice).double(), episodes, lam).item() * (1 + 1e-12)


def test_credit_within_the_mini_episode_leads_to_neutrality_from_everywhere():
    found = climbed(0.9, 128, credit="mini")
    assert len(found) == 2 * 6
    assert found["neutrality_normalised"].min() > 1 - 1e-6
    assert found["usefulness"].min() > 1 - 1e-4


def test_climbing_starts_where_it_is_said_to():
    """One step of no length: the policies are still the ones they were."""
    result = optimise(spec(0.9, 16, steps=1, lr=[1e-12, 1e-12, 1e-12], slip=1e-6), Path())
    starts = result.numbers["starts"]
    assert starts == ["uniform", "random 1", "neutral", "length 1", "length 2", "length 3"]
    for level, lengths in enumerate(result.numbers["lengths"]):
        k = len(lengths)
        probability, share = (result.arrays[name][:, level, :k] for name in ("p_length", "share_of_best"))
        assert probability[starts.index("neutral")] == pytest.approx(np.full(k, 1 / k), abs=1e-4)
        for column in range(3):
            assert probability[starts.index(f"length {column + 1}"), min(column, k - 1)] > 1 - 1e-4
        assert (probability * share).sum(-1)[2:].min() > 1 - 1e-4
        assert share.max() <= 1 + 1e-12


def test_levels_do_not_disturb_each_other():
    alone, together = (climbed(0.9, 16, levels=levels, steps=30) for levels in ({}, {"three": THREE}))
    returns = [select(each, level="lopsided", seed=0)["return"].item() for each in (alone, together)]
    assert returns[0] == pytest.approx(returns[1], rel=1e-9)


def test_a_length_without_coins_is_refused():
    with pytest.raises(LevelError, match="no coin can be collected in a trajectory of length 1"):
        optimise(spec(0.9, 8, levels={"barren": "shutdown: 1\n. A B1 C1\n"}), Path())


FEW = composed_study(
    "theorem",
    *(
        "study.worlds=[lopsided,spacious]",
        "study.settings=[[0.9,8],[0.5,16]]",
        "study.papers=[0.9,8]",
        "study.lams=[0.9,0.5]",
    ),
    *("study.lengths=[2]", "study.most_episodes=32", "study.curve_episodes=[8]"),
)


FEW.levels = {}


@pytest.fixture(scope="module")
def few():
    """Two climbs of each run: the best one has all but a ten-thousandth of its best return and of usefulness."""

    def result(key):
        best = best_choice(2, key.episodes_per_meta, key.lam)
        chosen = np.array([[best], [[0.1, 0.9]]]) if key.credit == "meta" else np.array([[[0.5, 0.5]], [[0.3, 0.7]]])
        most = (1 + margin(2, key.episodes_per_meta, key.lam)) * neutral_value(2, key.episodes_per_meta, key.lam)
        short = (1e-4 if key.lam == 0.9 else 1e-2) / (1 if key.gamma == 1 else 2)
        arrays = {"p_length": chosen, "share_of_best": np.array([[[1 - short, 1]], [[1, 0.5]]])}
        arrays["value"] = np.array([[[most * (1 - short)]], [[most * 0.9]]])
        return Result(
            {
                "levels": ["lopsided" if key.gamma == 1 else "spacious"],
                "starts": ["uniform", "neutral"],
                "lengths": [[2, 4]],
            },
            arrays,
        )

    return reported(theorem, FEW, result)


def test_the_best_climb_is_compared_with_the_best_choice(few):
    found = few.values()["found"].set_index("lam")
    assert found.apart.to_dict() == pytest.approx({0.9: 1e-4, 0.5: 1e-2})
    first = best_choice(2, 8, 0.9)[0]
    assert found.useful[0.9] == pytest.approx(1 - first * 1e-4)
    assert found[["levels", "climbs", "neutral"]].to_numpy().tolist() == [[2, 4, 2], [2, 4, 2]]
    assert found.neutral_is_best.to_dict() == {0.9: True, 0.5: False}
    assert found.margin[0.5] == pytest.approx(margin(2, 16, 0.5))


def test_what_the_page_says_of_climbs_and_limits(few):
    values = few.values()
    assert (values["arrived"], values["climbs"]) == (4, 8)  # the better of two climbs of each reward
    assert values["as_limits_say"]
    assert values["paper"].episodes_per_meta == 8
    expected = [largest_neutral(2, lam) / rule_of_thumb(2, lam) for lam in (0.9, 0.5)]
    assert values["rule"].tolist() == pytest.approx(expected)


def test_what_is_quoted_of_the_best_policy(few):
    best, useful, ended = few.quotes()
    assert best.measured == "N 1.000, P(L) 0.500, 0.500, return 0 over neutral"
    lower = best_choice(2, 16, 0.5)[0]
    assert useful.measured == f"≥ 1 − {lower * 1e-2:.0e}"
    assert useful.what == "usefulness of the best policy, 2 levels, 2 rewards"
    assert ended.measured == "neutral in 4 of 8 climbs"


def test_numbers_are_written_shortly():
    assert [theorem.more(share) for share in (5e-7, 0.0114, -0.2, 12.0)] == ["0", "+1.1%", "-20.0%", "+1,200.0%"]
    assert [theorem.missing(share) for share in (1 - 2e-8, 1.1)] == ["2e-08", "0e+00"]
    assert theorem.a_choice([0.3166, 0.6834]) == "0.317, 0.683"


def test_a_row_of_the_table_has_its_reward(few):
    rows = {row[0]: [*row[1:]] for row in few.tables["optimum"].rows}
    assert [*rows] == ["0.9 / 8 / 2", "0.5 / 16 / 2"]
    assert rows["0.9 / 8 / 2"][:6] == ["2", "5e-05", "0.500, 0.500", "✓ 1.000", "0", "1e-04"]
    chosen = theorem.a_choice(best_choice(2, 16, 0.5))
    assert rows["0.5 / 16 / 2"][2] == chosen
    assert rows["0.5 / 16 / 2"][3].startswith("✗ 0.")
    one = choice_value(torch.tensor([1.0, 0.0]).double(), 8, 0.9).item()
    assert rows["0.9 / 8 / 2"][6] == f"{neutral_value(2, 8, 0.9) / one:,.1f} ×"


def test_rows_are_tidy_and_plots_reach_the_limit(few):
    rows = few.rows
    assert rows[(rows.variant == "climb") & (rows.metric == "return")].value.size == 2 * 8
    by_length = rows[(rows.variant == "climb, by length") & (rows.metric == "p_length")]
    assert by_length.value.tolist()[:4] == pytest.approx([0.5, 0.5, 0.1, 0.9])
    choice = rows[(rows.variant == "optimum, P(L)") & (rows.lam == 0.5)]
    assert dict(zip(choice.metric, choice.value, strict=True)) == pytest.approx(
        dict(zip(("p_1", "p_2"), best_choice(2, 16, 0.5), strict=True))
    )
    limits = rows[(rows.variant == "limit of E") & (rows.metric == "largest_neutral")]
    assert limits.value.tolist() == [largest_neutral(2, lam) for lam in (0.9, 0.5)]
    plot = few.plots["neutrality_2"]
    assert plot.alt.startswith("neutrality ÷ log2 k of the best choice, k = 2")
    assert "λ = 0.9 from 1 to 1; λ = 0.5 from 1 to 0." in plot.alt
    one = choice_value(torch.tensor([1.0, 0.0]).double(), 8, 0.9).item() / neutral_value(2, 8, 0.9)
    assert f"E = 8 from {one:.3g} to {one:.3g}; climbed to from 1 to 1" in few.plots["return"].alt
