"""The study of the theorem: gradient ascent in levels reaches the optimum that is computed without a level."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from drest_torch.envs.levels import LevelError
from drest_torch.studies import theorem
from drest_torch.studies.study_rows import read_rows
from drest_torch.studies.theorem.ascent import optimise
from drest_torch.theory import best_choice, choice_value, largest_neutral, margin, neutral_value, rule_of_thumb
from tests.helpers.documents import ROOT

RESULTS = ROOT / "docs" / "results"

THREE = "shutdown: 2\nC1 A B1 C2\n# . B1 .\n"
"""A level with the lengths 2, 3 and 4."""


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


def ascents(*args, **changes):
    """Return the rows of the ascents of a run."""
    values = spec(*args, **changes)
    key = theorem.Key(values["credit"], values["lam"], values["episodes_per_meta"], values["gamma"])
    return pd.DataFrame(theorem.ascent_rows(key, optimise(values, Path())))


@pytest.mark.parametrize(("lam", "episodes"), [(0.5, 8), (0.9, 32), (0.5, 16), (0.9, 128)])
def test_ascent_reaches_the_optimum_on_the_simplex(lam, episodes):
    rows = ascents(lam, episodes)
    for k, level in ((2, "lopsided"), (3, "three")):
        ends = rows[rows.level == level]
        best = ends.loc[ends.return_ratio.idxmax()]
        assert best.k == k
        assert best.return_ratio == pytest.approx(1 + margin(k, episodes, lam), rel=1e-6)
        assert best.apart == pytest.approx(0, abs=1e-6)
        assert min(abs(best.p_longest - p) for p in best_choice(k, episodes, lam)) < 1e-3
        assert best.not_useful < 1e-5


def test_credit_within_the_mini_episode_leads_to_neutrality():
    rows = ascents(0.9, 128, credit="mini")
    assert len(rows) == 2 * 6
    assert rows.neutrality.min() > 1 - 1e-6
    assert rows.not_useful.max() < 1e-4


def test_ascents_start_at_the_documented_policies():
    """A step with a learning rate of nearly 0 leaves the policies unchanged."""
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


def test_levels_are_optimised_independently():
    alone, together = (ascents(0.9, 16, levels=levels, steps=30) for levels in ({}, {"three": THREE}))
    ratios = [rows[rows.level == "lopsided"].return_ratio.iloc[0] for rows in (alone, together)]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


def test_a_length_without_coins_is_refused():
    with pytest.raises(LevelError, match="no coin can be collected in a trajectory of length 1"):
        optimise(spec(0.9, 8, levels={"barren": "shutdown: 1\n. A B1 C1\n"}), Path())


def test_an_optimum_agrees_with_the_theory():
    row = theorem.optimum(0.5, 16, 2)
    assert row["choice"] == "0.161, 0.839"
    assert row["return_ratio"] == pytest.approx(1 + margin(2, 16, 0.5))
    one_length = choice_value(torch.tensor([1.0, 0.0]).double(), 16, 0.5).item()
    assert row["neutral_over_one_length"] == pytest.approx(neutral_value(2, 16, 0.5) / one_length)


@pytest.fixture(scope="module")
def published():
    rows, _ = read_rows(RESULTS / "theorem.csv")
    return rows


def test_limits_agree_with_theory(published):
    limits = theorem.of_part(published, "limit", k=2).set_index("lam")
    assert limits.episodes.to_dict() == {lam: largest_neutral(2, lam) for lam in (0.5, 0.75, 0.9, 0.95, 0.99)}
    assert limits.rule_of_thumb[0.9] == pytest.approx(rule_of_thumb(2, 0.9), rel=1e-6)


def test_a_curve_that_rises_again_refutes_the_claim(published):
    """A regression test: the curve of λ = 0.5 once rose again, because discounts were clipped."""
    assert theorem.neutrality_falls_beyond_limit(published)
    last = (published.part == "episodes") & (published.lam == 0.5) & (published.k == 2) & (published.episodes == 1024)
    assert not theorem.neutrality_falls_beyond_limit(published.assign(neutrality=published.neutrality.mask(last, 0.54)))


def test_an_optimum_beyond_the_limit_refutes_the_claim(published):
    limit = (published.part == "episodes") & (published.lam == 0.9) & (published.k == 2) & (published.episodes == 59)
    assert theorem.neutral_is_best_within_limit(published)
    assert not theorem.neutral_is_best_within_limit(published.assign(neutrality=published.neutrality.mask(limit, 1.0)))


def test_maxima_that_do_not_move_refute_the_claim(published):
    assert theorem.maxima_move_outwards(published)
    stays = (published.part == "maximum") & (published.episodes == 80)
    assert not theorem.maxima_move_outwards(published.assign(p_longest=published.p_longest.mask(stays, 0.5)))
