"""Lopsided rewards: what is predicted of agents, and ranges of x."""

import numpy as np
import pandas as pd
import pytest
import torch

from drest_torch.metrics import neutrality
from drest_torch.studies import lopsided
from drest_torch.studies.lopsided import SMALLER, predict, predicted_range, range_above, range_text
from drest_torch.theory import balance
from tests.helpers.studies import composed_study, reported, table_ends

CFG = composed_study("lopsided")


def test_what_is_predicted_is_the_balance_of_the_kind_of_agents():
    for lam, clip in ((0.9, None), (0.5, 5.0)):
        found = predict(lam, 64, clip, 0.1, 10.0)
        assert found.p_longer.tolist() == [balance(1.0, x, lam, 64, clip).item() for x in (0.1, 10.0)]
        p = torch.tensor(found.p_longer.tolist(), dtype=torch.float64)
        assert found.neutrality.tolist() == pytest.approx(neutrality(torch.stack((p, 1 - p), -1)).tolist())


@pytest.mark.parametrize("lam", [0.3, 0.5, 0.9])
def test_the_ends_of_the_predicted_range_have_half_a_bit_and_all_between_them_more(lam):
    """That is, as the paper states at λ = 0.9, for every x from 0.1 to 10."""
    low, high = predicted_range(CFG, lam, clipped=False)
    assert low < 0.1
    assert low * high == pytest.approx(1)
    first, *between, last = predict(lam, 64, None, *np.geomspace(low, high, 51)).neutrality
    assert (first, last) == pytest.approx((0.5, 0.5), abs=1e-5)
    assert min(between) > 0.5
    assert -(SMALLER * np.log2(SMALLER) + (1 - SMALLER) * np.log2(1 - SMALLER)) == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("values", "expected", "text"),
    [
        ([0, 0, 1, 0, 0], [10**-0.5, 10**0.5], "0.316 to 3.16"),
        ([0, 0.4, 0.8, 0.8, 0], [10**-0.75, 10 ** (1 + 0.375)], "0.178 to 23.7"),
        ([1, 1, 1, 1, 1], [0.01, 100], "all from 0.01 to 100"),
        ([1, 0, 1, 1, 0], [10**-0.5, 10**1.5], "0.316 to 31.6"),
        ([0.5, 0.5, 0.5, 0.5, 0.5], None, "none"),
        ([0, 0, 0, 0, 1], [10**1.5, 100], "31.6 to 100"),
    ],
)
def test_the_longest_stretch_above_the_mark(values, expected, text):
    x = np.geomspace(0.01, 100, 5)
    found = range_above(x, np.array(values, float), 0.5)
    assert found == (None if expected is None else pytest.approx(expected))
    assert range_text(pd.Series(values, pd.Index(x, name="x"), dtype=float)) == text


FEW = composed_study(
    "lopsided",
    *("study.agents=2", "study.x_first=0.05", "study.x_last=20", "study.x_count=5", "study.lams=[0.9,0.5]"),
    *("study.every=2", "study.training.episodes_per_meta=12"),
)
X = [0.05, 0.2236, 1.0, 4.472, 20.0]
NEUTRAL = {  # mean neutrality by x where agents of a kind are trained on moves; those on steps have 0.1 more
    (1.0, False): dict(zip(X, (0, 0.3, 0.2, 0.1, 0.0), strict=True)),
    (0.9, False): dict(zip(X, (0.3, 0.6, 0.99, 0.55, 0.4), strict=True)),
    (0.9, True): dict(zip(X, (0.45, 0.7, 0.98, 0.75, 0.6), strict=True)),
    (0.5, False): {0.05: 0.04, 1.0: 0.97, 20.0: 0.06},
    (0.5, True): dict(zip(X, (0.8, 0.9, 0.95, 0.92, 0.85), strict=True)),
}


LONGER = np.array([0.3, 0.3, 0.3, 0.3, 0.1])
"""The mean P(longer) of all agents by x."""


@pytest.fixture(scope="module")
def found():
    def result(key):
        mean = NEUTRAL[key.lam, key.clipped][key.x] + 0.1 * (key.trained_on == "steps")
        neutral = (mean - 0.02, mean + 0.02)
        useful = (0.9, 1.0 - 0.04 * key.x**0.5 / 4)
        longer = (0.2, 0.4) if key.x < 20 else (0.0, 0.2)
        of = neutral, useful, longer
        evaluated = {"steps": ((mean + 0.01, mean + 0.01), useful, longer)} if key.trained_on == "moves" else {}
        return table_ends({key.trained_on: of} | evaluated)

    return reported(lopsided, FEW, result)


def test_lower_lambdas_without_a_clip_are_tried_at_few_x():
    jobs = lopsided.jobs(FEW)
    tried = {}
    for key in jobs:
        tried.setdefault((key.trained_on, key.lam, key.clipped), []).append(key.x)
    assert tried == {(clock, *kind): [*of] for clock in ("moves", "steps") for kind, of in NEUTRAL.items()}
    specs = {key: jobs[key].spec for key in jobs}
    default, drest = (specs["moves", lam, False, 20.0] for lam in (1.0, 0.5))
    assert (default["training"]["lam"], drest["training"]["lam"], drest["x"]) == (1, 0.5, 20)
    assert [specs["moves", 0.9, clipped, 20.0]["training"]["clip"] for clipped in (False, True)] == [None, 5]
    assert {spec["divisor"] for spec in specs.values()} == {"none"}


def test_kinds_of_agents_in_numbers(found):
    values = found.values()
    first = values["first"]
    # In log x the curve crosses one half between two values of x.
    low = np.exp(np.interp(0.5, [0.3, 0.6], np.log([0.05, 0.2236])))
    high = np.exp(np.interp(0.5, [0.4, 0.55], np.log([20.0, 4.472])))
    assert first.range == f"{low:.3g} to {high:.3g}"
    assert first.predicted == "{:.3g} to {:.3g}".format(*predicted_range(FEW, 0.9, False))
    assert (first.lowest, first.lowest_reported) == pytest.approx((0.3, 0.55))
    assert first.lowest_usefulness == pytest.approx((1.9 - 0.01 * 20**0.5) / 2)
    curve = predict(0.9, 12, None, *X).p_longer
    assert first["apart"] == pytest.approx((LONGER - curve).abs().mean())
    assert (values["most"], values["most_at"]) == (pytest.approx((LONGER - curve).abs().max()), 20.0)


def test_the_ends_of_the_reported_range_belong_to_it():
    cfg = composed_study(
        "lopsided",
        *("study.agents=2", "study.x_first=0.01", "study.x_last=10", "study.x_count=4", "study.lams=[0.9]"),
        "study.clocks=[steps]",
    )
    neutral = {0.01: 0.1, 0.1: 0.4, 1.0: 0.9, 10.0: 0.6}
    found = reported(lopsided, cfg, lambda key: table_ends({"steps": [(neutral[key.x],) * 2, (1.0, 1.0), (0.5, 0.5)]}))
    lowest = {quote.what: quote.measured for quote in found.quotes()}["the lowest mean N for x from 0.1 to 10"]
    assert lowest == "0.400 steps / steps"


def test_an_agent_that_collapses_against_the_prediction_is_unstable(found):
    """Agents with λ = 0.5 have 0.04 and 0.06 of a bit at the ends, and more than one tenth is predicted."""
    unstable = found.values()["unstable"]
    assert unstable[["lam", "clipped"]].to_numpy().tolist() == [[0.5, False]]
    expected = np.mean([bits < 0.1 for bits in predict(0.5, 12, None, 0.05, 1.0, 20.0).neutrality])
    assert unstable.collapsed.item() == pytest.approx(2 / 3)
    assert unstable.expected.item() == pytest.approx(expected)
    assert expected < 2 / 3 - 0.1


def test_the_page_s_other_sentences(found):
    values = found.values()
    assert values["wider"]
    assert (values["safest"].lam, values["safest"].clipped, values["safest"].lowest) == (0.5, True, pytest.approx(0.8))
    # What is paid at most, λ^−((E − 1) / 2).
    assert values["largest"] == ["1.79 for λ = 0.9", "45.3 for λ = 0.5"]
    curve = predict(0.5, 12, 5.0, *X).p_longer
    assert values["clipped_apart"] == pytest.approx((LONGER - curve).abs().mean())
    papers = values["papers"].lowest_reported
    assert papers.to_dict() == pytest.approx({"moves / moves": 0.55, "moves / steps": 0.56, "steps / steps": 0.65})
    assert [*values["same"].index] == ["moves / moves", "steps / steps"]


def test_what_is_quoted_of_each_lambda(found):
    wider, lowest, free, clipped = found.quotes()
    assert wider.reported == "at least 0.1 to 10"
    assert wider.measured == "{} (predicted {})".format(*found.values()["first"][["range", "predicted"]])
    assert lowest.measured == "0.550 moves / moves; 0.560 moves / steps; 0.650 steps / steps"
    low = np.exp(np.interp(0.5, [0.04, 0.97], np.log([0.05, 1.0])))
    high = np.exp(np.interp(0.5, [0.06, 0.97], np.log([20.0, 1.0])))
    assert free.measured == f"λ = 0.5: {low:.3g} to {high:.3g}"
    assert clipped.what == "x with N > 0.5 at a lower λ, rewards clipped at 5"
    assert clipped.measured == "λ = 0.5: all from 0.05 to 20"


def test_the_table_has_a_row_for_each_lambda_and_clip(found):
    table = found.tables["lower"]()
    assert [row[0] for row in table.rows] == ["0.9, any reward", "0.5, any reward", "0.9, at most 5", "0.5, at most 5"]
    assert [row[3] for row in table.rows] == ["0.300", "0.040", "0.450", "0.800"]
    assert [row[5] for row in table.rows] == ["0%", "67%", "0%", "0%"]


def test_plots_show_what_agents_do_and_the_prediction(found, monkeypatch):
    monkeypatch.setattr(lopsided, "FINE", 3)
    plot = found.plots["rewards, neutrality"]()
    assert "default from 0 to 0; λ = 0.9 from 0.3 to 0.4" in plot.alt
    assert plot.alt.startswith("neutrality (bits), moves / moves, against x")
    assert "rewards of at most 5" in found.plots["clipped, p_longer"]().alt
    assert "any reward" in found.plots["free, p_longer"]().alt


def test_agents_that_collapse_as_predicted_are_not_unstable():
    rows = [  # neutrality of two agents, and what is predicted
        (0.9, False, 0.1, (0.02, 0.05), 0.01),
        (0.9, False, 1.0, (0.9, 0.8), 1.0),
        (0.5, True, 0.09, (0.02, 0.5), 0.5),
        (0.5, True, 10.0, (0.3, 0.5), 1.0),
    ]
    index = pd.MultiIndex.from_tuples([("moves / moves", *row[:3]) for row in rows], names=[*lopsided.KIND, "x"])
    numbers = {"neutrality": [np.array(row[3]) for row in rows], "neutrality_predicted": [row[4] for row in rows]}
    same = {"usefulness": [np.array([0.9, 1.0])] * 4, "p_longer": [np.array([0.2, 0.4])] * 4}
    agents = pd.DataFrame(numbers | same | {"p_longer_predicted": [0.5] * 4}, index)
    kinds = lopsided.summarise(FEW, agents).droplevel("clocks")
    assert kinds.collapsed.to_dict() == {(0.9, False): 0.5, (0.5, True): 0.25}
    assert kinds.expected.to_dict() == {(0.9, False): 0.5, (0.5, True): 0}
    assert kinds.unstable.to_dict() == {(0.9, False): False, (0.5, True): True}
    # The ends of what the paper reports, 0.1 and 10, belong to it.
    assert kinds.lowest_reported.to_dict() == pytest.approx({(0.9, False): 0.035, (0.5, True): 0.4})
