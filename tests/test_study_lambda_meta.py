"""λ × E: corners of the table are compared as they should be, and the report says what the numbers say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drest_torch.errors import ConfigError
from drest_torch.jobs.tabular_job import last
from drest_torch.report.tables import values
from drest_torch.reward import sequential_discount
from drest_torch.studies.lambda_meta import study as lambda_meta
from drest_torch.studies.lambda_meta.analysis import corner, incentive, largest_discount
from tests.helpers.studies import Pretended, composed, composed_study, publish

CAPTION = "Mean {}, evaluated on {}".format


@pytest.fixture(scope="module")
def cfg():
    return composed("lambda_meta")


def cell(job):
    training = job.spec["training"]
    return training["lam"], training["episodes_per_meta"]


# -------------------------------------------------------------------------------------------- jobs


def test_every_agent_plays_as_many_mini_episodes(cfg):
    jobs = lambda_meta.jobs(cfg)
    assert len(jobs) == len(cfg.lams) * len(cfg.sizes) + len(cfg.unclipped)
    for job in jobs:
        training = job.spec["training"]
        assert training["meta_episodes"] * training["episodes_per_meta"] == cfg.mini_episodes
        assert training["evaluate_every"] >= training["meta_episodes"]
        assert (training["clip"] is None) == ("unclipped" in job.name)


def test_a_size_that_does_not_divide_is_refused():
    cfg = composed_study("lambda_meta", "study.sizes=[8,60]")
    with pytest.raises(ConfigError, match="60"):
        lambda_meta.jobs(cfg)


# ----------------------------------------------------------------------------------------- analysis


def test_a_corner_and_the_rest():
    means = np.arange(12.0).reshape(3, 4)
    assert corner(means, large_lam=True, large_size=False, width=1) == (8.0, pytest.approx((66 - 8) / 11))
    assert corner(means, large_lam=False, large_size=True, width=2) == ((2 + 3 + 6 + 7) / 4, (66 - 18) / 8)
    assert corner(means[:1, :1], large_lam=True, large_size=True) is None


def test_missing_cells_are_left_out_of_a_corner():
    means = np.array([[1.0, np.nan], [np.nan, 4.0]])
    assert corner(means, large_lam=True, large_size=True, width=1) == (4.0, 1.0)
    assert corner(means, large_lam=True, large_size=False, width=1) is None


def test_the_incentive_grows_with_the_size_and_falls_with_lambda():
    sizes, lams = (2, 8, 64), (0.5, 0.9, 0.99)
    strengths = np.array([[incentive(lam, size) for size in sizes] for lam in lams])
    assert (strengths > 1).all()
    assert (np.diff(strengths, axis=1) > 0).all()
    assert (np.diff(strengths, axis=0) < 0).all()
    # E = 2: 1 + λ^(−½) · (1 − p(1−λ)), for each.
    rare, common = (1 + 0.5**-0.5 * (1 - p / 2) for p in (0.01, 0.99))
    assert incentive(0.5, 2) == pytest.approx(rare / common)


def test_the_largest_discount_is_the_largest():
    before = torch.arange(8, dtype=torch.float64)
    every = sequential_discount(before.unsqueeze(-1), before, 2, 0.7)[before.unsqueeze(-1) <= before]
    assert every.max().item() == pytest.approx(largest_discount(0.7, 8))


def test_results_are_the_last_values_of_every_agent(cfg):
    finished = Pretended(cfg.agents)
    results = lambda_meta.analyse(cfg, finished).results
    assert len(results) == len(lambda_meta.jobs(cfg)) * 2 * 2 * cfg.agents
    assert set(results["study"]) == {"lambda_meta"}
    for clipped, pair in ((True, (0.5, 64)), (False, (0.9, 64))):
        run = lambda_meta.job(cfg, pair, clipped)
        for clock, metric in (("moves", "usefulness"), ("steps", "neutrality")):
            rows = values(results, variant=run.name, clock=clock, metric=metric)
            assert rows.tolist() == last(finished.get(run), clock, metric).tolist()


# -------------------------------------------------------------------------------------------- report


def ends(job):
    """As the paper says: neutral except with small E and large λ, useful except with large E and small λ."""
    lam, size = cell(job)
    neutral = [0.05, 0.15] if lam > 0.5 and size < 256 and (lam, size) != (0.9, 64) else 0.995
    return {"neutrality": neutral, "moves/usefulness": 0.25 if lam < 0.9 else 0.992, "steps/usefulness": 0.5}


def test_the_report_says_what_the_numbers_say(cfg):
    published = publish(lambda_meta, cfg, Pretended(cfg.agents, ends=ends))
    neutrality = published.tables[CAPTION("neutrality", "moves")]
    assert neutrality == {
        "0.5": ["✓ 0.995", "✓ 0.995", "✓ 0.995"],
        "0.9": ["✗ 0.100", "✓ 0.995", "✓ 0.995"],
        "0.99": ["✗ 0.100", "✗ 0.100", "✓ 0.995"],
    }
    assert published.tables[CAPTION("usefulness", "steps")]["0.9"] == ["✗ 0.500"] * 3
    # Inside: three pairs with 0.1 and the sweet spot; outside: five others, all neutral.
    small = published.analysis.findings["statements"]["moves"]["small_E_large_lambda_neutrality"]
    assert small == pytest.approx([(3 * 0.1 + 0.995) / 4, 0.995])
    text = published.text
    assert "score low on neutrality: confirmed." in text
    assert "0.324 against 0.995 when evaluated on steps; 0.324 against 0.995 when evaluated on moves." in text
    assert "cost usefulness: not confirmed." in text  # on steps the corner is like the rest
    assert "sweet spot, with high neutrality and usefulness: not confirmed." in text
    assert "Of the 3 that can be checked here, 1 holds on both clocks of evaluation." in text
    assert "3 of 18 have neutrality below 0.1, none of them with E above 64. The others have 0.826 on average." in text
    assert "In the 3 pairs with high neutrality" in text
    assert "nan" not in text


def test_runs_without_the_clip_are_set_beside_those_with_it(cfg):
    def unstable(job):
        collapses = "E=256-unclipped" in job.name
        return {"neutrality": [0.0, 0.5] if collapses else 1.0, "usefulness": 0.25 if collapses else 0.75}

    published = publish(lambda_meta, cfg, Pretended(cfg.agents, ends=unstable))
    assert published.tables["With and without the clip"] == {
        "λ = 0.9, E = 64": ["1.00 ± 0.00"] * 2 + ["0.75 ± 0.00"] * 2 + ["0 of 2", "0 of 2"],
        "λ = 0.5, E = 256": ["1.00 ± 0.00", "0.25 ± 0.35", "0.75 ± 0.00", "0.25 ± 0.00", "1 of 2", "2 of 2"],
    }
    collapse = "Agents collapse in 1 of 2 pairs. The lowest mean usefulness is 0.25, for λ = 0.5 and E = 256."
    assert collapse in published.text
    assert "No agent collapses with λ = 0.9 and E = 64." in published.text
    assert published.analysis.quotes[-1].measured == "2 of 4 agents collapse in 2 pairs of λ and E"


@pytest.mark.parametrize(("usefulness", "words"), [(0.9, "not confirmed"), (0.995, "confirmed")])
def test_a_sweet_spot_is_called_one_only_if_it_is(cfg, usefulness, words):
    finished = Pretended(cfg.agents, ends=lambda job: {"neutrality": 0.995, "usefulness": usefulness})
    assert f"sweet spot, with high neutrality and usefulness: {words}." in publish(lambda_meta, cfg, finished).text


@pytest.mark.parametrize(
    ("lost", "quotes", "plots"),
    [("=", 0, 0), ("unclipped", 3, 4), ("E=64", 3, 4), ("lambda=0.5", 4, 4), ("nothing", 4, 4)],
)
def test_the_report_comes_whatever_is_missing(cfg, lost, quotes, plots):
    published = publish(lambda_meta, cfg, Pretended(cfg.agents, lambda job: lost in job.name))
    assert len(published.analysis.quotes) == quotes
    assert published.opens_with_its_answer() == bool(plots) == bool(published.plots)
    assert "nan" not in published.text
    missing = [row for row in published.tables[CAPTION("usefulness", "moves")].values() if "–" in row]
    assert len(missing) == {"=": 3, "E=64": 3, "lambda=0.5": 1}.get(lost, 0)


def test_plots_name_the_ends_of_each_line(cfg):
    published = publish(lambda_meta, cfg, Pretended(cfg.agents, ends=ends))
    assert published.plots[0].alt.startswith(
        "Mean neutrality against E, evaluated on moves. λ = 0.5: 0.99 at E = 8, 0.99 at E = 256; λ = 0.9: 0.10 at E = 8"
    )
