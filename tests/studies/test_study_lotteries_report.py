"""What the study of lotteries reports of climbs and of agents that differ from an archetype in a few numbers."""

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from drest_torch.choices.archetypes import ideal
from drest_torch.choices.closed_forms import button_usefulness, paid_shift, pressed
from drest_torch.choices.prospects import RESIST_COSTS
from drest_torch.jobs.job import Result
from drest_torch.statistics.intervals import difference
from drest_torch.studies import lotteries
from drest_torch.studies.lottery_runs import measure
from tests.helpers.studies import composed_study, reported

CFG = composed_study(
    "lotteries",
    *("study.parts=[worlds,menus]", "study.episodes=[16,64]", "study.tenths=[5,1]", "study.chances=[0.5]"),
    *('study.arms=[D,B,"D, lists"]', "study.agents=3", "study.suite_items=3"),
)
LONGER = {16: (0.1 + 0.8 * 0.33, 0.1 + 0.8 * 0.4, 0.2), 64: (0.1 + 0.8 * 0.02, 0.1 + 0.8 * 0.45, 0.35)}
"""P(longer) in the corridors with a price of 0.5 and of 0.1, and with the button."""
USEFUL = {16: (0.9, 0.95, 0.7), 64: (0.65, 0.9, 0.8)}
CHANGED = {
    "D": {
        "main": (0.0, 0.03, 0.01),
        "cycles": (0, 0, 1),
        "extreme_earlier": (0.0, 0.2, 0.1),
        "usefulness": (1, 1, 0.9),
    },
    "B": {"main": (0.5, 0.6, 0.9), "order gap/dominance": (0.1, 0.3, 0.2), "posl": (7, 8, 3)},
    "D, lists": {"main": (0.04, 0.02, 0.06), "error/main": (0.01, 0.0, 0.02)},
}


@pytest.fixture(scope="module")
def found():
    numbers = measure(ideal, 3)

    def result(key):
        if key.part == "worlds":
            return Result({}, {"longer": np.array(LONGER[key.name]), "usefulness": np.array(USEFUL[key.name])})
        arrays = {name: np.full(3, value) for name, value in numbers.items()}
        arrays["later/0.01/0.1"] = np.array([0.0, 0.2, 0.0]) if key.name == "D" else arrays["later/0.01/0.1"]
        return Result({}, arrays | {name: np.array(of, float) for name, of in CHANGED[key.name].items()})

    with patch.object(lotteries, "ARCHETYPES", {"Neutrality+": ideal}):
        yield reported(lotteries, CFG, result)


def test_climbs_stand_beside_the_closed_forms(found):
    rows = found.rows[found.rows.part.notna()].set_index(["part", "episodes_per_meta", "setting", "metric"]).value
    assert rows["corridor, κ", 16, 0.1, "found"] == pytest.approx(0.4)
    assert rows["corridor, κ", 64, 0.5, "predicted"] == pytest.approx(paid_shift(0.1, 0.9, 0.5, 0.9, 64))
    assert rows["button, c", 64, 0.5, "found"] == 0.35
    assert rows["button, c", 16, 0.5, "usefulness"] == 0.7
    best = pressed(0.5, 0.9, 16)
    assert rows["button, c", 16, 0.5, "predicted"] == pytest.approx(best)
    assert rows["button, c", 16, 0.5, "predicted_usefulness"] == pytest.approx(button_usefulness(0.5, best))
    assert ("corridor, κ", 16, 0.5, "usefulness") not in rows.index


def test_what_the_page_says(found):
    values = found.values()
    most = values["highest"]
    assert (most.episodes_per_meta, most.setting, most.found) == (16, 0.5, pytest.approx(0.33))
    apart = [abs(0.33 - paid_shift(0.1, 0.9, 0.5, 0.9, 16)), abs(0.4 - paid_shift(0.1, 0.9, 0.1, 0.9, 16))]
    apart += [abs(0.02 - paid_shift(0.1, 0.9, 0.5, 0.9, 64)), abs(0.45 - paid_shift(0.1, 0.9, 0.1, 0.9, 64))]
    apart += [abs(0.2 - pressed(0.5, 0.9, 16)), abs(0.35 - pressed(0.5, 0.9, 64))]
    assert values["away"] == pytest.approx(max(apart))
    assert values["least_useful"] == 0.7  # of the buttons alone
    assert values["order"] == pytest.approx(0.3)
    assert values["plus"] == pytest.approx([0.5, 0.5])
    assert values["reached"].tolist() == [True, False, False]
    assert values["posl"] == {"D": "2 of 3"}
    assert values["apart"] == difference([0.0, 0.03, 0.01], [0.5, 0.6, 0.9])
    assert values["extreme"] == 0.2
    assert values["lists"] == {"D": [pytest.approx(1.0), pytest.approx(4.0)]}
    assert list(values["titles"]) == ["D", "B", "D, lists"]
    assert values["neutral"] == ["0", "100", "–", "0", "0", "100", "0", "0"]


def test_the_price_is_quoted_where_it_is_highest(found):
    first, of_menus, posl = found.quotes()
    assert first.measured == "E = 16: 50% of all coins in 33% of the choices"
    assert of_menus.measured.startswith("1 of 3 agents pay nothing")
    assert posl.measured.startswith("2 of 3 agents: POSL")


def test_agents_of_gridworlds_are_quoted_with_their_medians(found):
    with patch.object(lotteries, "ARCHETYPES", {"ideal": ideal}):
        tests = lotteries.people(CFG, {})
    d = tests.loc["ideal"].map(lambda values: np.resize(values, 3))
    d["main"], d["dominance"] = np.array([0.0, 0.02, 0.4]), np.array([1.0, 0.9, 0.5])
    d["usefulness"], d["neutrality"] = np.array([0.9, 0.8, 0.1]), np.array([0.95, 0.7, 0.2])
    d["earlier/0.01/0.05"] = np.array([0.0, 0.3, np.nan])
    silent = d.copy()
    silent["main"] = np.full(3, np.nan)
    frame = pd.DataFrame({"D": d, "G": d, "H": silent}).T
    climbed = lotteries.climbs(CFG, {})
    climbed.loc[0] = ["corridor, κ", 64, 0.5, 0.33, 0.3, np.nan, np.nan]
    said = [*lotteries.quotes(climbed, frame, ["G", "H"])][3:]
    assert [quote.what for quote in said] == [
        "G, on unseen levels, agents: 3",
        "POSL in gridworlds (G)",
        "POSL in gridworlds (H)",
    ]
    assert said[0].measured == "pays in 2.0%, takes improvements in 90.0%; U 0.800, N 0.700"
    assert said[1].measured.startswith("1 of 3 (agents × symmetries)")
    assert said[1].measured.endswith("the most that one resists: 30%")
    assert "resists" not in said[2].measured.partition(";")[2]


def test_prices_from_which_on_nothing_is_paid(found):
    never = found.rows[(found.rows.metric == "never/later/0.01") & (found.rows.agent == "D")].value.item()
    after = RESIST_COSTS[RESIST_COSTS.index(0.1) + 1]
    assert never.tolist() == [never[0], after, never[0]]
    assert never[0] < after


def test_tables_of_agents(found):
    wanted = {str(row[0]).replace("\\", ""): [*row[1:]] for row in found.tables["wanted"]().rows}
    table = found.tables["wanted"]()
    assert table.header == ["wanted", "D", "D, lists"]
    assert wanted["main ≤ 0.02"] == ["✗ 2 of 3", "✗ 1 of 3"]
    assert wanted["cycles ≤ 0"] == ["✗ 2 of 3", "✓ 3 of 3"]
    assert wanted["POSL of 9 ≥ 8"] == ["✓ 3 of 3", "✓ 3 of 3"]
    assert wanted["usefulness, sure ≥ 0.95"] == ["✗ 2 of 3", "✓ 3 of 3"]
    suites = found.tables["suites"]()
    cells = {str(row[0]): dict(zip(suites.header[1:], row[1:], strict=True)) for row in suites.rows}
    assert cells["B"]["main"] == "60.0 (50.0 to 90.0)"
    assert cells["D, lists"]["main"] == "4.0 (2.0 to 8.0)"  # with what the sample of items leaves open
    scores = found.tables["scores"]()
    posl = {str(row[0]): row[1] for row in scores.rows}
    assert posl["B"] == "7 (3 to 8)"
    published = found.kept["tables"]["arms"]
    assert [row[0].partition(":")[0] for row in published["rows"]] == ["D", "D, lists", "B"]
    assert published["rows"][0][0].endswith("(3 agents)")
    assert published["rows"][2][1] == "60.0 (50.0 to 90.0)"


def test_plots_of_prices(found):
    with patch.object(lotteries, "paid_shift", lambda left, right, cost, lam, episodes: cost * episodes * lam / 100):
        alt = found.plots["corridors"]().alt
    assert "E = 16 from 0 to 0.144; E = 64 from 0 to 0.576" in alt
    menus = found.plots["later/0.01"]().alt
    assert "menus: 0.01 to 0.99" in menus
    assert "B from 0.5 to 0; D from 0.5 to 0; D, lists from 0.5 to 0" in menus
