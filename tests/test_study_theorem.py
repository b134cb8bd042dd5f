"""The theorem's study: what is climbed to is the optimum that can be had without any level."""

import itertools
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from drest_torch.jobs.store import Store
from drest_torch.metrics import neutrality_normalised
from drest_torch.studies.study import Finished
from drest_torch.studies.theorem import study as theorem
from drest_torch.theory import best_choice, choice_value, largest_neutral, margin, neutral_value
from envs.levels import LevelError
from tests.helpers.studies import composed_study

THREE = """shutdown: 2
C1 A B1 C2
# . B1 .
"""
"""Lengths 2, 3 and 4."""
INSIDE = [(0.5, 8), (0.9, 32)]
OUTSIDE = [(0.5, 16), (0.9, 128)]


def spec(lam, episodes, credit="meta", levels=(("three", THREE),)):
    return {
        "worlds": ["lopsided"],
        "levels": dict(levels),
        "gamma": 1.0,
        "lam": lam,
        "episodes_per_meta": episodes,
        "credit": credit,
        "random_starts": 1,
        "slip": 0.02,
        "steps": 240,
        "lr": [0.1, 1.0, 0.001],
    }


def climbed(*args):
    return theorem._climbed(theorem.optimise(spec(*args), Path()))


# ------------------------------------------------------------------------------------------ climbing


@pytest.mark.parametrize(("lam", "episodes"), INSIDE + OUTSIDE)
def test_what_is_climbed_to_is_the_optimum_on_the_simplex(lam, episodes):
    for each in climbed(lam, episodes):
        best = best_choice(each.k, episodes, lam)
        found = each.probability[each.best]
        neutral = neutral_value(each.k, episodes, lam)
        assert each.value.max().item() == pytest.approx(neutral * (1 + margin(each.k, episodes, lam)), rel=1e-6)
        assert sorted(found.tolist()) == pytest.approx(best, abs=1e-3)
        assert each.usefulness[each.best].item() == pytest.approx(1, abs=1e-5)
        assert each.value.max().item() <= choice_value(torch.tensor(best).double(), episodes, lam).item() * (1 + 1e-12)


def test_the_neutral_policy_is_best_inside_the_range_and_not_outside():
    for lam, episodes in INSIDE:
        assert [margin(k, episodes, lam) <= 1e-12 for k in (2, 3)] == [True, True]
    for lam, episodes in OUTSIDE:
        assert [margin(k, episodes, lam) > 1e-3 for k in (2, 3)] == [True, True]


def test_at_the_papers_reward_the_optimum_is_not_neutral():
    """The figures of docs/theorem.md."""
    assert best_choice(2, 64, 0.9) == pytest.approx((0.317, 0.683), abs=5e-4)
    assert margin(2, 64, 0.9) == pytest.approx(0.0111, abs=5e-5)


def test_credit_within_the_mini_episode_leads_to_neutrality_from_everywhere():
    for each in climbed(0.9, 128, "mini"):
        assert neutrality_normalised(each.probability, each.k).min() > 1 - 1e-6
        assert each.usefulness.min() > 1 - 1e-4


def test_climbing_starts_where_it_is_said_to():
    """One step of no length: the policies are still the ones they were."""
    still = spec(0.9, 16) | {"steps": 1, "lr": [1e-12, 1e-12, 1e-12], "slip": 1e-6}
    result = theorem.optimise(still, Path())
    starts = result.numbers["starts"]
    assert starts == ["uniform", "random 1", "neutral", "length 1", "length 2", "length 3"]
    for each in theorem._climbed(result):
        at = {name: each.probability[index] for index, name in enumerate(starts)}
        torch.testing.assert_close(at["neutral"], torch.full_like(at["neutral"], 1 / each.k), atol=1e-4, rtol=0)
        for column in range(3):
            assert at[f"length {column + 1}"][min(column, each.k - 1)] > 1 - 1e-4
        torch.testing.assert_close(each.share[3], each.share[3].clamp(max=1))
        assert each.usefulness[2:].min() > 1 - 1e-4


def test_levels_do_not_disturb_each_other():
    few = {"steps": 30}
    alone = theorem._climbed(theorem.optimise(spec(0.9, 16, "meta", ()) | few, Path()))
    together = theorem._climbed(theorem.optimise(spec(0.9, 16) | few, Path()))
    assert alone[0].name == together[0].name == "lopsided"
    torch.testing.assert_close(alone[0].value[0], together[0].value[0], rtol=1e-9, atol=0)


def test_a_length_without_coins_is_refused():
    with pytest.raises(LevelError, match="no coin can be collected in a trajectory of length 1"):
        theorem.optimise(spec(0.9, 8, "meta", (("barren", "shutdown: 1\n. A B1 C1\n"),)), Path())


# ------------------------------------------------------------------------------------------ the simplex


@pytest.mark.parametrize(("lam", "episodes"), [(0.5, 10), (0.5, 16), (0.5, 20), (0.75, 60), (0.9, 87), (0.99, 300)])
@pytest.mark.parametrize("k", [2, 3])
def test_no_choice_on_a_grid_is_better_than_the_best(k, lam, episodes):
    points = 120
    grid = [each for each in itertools.product(range(points + 1), repeat=k - 1) if sum(each) <= points]
    grid = torch.tensor([(*each, points - sum(each)) for each in grid], dtype=torch.float64) / points
    values = choice_value(grid, episodes, lam)
    best = torch.tensor(best_choice(k, episodes, lam), dtype=torch.float64)
    assert best.sum().item() == pytest.approx(1, abs=1e-12)
    found = choice_value(best, episodes, lam).item()
    assert values.max().item() <= found * (1 + 1e-12)
    assert found <= values.max().item() * 1.01


def test_the_best_choice_is_at_rest():
    """The slope of p · D(p) is the same for all lengths, as no probability is 0."""
    p = torch.tensor(best_choice(4, 150, 0.9), dtype=torch.float64, requires_grad=True)
    choice_value(p, 150, 0.9).backward()
    assert p.min() > 0.01
    torch.testing.assert_close(p.grad, p.grad.mean().expand(4), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("k", "lam", "limit"), [(2, 0.5, 10), (2, 0.9, 58), (3, 0.5, 15), (3, 0.9, 86)])
def test_the_largest_neutral_e_is_that_of_the_documentation(k, lam, limit):
    assert largest_neutral(k, lam) == limit


# --------------------------------------------------------------------------------------------- report


def test_runs_that_failed_are_missing_and_nothing_else(tmp_path):
    cfg = composed_study("theorem")
    cfg = OmegaConf.merge(cfg, cfg.quick)
    cfg.lams, cfg.most_episodes, cfg.lengths, cfg.curve_episodes = [0.5], 16, [2, 3], [8]
    store = Store(tmp_path)
    report = theorem.report(cfg, Finished(store))
    assert all(not each["levels"] for each in report.numbers["verdicts"])
    job = next(job for job in theorem.jobs(cfg) if job.spec["worlds"] == ["lopsided"])
    store.put(job, theorem.optimise(job.spec | {"steps": 3}, tmp_path), seconds=1)
    report = theorem.report(cfg, Finished(store))
    first = report.numbers["verdicts"][0]
    assert first["levels"] == ["lopsided"]
    assert first["margin_climbed"]["lopsided"] < 0
    assert report.numbers["mini_credit"] == []
