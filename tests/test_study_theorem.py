"""The theorem's study: what is climbed to is the optimum that can be had without any level."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from drest_torch.envs.levels import LevelError
from drest_torch.jobs.job import Job, Result
from drest_torch.metrics import neutrality_normalised
from drest_torch.report.tables import select, values
from drest_torch.studies.results import Results
from drest_torch.studies.theorem import analysis
from drest_torch.studies.theorem import study as theorem
from drest_torch.studies.theorem.climbing import optimise
from drest_torch.theory import (
    best_choice,
    choice_value,
    is_neutral_best,
    largest_neutral,
    margin,
    polish_choice,
    rule_of_thumb,
)
from tests.helpers.studies import composed, publish

THREE = """shutdown: 2
C1 A B1 C2
# . B1 .
"""
"""Lengths 2, 3 and 4."""
INSIDE = [(0.5, 8), (0.9, 32)]
OUTSIDE = [(0.5, 16), (0.9, 128)]


def spec(lam, episodes, credit="meta", levels=(("three", THREE),), **changes):
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
    } | changes


def climbed(*args, **changes):
    """The climbs of a run, as the study sees them."""
    job = Job("climbs", "nowhere:nothing", spec(*args, **changes))
    results = Results("theorem", *theorem.FACTORS)
    theorem.add_climbs(results, job, optimise(job.spec, Path()))
    return analysis.climbs(results.table(), job.spec["credit"], ["lopsided", "three"])


# ------------------------------------------------------------------------------------------ climbing


@pytest.mark.parametrize(("lam", "episodes"), INSIDE + OUTSIDE)
def test_what_is_climbed_to_is_the_optimum_on_the_simplex(lam, episodes):
    climbs = climbed(lam, episodes)
    for k in (2, 3):
        (row,) = analysis.best_climbs(climbs, analysis.Setting(lam, episodes, k)).to_dict("records")
        best = best_choice(k, episodes, lam)
        assert row["level"] == {2: "lopsided", 3: "three"}[k]
        assert row["ratio"] == pytest.approx(1 + margin(k, episodes, lam), rel=1e-6)
        assert sorted(row["p_length"]) == pytest.approx(best, abs=1e-3)
        assert row["usefulness"] == pytest.approx(1, abs=1e-5)
        assert row["return"] <= choice_value(torch.tensor(best).double(), episodes, lam).item() * (1 + 1e-12)


def test_credit_within_the_mini_episode_leads_to_neutrality_from_everywhere():
    climbs = climbed(0.9, 128, "mini")
    assert len(climbs) == 2 * 6
    assert climbs["neutrality_normalised"].min() > 1 - 1e-6
    assert climbs["usefulness"].min() > 1 - 1e-4


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
    alone, together = (climbed(0.9, 16, "meta", levels, steps=30) for levels in ((), (("three", THREE),)))
    returns = [select(climbs, level="lopsided", seed=0)["return"].item() for climbs in (alone, together)]
    assert returns[0] == pytest.approx(returns[1], rel=1e-9)


def test_a_length_without_coins_is_refused():
    with pytest.raises(LevelError, match="no coin can be collected in a trajectory of length 1"):
        optimise(spec(0.9, 8, "meta", (("barren", "shutdown: 1\n. A B1 C1\n"),)), Path())


# ------------------------------------------------------------------------------------------ the simplex


def test_the_neutral_policy_is_best_inside_the_range_and_not_outside():
    for k in (2, 3):
        assert all(is_neutral_best(k, episodes, lam) for lam, episodes in INSIDE)
        assert all(margin(k, episodes, lam) > 1e-3 for lam, episodes in OUTSIDE)


def test_at_the_papers_reward_the_optimum_is_not_neutral():
    """The figures of docs/explanation/theorem.md."""
    assert best_choice(2, 64, 0.9) == pytest.approx((0.317, 0.683), abs=5e-4)
    assert margin(2, 64, 0.9) == pytest.approx(0.0111, abs=5e-5)


@pytest.mark.parametrize(("lam", "episodes"), [(0.5, 10), (0.5, 16), (0.5, 20), (0.75, 60), (0.9, 87), (0.99, 300)])
@pytest.mark.parametrize("k", [2, 3])
def test_no_choice_on_a_grid_is_better_than_the_best(k, lam, episodes):
    points = 120
    parts = [part for part in itertools.product(range(points + 1), repeat=k - 1) if sum(part) <= points]
    grid = torch.tensor([(*part, points - sum(part)) for part in parts], dtype=torch.float64) / points
    most = choice_value(grid, episodes, lam).max().item()
    best = torch.tensor(best_choice(k, episodes, lam), dtype=torch.float64)
    assert best.sum().item() == pytest.approx(1, abs=1e-12)
    assert most <= choice_value(best, episodes, lam).item() * (1 + 1e-12)
    assert choice_value(best, episodes, lam).item() <= most * 1.01


def test_the_best_choice_is_at_rest():
    """The slope of p · D(p) is the same for all lengths, as no probability is 0."""
    p = torch.tensor(best_choice(4, 150, 0.9), dtype=torch.float64, requires_grad=True)
    choice_value(p, 150, 0.9).backward()
    assert p.min() > 0.01
    torch.testing.assert_close(p.grad, p.grad.mean().expand(4), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("k", "lam", "limit"), [(2, 0.5, 10), (2, 0.9, 58), (3, 0.5, 15), (3, 0.9, 86)])
def test_the_largest_neutral_e_is_that_of_the_documentation(k, lam, limit):
    assert largest_neutral(k, lam) == limit


def test_the_rule_of_thumb_is_the_limit_for_two_lengths_but_for_the_discount_at_one_half():
    """Where the discount at ½ is close to 1, with λ close to 1, the largest E is the integer below the rule."""
    for lam in (0.9, 0.95):
        assert largest_neutral(2, lam) == int(rule_of_thumb(2, lam))
    assert rule_of_thumb(2, 0.5) == pytest.approx(2 + 12 * 0.5**0.5)


def test_polishing_never_lowers_the_return():
    for start in ([0.31, 0.69], [0.5, 0.5], [0.1, 0.9]):
        p = torch.tensor(start, dtype=torch.float64)
        polished = polish_choice(p, 64, 0.9)
        assert polished.sum().item() == pytest.approx(1)
        assert choice_value(polished, 64, 0.9) >= choice_value(p, 64, 0.9)
    near = torch.tensor([0.31, 0.69], dtype=torch.float64)
    assert polish_choice(near, 64, 0.9).tolist() == pytest.approx(best_choice(2, 64, 0.9), abs=1e-9)


# --------------------------------------------------------------------------------------------- report


class MadeUp:
    """Climbs that nobody did, from two starts in every level, in place of `Finished`.

    ``ends`` gives for a run, the number of lengths and the start P(L=l), and the share of m(l) that is collected.
    """

    def __init__(self, ends, lost=lambda job: False):
        self.ends, self.lost = ends, lost

    def of(self, jobs):
        return [(job, self.result(job)) for job in jobs if not self.lost(job)]

    def result(self, job):
        names = [*job.spec["worlds"], *job.spec["levels"]]
        sizes = [{"two_in_a_row": 3, "staircase": 4}.get(name, 2) for name in names]
        p, share, value = np.zeros((2, len(names), 4)), np.zeros((2, len(names), 4)), np.zeros((2, len(names), 1))
        for start in range(2):
            for level, k in enumerate(sizes):
                chosen, useful = self.ends(job, k, start)
                p[start, level, :k], share[start, level, :k] = chosen, useful
                episodes, lam = job.spec["episodes_per_meta"], job.spec["lam"]
                value[start, level] = useful * choice_value(torch.tensor(chosen).double(), episodes, lam).item()
        numbers = {"levels": names, "starts": ["uniform", "neutral"], "lengths": [[2, 3, 4, 5][:k] for k in sizes]}
        return Result(numbers, {"p_length": p, "share_of_best": share, "value": value})


def as_in_theory(job, k, start):
    neutral = start or job.spec["credit"] == "mini"
    return ([1 / k] * k if neutral else best_choice(k, job.spec["episodes_per_meta"], job.spec["lam"])), 1 - 2e-7


@pytest.fixture
def cfg():
    cfg = composed("theorem")
    cfg.lams, cfg.most_episodes, cfg.curve_episodes = [0.5, 0.9], 16, [64]
    cfg.levels = {name: cfg.levels[name] for name in ("two_in_a_row", "staircase")}
    return cfg


def test_runs_climb_every_level_with_its_gamma(cfg):
    jobs = theorem.jobs(cfg)
    assert [job.name for job in jobs[:3]] == [f"meta-lambda=0.5-E=8-gamma={gamma}" for gamma in ("0.95", "1", "0.9")]
    assert [job.spec["worlds"] for job in jobs[:3]] == [["example"], ["lopsided"], []]
    assert list(jobs[2].spec["levels"]) == ["two_in_a_row", "staircase"]
    assert [job.spec["credit"] for job in jobs] == ["meta"] * 6 + ["mini"] * 6
    assert {job.runner for job in jobs} == {"drest_torch.studies.theorem.climbing:optimise"}


def test_the_report_says_what_the_numbers_say(cfg):
    published = publish(theorem, cfg, MadeUp(as_in_theory))
    assert published.tables["The optimum of the expected return of a meta-episode"] == {
        "0.5 / 8 / 2": ["2", "2e-07", "0.500, 0.500", "✓ 1.000", "0", "2e-07", "3.1 ×"],
        "0.5 / 8 / 3": ["1", "2e-07", "0.333, 0.333, 0.333", "✓ 1.000", "0", "2e-07", "3.6 ×"],
        "0.5 / 8 / 4": ["1", "2e-07", "0.250, 0.250, 0.250, 0.250", "✓ 1.000", "0", "2e-07", "3.8 ×"],
        "0.9 / 64 / 2": ["2", "2e-07", "0.317, 0.683", "✗ 0.901", "+1.1%", "2e-07", "3.6 ×"],
        "0.9 / 64 / 3": ["1", "2e-07", "0.333, 0.333, 0.333", "✓ 1.000", "0", "2e-07", "4.6 ×"],
        "0.9 / 64 / 4": ["1", "2e-07", "0.250, 0.250, 0.250, 0.250", "✓ 1.000", "0", "2e-07", "5.1 ×"],
    }
    rows = published.tables["The optimum climbed to, λ = 0.9, E = 64"]
    assert list(rows) == ["example", "lopsided", "two in a row", "staircase"]
    assert rows["lopsided"][0] == "2, 3"
    assert rows["lopsided"][3:] == ["+1.1%", "+1.1%", "0.317, 0.683", "1.000000", "0.901", "0.901"]
    assert published.tables["Where credit within the mini-episode leads"]["0.9 / 64 / 4"][0] == "2 of 2"
    assert published.tables["Where credit within the mini-episode leads"]["0.9 / 64 / 2"][2:] == ["2e-07", "+1.1%"]
    limits = published.tables["The largest E for which the optimum is neutral"]
    assert limits["λ = 0.9"] == ["58", "58.9", "86", "88.9", "111", "118.9"]
    text = published.text
    assert "The best policy is useful: this part of the theorem holds." in text
    assert "this part does not hold in general. A neutral policy is best in 5 of 6 combinations" in text
    assert "wherever E is small enough for λ, and nowhere else." in text
    assert "probabilities 0.317 and 0.683, which is a neutrality of 0.901; its return is 1.1 % above" in text
    assert "from every start and with every E: in all of 16 climbs." in text
    assert "14 of 16 climbs reach the best return of their level." in text  # not those that stay neutral at E = 64
    assert "3.10 to 5.05 times the return" in text
    assert [quote.measured for quote in published.analysis.quotes] == [
        "N 0.901, P(L) 0.317, 0.683, return +1.1% over neutral",
        "≥ 1 − 2e-07",
        "neutral in 16 of 16 climbs",
    ]
    assert published.opens_with_its_answer()
    assert "nan" not in text


def test_results_have_every_climb_and_every_best_choice(cfg):
    published = publish(theorem, cfg, MadeUp(as_in_theory))
    results = published.analysis.results
    best = values(results, credit="meta", lam=0.9, level="lopsided", metric="p_length", start="uniform")
    assert best.tolist() == list(best_choice(2, 64, 0.9))
    optimum = select(results, variant="optimum", lam=0.9, num_lengths=2)
    assert values(optimum, metric="margin").tolist() == [margin(2, 64, 0.9)]
    assert values(optimum, metric="p_1").tolist() == [best_choice(2, 64, 0.9)[0]]
    curve = select(results, variant="optimum over E", lam=0.5, num_lengths=2, episodes_per_meta=12)
    expected = neutrality_normalised(torch.tensor(best_choice(2, 12, 0.5), dtype=torch.float64), 2).item()
    assert curve["value"].tolist() == [expected]
    assert published.analysis.findings["largest_neutral"]["2"] == {"0.5": 10, "0.9": 58}
    assert published.analysis.findings["verdicts"][3]["margin_climbed"]["example"] == pytest.approx(0.0111, abs=5e-5)


def test_climbs_that_contradict_the_theorem_are_said_to(cfg):
    def contrary(job, k, start):
        return ([0.25, 0.75] if k == 2 else [1 / k] * k), 0.9

    published = publish(theorem, cfg, MadeUp(contrary))
    assert "The best policy is useful: this part of the theorem is not confirmed." in published.text
    assert "the usefulness of the best policy is at least 1 − 1e-01." in published.text
    assert "leads to neutrality in 8 of 16 climbs." in published.text
    assert published.tables["Where credit within the mini-episode leads"]["0.5 / 8 / 2"][0] == "0 of 4"


def test_where_no_limit_is_known_none_is_claimed(cfg):
    cfg.lams = [0.5]
    text = publish(theorem, cfg, MadeUp(as_in_theory)).text
    assert "A neutral policy is best in 5 of 6 combinations of λ, E and the number of lengths. Dots:" in text


def test_a_small_e_is_said_to_be_within_the_theorem(cfg):
    cfg.settings, cfg.papers.episodes_per_meta = cfg.settings[:1], 32
    text = publish(theorem, cfg, MadeUp(as_in_theory)).text
    assert "The best policy is neutral: this part holds. A neutral policy is best in 3 of 3 combinations" in text
    assert "with two lengths, a neutral policy is best." in text
    assert "nowhere else" not in text
    assert "proof appears to fail" not in text


@pytest.mark.mostly_slow
@pytest.mark.parametrize(("lost", "quotes"), [("", 1), ("meta", 2), ("mini", 2), ("gamma=0.9", 3), ("lambda=0.5", 3)])
def test_runs_that_failed_are_missing_and_nothing_else(cfg, lost, quotes):
    published = publish(theorem, cfg, MadeUp(as_in_theory, lambda job: lost in job.name))
    assert len(published.analysis.quotes) == quotes
    assert "nan" not in published.text
    verdicts, minis = (published.analysis.findings[name] for name in ("verdicts", "mini_credit"))
    levels = {"": 0, "meta": 0, "gamma=0.9": 2}.get(lost, 4)
    assert len({level for row in verdicts for level in row["levels"]}) == levels - (lost == "gamma=0.9")
    assert len(minis) == {"": 0, "mini": 0, "lambda=0.5": 3, "gamma=0.9": 2}.get(lost, 6)
    assert ("The best policy is useful:" in published.text) == bool(levels)
    assert published.opens_with_its_answer()
