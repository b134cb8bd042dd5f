"""The theorem's study: what is climbed to is the optimum that can be had without any level."""

from pathlib import Path

import numpy as np
import pytest
import torch

from drest_torch.envs.levels import LevelError
from drest_torch.report.tables import select
from drest_torch.studies import theorem
from drest_torch.studies.climbing import best_of, climbs, optimise
from drest_torch.theory import best_choice, choice_value, margin

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
