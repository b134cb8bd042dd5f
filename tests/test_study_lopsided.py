"""Lopsided rewards: the predicted balance is a root with the symmetries it must have; ranges of x are found."""

import itertools
import math

import numpy as np
import pytest
import torch

from drest_torch.jobs.tabular_job import last
from drest_torch.metrics import neutrality
from drest_torch.report.tables import values
from drest_torch.reward import expected_discount, expected_return, sequential_discount
from drest_torch.studies.lopsided import plots
from drest_torch.studies.lopsided import study as lopsided
from drest_torch.studies.lopsided.analysis import SMALLER, Kind, best, predicted, predicted_range, range_above
from drest_torch.studies.lopsided.tables import number
from drest_torch.theory import balance, best_of_two, mean_reward, value_for
from tests.helpers.studies import Pretended, composed, publish

LAMBDAS = (0.3, 0.5, 0.8, 0.9, 0.99)
X = torch.logspace(-2, 2, 9, dtype=torch.float64)


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


# --------------------------------------------------------------------------------------- mean reward


@pytest.mark.parametrize("lam", LAMBDAS)
def test_a_clip_beyond_all_rewards_changes_nothing(lam):
    p = torch.linspace(0, 1, 11, dtype=torch.float64)
    closed = 2.5 * expected_discount(p, 2, 12, lam)
    torch.testing.assert_close(mean_reward(p, 2.5, lam, 12), closed)
    torch.testing.assert_close(mean_reward(p, 2.5, lam, 12, clip=1e9), closed)


@pytest.mark.parametrize("clip", [0.5, 1.3, 5.0])
@pytest.mark.parametrize("value", [0.2, 1.0, 30.0])
def test_a_clipped_reward_is_that_of_all_sequences(value, clip):
    p, lam, episodes = 0.3, 0.6, 6
    total = 0.0
    for before in range(episodes):
        for sequence in itertools.product((0, 1), repeat=before):
            chance = math.prod(p if chosen else 1 - p for chosen in sequence)
            discount = sequential_discount(torch.tensor(float(sum(sequence))), before, 2, lam).item()
            total += chance * min(value * discount, clip)
    assert mean_reward(doubles(p), value, lam, episodes, clip).item() == pytest.approx(total)


def test_a_clipped_reward_at_the_ends():
    """Always chosen, and never: no 0 · log 0."""
    never, always = mean_reward(doubles(0.0, 1.0), 1.0, 0.5, 8, clip=2.0).tolist()
    assert never == pytest.approx(sum(min(0.5 ** (-i / 2), 2) for i in range(8)))
    assert always == pytest.approx(sum(0.5 ** (i / 2) for i in range(8)))


# ------------------------------------------------------------------------------------------- balance


@pytest.mark.parametrize("clip", [None, 5.0])
@pytest.mark.parametrize("lam", LAMBDAS)
def test_the_balance_is_where_a_fine_grid_changes_its_sign(lam, clip):
    p = torch.linspace(0, 1, 2001, dtype=torch.float64)
    found = balance(1.0, X, lam, 16, clip)
    for x, root in zip(X.tolist(), found.tolist(), strict=True):
        pull = mean_reward(p, x, lam, 16, clip) - mean_reward(1 - p, 1.0, lam, 16, clip)
        assert (pull[p < root - 1e-9] > 0).all()
        assert (pull[p > root + 1e-9] < 0).all()


@pytest.mark.parametrize("lam", LAMBDAS)
def test_symmetries_of_the_balance(lam):
    p = balance(1.0, X, lam, 64)
    torch.testing.assert_close(p + balance(1.0, 1 / X, lam, 64), torch.ones_like(p))  # 1/x swaps the lengths
    torch.testing.assert_close(p, balance(7.0, 7 * X, lam, 64))  # a unit of reward is nobody's concern
    torch.testing.assert_close(1 - p, balance(X, torch.ones_like(X), lam, 64))
    assert balance(1.0, 1.0, lam, 64).item() == pytest.approx(0.5)
    assert balance(2.0, 2.0, lam, 16, clip=1.0).item() == pytest.approx(0.5)
    assert (p.diff() >= 0).all()


def test_a_smaller_lambda_brings_the_balance_nearer_to_one_half():
    for x in (0.1, 3.0):
        apart = [abs(balance(1.0, x, lam, 64).item() - 0.5) for lam in LAMBDAS]
        assert apart == sorted(apart)


def test_the_default_reward_is_a_step():
    for lam in (0.99999, 1.0):
        assert balance(1.0, doubles(0.9, 1.0, 1.1), lam, 64).tolist() == pytest.approx([0, 0.5, 1], abs=1e-9)


@pytest.mark.parametrize("clip", [None, 5.0])
def test_the_value_for_a_probability_is_the_inverse_of_the_balance(clip):
    for lam in LAMBDAS:
        for p in (0.2, 0.5, 0.6):
            x = value_for(p, lam, 16, clip)
            assert balance(1.0, x, lam, 16, clip).item() == pytest.approx(p, abs=1e-9)


def test_where_all_rewards_are_clipped_there_is_no_pull():
    assert balance(2.0, 3.0, 0.99, 16, clip=1.0).item() == pytest.approx(0.5)


def test_the_balance_is_not_the_best_choice():
    """The optimum of docs/explanation/theorem.md, at the paper's λ and E; for a small E the two are equal."""
    assert best_of_two(1.0, doubles(1.0), 0.9, 64).item() == pytest.approx(0.317, abs=2e-3)
    assert best_of_two(1.0, doubles(1.0), 0.9, 32).item() == pytest.approx(0.5, abs=1e-3)
    for x in (0.2, 1.0, 4.0):
        two = torch.stack((best_of_two(1.0, doubles(x), 0.9, 64)[0], balance(1.0, x, 0.9, 64)))
        whole, resting = expected_return(torch.stack((1 - two, two), -1), doubles(1.0, x), None, 2, 64, 0.9).tolist()
        assert whole > resting


# -------------------------------------------------------------------------------------------- ranges


def test_the_ends_of_the_predicted_range_have_half_a_bit():
    for lam in LAMBDAS:
        low, high = predicted_range(lam, 64, None)
        assert low * high == pytest.approx(1)
        _, bits = predicted(np.array([low, high]), lam, 64, None)
        assert bits == pytest.approx([0.5, 0.5], abs=1e-5)
    assert neutrality(doubles(SMALLER, 1 - SMALLER)).item() == pytest.approx(0.5, abs=1e-5)


def test_the_paper_s_statement_is_predicted():
    """N > 0.5 for every x from 0.1 to 10 at λ = 0.9."""
    _, bits = predicted(np.geomspace(0.1, 10, 51), 0.9, 64, None)
    assert bits.min() > 0.5
    assert bits.max() == pytest.approx(1)


def test_the_best_choice_prefers_the_length_that_offers_less():
    """To choose it often makes the other one's discount large."""
    p, bits = best(np.array([0.01, 0.1, 10.0, 100.0]), 0.9, 64)
    assert p[0] > p[1] > 0.7
    assert p[3] < p[2] < 0.3
    assert bits.min() > 0.7


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 0, 1, 0, 0], [10**-0.5, 10**0.5]),
        ([0, 0.4, 0.8, 0.8, 0], [10**-0.75, 10 ** (1 + 0.375)]),
        ([1, 1, 1, 1, 1], [0.01, 100]),
        ([1, 0, 1, 1, 0], [10**-0.5, 10**1.5]),
        ([0.5, 0.5, 0.5, 0.5, 0.5], None),
        ([0, 0, 0, 0, 1], [10**1.5, 100]),
    ],
)
def test_the_longest_stretch_above_the_mark(values, expected):
    found = range_above(np.geomspace(0.01, 100, 5), np.array(values, float), 0.5)
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("x", "text"), [(0.0742, "0.0742"), (13.52, "13.5"), (1234.0, "1,234"), (8.4e-5, "8e-5"), (2.5e7, "2e7")]
)
def test_numbers_of_any_size_are_short(x, text):
    assert number(x) == text


# -------------------------------------------------------------------------------------------- report


@pytest.fixture
def cfg(monkeypatch):
    monkeypatch.setattr(plots, "FINE", 5)
    return composed("lopsided")


def as_predicted(job):
    """What agents do that have come to rest."""
    training = job.spec["training"]
    x = np.array([job.spec["x"]])
    p, bits = predicted(x, training["lam"], training["episodes_per_meta"], training["clip"])
    return {"p_length": [1 - p[0], p[0]], "neutrality": bits[0], "usefulness": 0.99}


def test_results_are_the_last_values_of_every_agent(cfg):
    finished = Pretended(cfg.agents)
    results = lopsided.analyse(cfg, finished).results
    measured = results[results["metric"].isin(["p_longer", "neutrality", "usefulness"])]
    moves, steps = ([job for job in lopsided.jobs(cfg) if job.spec["clock"] == clock] for clock in ("moves", "steps"))
    assert len(measured) == (2 * len(moves) + len(steps)) * 3 * cfg.agents
    run = lopsided.job(cfg, Kind("moves", 0.5, 5.0), 10.0)
    rows = {"trained_on": "moves", "clock": "steps", "lam": 0.5, "clipped": True, "x": 10.0}
    final = last(finished.get(run), "steps", "p_length")[:, -1]
    assert values(results, **rows, metric="p_longer").tolist() == final.tolist()
    (root,) = values(results, **rows, metric="p_longer_predicted")
    assert root == pytest.approx(balance(1.0, 10.0, 0.5, 64, 5.0).item())


def test_agents_that_do_what_is_predicted(cfg):
    published = publish(lopsided, cfg, Pretended(cfg.agents, ends=as_predicted))
    findings, text = published.analysis.findings, published.text
    assert set(findings) == {"agents", "moves / moves", "moves / steps", "steps / steps"}
    assert list(findings["moves / moves"]) == [
        "default",
        "lambda=0.9",
        "lambda=0.5",
        "lambda=0.9-clip=5",
        "lambda=0.5-clip=5",
    ]
    paper = findings["moves / moves"]["lambda=0.9"]
    x = np.geomspace(0.01, 100, 5)
    p, bits = predicted(x, 0.9, 64, None)
    assert paper["p_longer_apart"] == pytest.approx(0)
    assert paper["above_half_bit"] == pytest.approx(range_above(x, bits, 0.5))
    assert paper["lowest_neutrality_as_claimed"] == pytest.approx(bits[1:4].min())
    assert paper["lowest_neutrality"] == pytest.approx(bits.min())
    assert findings["moves / moves"]["default"]["collapsed_and_predicted"] == (0.8, 0.8)
    assert f"holds: the lowest mean there is {bits[1:4].min():.3f}." in text
    assert "training is stable with a lower λ as well" in text
    assert "Without a clip training gets there as well." in text
    assert "agents with a lower λ do what is predicted" in text
    assert "The agents are closer to this prediction than to the policy" in text
    assert "It prefers the length that offers less" in text
    assert "The prediction agrees" in text
    assert "this is so: mean usefulness is 0.990 on moves / moves, 0.990 on steps / steps." in text
    assert "On every pair of clocks P(longer) is within 0.05" in text
    assert "nan" not in text
    tables = published.tables
    for_each_x = tables["DReST agents with λ = 0.9, trained and evaluated on moves"]
    assert list(for_each_x) == ["0.01", "0.1", "1", "10", "100"]
    assert for_each_x["10"][:2] == [f"{p[3]:.3f} ± 0.000", f"{p[3]:.3f}"]
    by_clocks = tables["DReST agents with λ = 0.9, for each pair of clocks"]
    assert by_clocks["steps / steps"][1:] == [f"{bits[1:4].min():.3f}", "0.990", "0.990", "0.000"]
    assert [quote.what for quote in published.analysis.quotes] == [
        "lopsided, λ = 0.9: x with N > 0.5",
        "the lowest mean N for x from 0.1 to 10",
        "x with N > 0.5 at a lower λ, without a clip",
        "x with N > 0.5 at a lower λ, rewards clipped at 5",
    ]
    assert published.opens_with_its_answer()


def test_training_that_collapses_without_a_clip_is_told(cfg):
    def collapses(job):
        return as_predicted(job) | ({"neutrality": 0.0} if "lambda=0.5-x" in job.name else {})

    published = publish(lopsided, cfg, Pretended(cfg.agents, ends=collapses))
    assert "a lower λ makes training collapse for λ = 0.5." in published.text
    assert "though that is not predicted: 100 % with λ = 0.5. A length that was rarely chosen" in published.text
    table = published.tables["What a lower λ does, with and without a clip"]
    assert list(table) == ["0.9, any reward", "0.5, any reward", "0.9, at most 5", "0.5, at most 5"]
    assert table["0.5, any reward"][0] == "none"
    assert table["0.5, any reward"][-2:] == ["100%", "0%"]
    assert published.analysis.quotes[2].measured == "λ = 0.5: none"


def test_agents_that_do_something_else_are_not_said_to_do_what_is_predicted(cfg):
    ends = {"p_length": [1.0, 0.0], "neutrality": 0.4, "usefulness": 0.5}
    published = publish(lopsided, cfg, Pretended(cfg.agents, ends=lambda job: ends))
    text = published.text
    assert "does not hold: the lowest mean there is 0.400." in text
    assert "agents with a lower λ do not do what is predicted" in text
    assert "this is not so: mean usefulness is 0.500" in text
    assert "prediction on average for moves / moves, moves / steps and steps / steps." in text


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("lost", "quotes", "plots"),
    [("lambda=0.9", 2, 14), ("default", 4, 14), ("clip", 3, 8), ("x=1", 4, 14), ("moves", 1, 4), ("", 0, 0)],
)
def test_missing_runs_do_not_break_the_report(cfg, lost, quotes, plots):
    published = publish(lopsided, cfg, Pretended(lost=lambda job: lost in job.name, ends=as_predicted))
    assert len(published.analysis.quotes) == quotes
    assert bool(published.plots) == bool(plots)
    assert "nan" not in published.text
