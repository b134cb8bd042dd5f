"""The study of lotteries: gradient ascent against the closed forms, its rows, and rows that refute its claims."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from drest_torch.choices.closed_forms import (
    button_fixed_point,
    button_optimum,
    button_usefulness,
    critical_cost,
    paid_shift,
)
from drest_torch.choices.prospects import RESIST_COSTS
from drest_torch.choices.scores import scores
from drest_torch.choices.scripted_policies import MENU_POLICIES, ideal
from drest_torch.choices.variants import AS_LISTS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.jobs.job import Result
from drest_torch.studies import lotteries
from drest_torch.studies.lotteries import claims, measured, pages
from drest_torch.studies.lotteries.runs import ascend_worlds, button
from drest_torch.studies.shared import of_part
from drest_torch.studies.study_page import claims_of
from drest_torch.studies.theorem.ascent import ascend, solve_levels, starting_logits
from tests.helpers.studies import composed_study

CFG = composed_study(
    "lotteries",
    *("study.episodes=[16,64]", "study.tenths=[5,1]", "study.chances=[0.5]", "study.suite_items=3"),
)
LONGER = {16: (0.1 + 0.8 * 0.02, 0.1 + 0.8 * 0.4, 0.2), 64: (0.1 + 0.8 * 0.33, 0.1 + 0.8 * 0.45, 0.35)}
"""P(longer) in the corridors with a price of 0.5 and of 0.1, and with the button."""
PAYS = {
    "DReST, lotteries": {"main": (0.5, 0.6, 0.9), "posl": (3, 3, 5)},
    "DReST, both": {"main": (0.5, 0.6, 0.9), "posl": (5, 5, 5)},
    "DReST, sure lengths": {"main": (0.0, 0.01, 0.0), "posl": (1, 1, 1), "cycles": (1, 2, 3)},
    f"DReST, sure lengths{AS_LISTS}": {"main": (0.0, 0.99, 0.5)},
    f"DReST and Neutrality+{AS_LISTS}": {"main": (0.01, 0.0, 0.01), "error/main": (0.02, 0, 0), "cycles": (0, 0, 1)},
    "usefulness plus neutrality": {"main": (0.3, 0.3, 0.4)},
    "coins plus neutrality": {"main": (0.6, 0.7, 0.7)},
}
"""Scores of three agents of a variant that differ from the ideal agent's."""


@pytest.mark.parametrize(("chance", "episodes"), [(0.2, 16), (0.2, 64), (0.5, 64)])
def test_the_maximum_of_the_return_is_not_a_fixed_point(chance, episodes):
    levels = [button(chance)]
    optima, reachable = solve_levels(levels, 1.0), Reachable(compile_levels(levels))
    values = {"lam": 0.9, "gamma": 1.0, "episodes_per_meta": episodes, "steps": 400, "lr": [0.1, 0.3, 0.0001]}
    ends = ascend(starting_logits(["uniform"], reachable, optima, 0.0), reachable, optima, values | {"credit": "meta"})
    best = button_optimum(chance, 0.9, episodes)
    assert ends["p_length"][0, 1].item() == pytest.approx(best, abs=2e-3)
    useful = (ends["p_length"] * ends["share_of_best"]).sum().item()
    assert useful == pytest.approx(button_usefulness(chance, best), abs=1e-2)
    differs = abs(best - button_fixed_point(chance, 0.9, episodes)) > 0.05
    assert differs == (best > 0)
    assert differs == (episodes == 64)


def test_training_in_gridworlds_ends_at_the_closed_forms():
    spec = {"tenths": [1, 5], "chances": [0.5], "lam": 0.9, "episodes_per_meta": 64, "steps": 200}
    longer = ascend_worlds(spec, Path()).arrays["longer"]
    expected = [0.1 + 0.8 * paid_shift(0.1, 0.9, cost, 0.9, 64) for cost in (0.1, 0.5)]
    assert longer == pytest.approx([*expected, button_fixed_point(0.5, 0.9, 64)], abs=2e-3)


@pytest.mark.parametrize(
    ("paid", "price"), [((1, 1, 0, 0, 0, 0, 0), 0.02), ((1, 0, 1, 0, 0, 0, 0), 0.05), ((1,) * 7, np.inf)]
)
def test_agents_never_pay_from_this_price_on(paid, price):
    rates = {f"later/0.01/{cost:g}": np.array([rate]) for cost, rate in zip(RESIST_COSTS, paid, strict=True)}
    assert measured.never(rates, "later", "0.01") == [price]


@pytest.fixture(scope="module")
def rows():
    """Return rows of three agents of each variant, which are ideal except for a few scores."""
    numbers = scores(ideal, 3)

    def result(key):
        if key.part == "worlds":
            return Result({}, {"longer": np.array(LONGER[key.name]), "usefulness": np.array([1.0, 1.0, 0.6])})
        changed = {name: np.array(values, float) for name, values in PAYS.get(key.name, {}).items()}
        return Result({}, {name: np.full(3, value) for name, value in numbers.items()} | changed)

    return lotteries.rows(CFG, {key: result(key) for key in lotteries.jobs(CFG)})


def test_rows_compare_ascent_with_the_closed_form(rows):
    ends = of_part(rows, "ascent").set_index(["world", "episodes", "setting"])
    assert ends.found["corridor", 16, 0.1] == pytest.approx(0.4)
    assert ends.predicted["corridor", 64, 0.5] == pytest.approx(paid_shift(0.1, 0.9, 0.5, 0.9, 64), abs=1e-4)
    assert ends.predicted["button", 16, 0.5] == pytest.approx(button_fixed_point(0.5, 0.9, 16), abs=1e-4)
    assert ends.apart["button", 16, 0.5] == pytest.approx(abs(0.2 - button_fixed_point(0.5, 0.9, 16)))
    assert np.isnan(ends.usefulness["corridor", 16, 0.5])


def test_critical_prices_agree_with_theory(rows):
    prices = of_part(rows, "critical").set_index(["shift", "episodes"]).price
    assert prices["0.01 → 0.99", 64] == pytest.approx(0.951, abs=5e-4)
    assert prices["0.1 → 0.9", 32] == pytest.approx(critical_cost(0.1, 0.9, 0.9, 32), abs=1e-4)


def test_every_agent_has_a_row(rows):
    agents = of_part(rows, "agent")
    assert agents.agent.value_counts()["DReST, lotteries"] == 3
    assert set(agents[agents.group == "scripted"].agent) == {*measured.SCRIPTED.values()}
    assert measured.of_agent(rows, "DReST, lotteries").main.tolist() == [0.5, 0.6, 0.9]
    assert set(measured.SCRIPTED) == set(MENU_POLICIES)


def test_a_gridworld_agent_has_a_row_for_each_symmetry():
    arrays = {f"menus/{name}": np.array([value]) for name, value in scores(ideal, 3).items()}
    arrays |= {name.replace("menus", "posl"): np.full(8, 1.0) for name in arrays} | {"posl/posl": np.arange(8.0)}
    arrays = {name: values for name, values in arrays.items() if name != "posl/main"}
    arrays |= {"test/usefulness": np.array([0.5, 1.0]), "test/neutrality": np.ones(2)}
    keys = [lotteries.Key("gridworlds", "G", seed) for seed in (0, 1)]
    cfg = composed_study("lotteries", "study.suite_items=3", "study.episodes=[16]")
    agents = measured.of_agent(measured.all_rows(cfg, dict.fromkeys(keys, Result({}, arrays))), "G")
    assert agents.posl.tolist() == [*range(8), *range(8)]
    assert agents.main.dropna().tolist() == [0, 0]
    assert agents.usefulness.dropna().tolist() == [0.75, 0.75]
    assert agents.seed.tolist() == [0] * 8 + [1] * 8


@pytest.mark.parametrize(("name", "good"), [("scripted: ideal", True), ("scripted: most coins", False)])
def test_the_ideal_agent_fulfils_all_conditions(rows, name, good):
    assert claims.fulfils_all(rows, name).tolist() == [good]


def test_claims_hold_for_rows_like_the_published_rows(rows):
    """The claim on the end of training needs rows of trained policies."""
    held = claims_of(lotteries, rows)
    assert [sentence for sentence, holds in held.items() if not holds] == [
        sentence for sentence in held if sentence.startswith("Training ends within")
    ]


def test_numbers_of_the_text(rows):
    numbers = {name: function(rows) for name, function in lotteries.NUMBERS.items()}
    assert numbers["highest_E"] == 64
    assert numbers["highest_price"] == "50 %"
    assert numbers["highest_paid"] == "33 %"
    assert numbers["remedy"] == "3 of 3"
    assert numbers["lists_remedy"] == "2 of 3"
    assert numbers["sure_lists_most"] == "99.0 %"
    assert numbers["both_posl"] == 5


def changed(rows, agent, **scores):
    """Return rows in which the first agent of this kind has other scores."""
    first = measured.of_agent(rows, agent).index[0]
    rows = rows.copy()
    for name, score in scores.items():
        rows.loc[first, name] = score
    return rows


@pytest.mark.parametrize(
    ("beginning", "agent", "scores"),
    [
        ("DReST on lotteries pays", "DReST and Neutrality+", {"main": 0.55}),
        ("DReST between sets", "DReST and Neutrality+", {"later/0.01/0.05": 0.06}),
        ("A network that reads lists", f"DReST and Neutrality+{AS_LISTS}", {"main": 0.03}),
        ("What agents do", "DReST, sure lengths", {"main": 0.06}),
        ("None of the", "DReST, sure lengths", {"posl": 9, "cycles": 0}),
        ("A weighted sum", "coins plus neutrality", {"main": 0.01}),
        ("Neutrality+ prefers", "scripted: Neutrality+", {"pair/BF": 0.5}),
    ],
)
def test_a_single_agent_can_refute_a_claim(rows, beginning, agent, scores):
    sentence = next(sentence for sentence in lotteries.CLAIMS if sentence.startswith(beginning))
    assert lotteries.CLAIMS[sentence](rows)
    assert not lotteries.CLAIMS[sentence](changed(rows, agent, **scores))


@pytest.mark.parametrize(
    ("holds", "part", "column", "value"),
    [
        (claims.pays_less_at_higher_prices, "corridor", "predicted", 0.9),
        (claims.critical_prices_rise, "critical", "price", 0.01),
        (claims.fixed_point_loses_usefulness, "button", "usefulness", 0.99),
    ],
)
def test_another_shape_refutes_a_claim(rows, holds, part, column, value):
    assert holds(rows)
    chosen = rows[rows.part == part]
    last = chosen[chosen.policy.isin(["fixed point"]) | chosen.policy.isna()].index[-1]
    assert not holds(rows.assign(**{column: rows[column].mask(rows.index == last, value)}))


def test_a_range_includes_the_sampling_error_of_items():
    agents = pd.DataFrame({"main": [0.01, 0.4, 0.5], "error/main": [0.02, 0.1, 0.03]})
    assert pages.scaled(agents, "main") == pytest.approx([0, 1, 40, 50, 53])
    assert pages.scaled(agents.assign(posl=9.0), "posl").tolist() == [9, 9, 9]


def test_tables_have_medians(rows):
    """The table of conditions counts agents."""
    conditions = {row[0].replace("\\", ""): row[1:] for row in pages.condition_table(rows).rows}
    assert conditions["DReST and Neutrality+"] == ["3 of 3"] * 4
    assert conditions["DReST, sure lengths"][2] == "0 of 3"
    main = {row[0].replace("\\", ""): row[1:] for row in lotteries.TABLES["main"](rows).rows}
    assert main["DReST, lotteries"][0] == "60.0 (50.0 to 90.0)"
    assert main[f"DReST and Neutrality+{AS_LISTS}"][0] == "1.0 (0.0 to 3.0)"
    assert main["DReST, lotteries"][5] == "3 (3 to 5)"


def test_figures_have_every_variant(rows):
    assert "DReST, lotteries from 0" in lotteries.FIGURES["later"](rows).alt
    assert "coins, sure lengths, as lists" in lotteries.FIGURES["payments"](rows).alt
