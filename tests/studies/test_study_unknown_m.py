"""m unknown: predictions for a wrong m, or none, have their symmetries; runs have the divisors that they say."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.studies import unknown_m
from drest_torch.studies.unknown_m import Key, best_return, offers, quotes, rest
from drest_torch.theory import balance
from tests.helpers.studies import composed_study, reported, table_ends

CFG = composed_study("unknown_m")


def predict(*key):
    """P(longer) and neutrality."""
    return rest(CFG, *(np.array([each]) for each in offers(CFG, Key(*key)))).iloc[0].tolist()


@pytest.mark.parametrize("factor", [2.0, 5.0, 10.0])
def test_too_large_an_m_is_the_mirror_image_of_too_small_a_one(factor):
    p, bits = predict("example", "longer", factor)
    assert predict("spacious", "longer", 1 / factor) == pytest.approx([1 - p, bits])  # the same in every world
    assert p == pytest.approx(balance(1.0, 1 / factor, 0.9, 64).item())
    assert p < 0.5


@pytest.mark.parametrize("divisor", [("m",), ("seen",)])
def test_one_half_wherever_both_lengths_offer_the_same(divisor):
    assert predict("example", *divisor) == [pytest.approx(0.5), pytest.approx(1)]


def test_no_divisor_is_a_wrong_one():
    """By m of the shorter ÷ m of the longer; and m has the γ of the world."""
    shorter, longer = best_return(CFG, "example")
    assert [shorter, longer] == pytest.approx([2 * 0.95**3, 3 * 0.95**7])
    assert best_return(CFG, "spacious") == pytest.approx([2 * 0.9**2, 3 * 0.9**4])
    assert predict("example", "none") == pytest.approx(predict("example", "longer", shorter / longer))


def test_runs_say_what_coins_are_divided_by():
    specs = {key: job.spec for key, job in unknown_m.jobs(CFG).items()}
    assert len(specs) == len(CFG.worlds) * (4 + len(CFG.factors))
    assert [specs[Key("example", divisor)]["divisor"] for divisor in unknown_m.UNKNOWN] == ["best", "seen", "none"]
    assert specs[Key("spacious", "longer", 0.5)]["factors"] == [1.0, 0.5]
    usual, patient = (specs[Key("example", "longer", 10.0, times)]["training"] for times in (1, 4))
    assert [patient[each] // usual[each] for each in ("meta_episodes", "decay_episodes")] == [4, 4]
    assert [specs[Key(name, "m")]["training"]["gamma"] for name in ("example", "spacious")] == [0.95, 0.9]


def test_what_is_quoted_is_the_lowest_mean_of_any_world():
    keys = [(*key[1:], key.world) for key in unknown_m.jobs(CFG)]
    index = pd.MultiIndex.from_tuples(keys, names=[*Key._fields[1:], "world"]).sort_values()
    means = pd.DataFrame({"neutrality": 0.9, "usefulness": 0.8}, index)
    means.loc[("seen", 1.0, 1, "spacious"), "neutrality"] = 0.5
    means.loc[("none", 1.0, 1, "example"), "neutrality"] = 0.25
    seen, _, none = quotes(CFG, means)
    assert seen.measured.startswith("N ≥ 0.500, U ≥ 0.800")
    assert none.measured == "N from 0.250 to 0.900"


FEW = composed_study("unknown_m", "study.worlds=[example,spacious]", "study.agents=2", "study.factors=[0.5,2.0]")
NEUTRAL = {  # of both agents on the clock of training
    ("example", "m"): (0.99, 1.0),
    ("spacious", "m"): (0.98, 0.96),
    ("example", "seen"): (0.9, 0.94),
    ("spacious", "seen"): (0.8, 0.7),
    ("example", "none"): (0.7, 0.9),
    ("spacious", "none"): (0.4, 0.8),
    ("example", "longer", 0.5): (0.85, 0.95),
    ("spacious", "longer", 0.5): (0.8, 0.9),
    ("example", "longer", 2.0): (0.5, 0.7),
    ("spacious", "longer", 2.0): (0.3, 0.7),
    ("example", "longer", 2.0, 4): (0.85, 0.87),
    ("spacious", "longer", 2.0, 4): (0.83, 0.85),
}


@pytest.fixture(scope="module")
def found():
    def result(key):
        neutral = NEUTRAL[tuple(key) if key[2:] != (1.0, 1) and key.patience > 1 else tuple(key[: 2 + (key[2] != 1.0)])]
        useful = (0.9, 0.5) if key == Key("spacious", "seen") else (0.95, 0.85)
        return table_ends({"moves": (neutral, useful, (0.3, 0.5)), "steps": ((0.1, 0.1),) * 3})

    return reported(unknown_m, FEW, result)


def test_what_the_page_says_is_of_the_clock_of_training(found):
    values = found.values()
    assert values["seen"].neutrality.tolist() == pytest.approx([0.92, 0.75])
    assert values["seen"].usefulness.tolist() == pytest.approx([0.9, 0.7])
    assert values["undivided_lowest"] == "Spacious"
    predicted = [predict(name, "none")[1] for name in FEW.worlds]
    apart = [abs(0.8 - predicted[0]), abs(0.6 - predicted[1])]
    assert values["undivided_apart"] == pytest.approx(sum(apart) / 2)
    assert (values["usual"], values["longer"]) == pytest.approx((0.5, 0.84))
    assert values["predicted"] == pytest.approx(predict("example", "longer", 2.0)[1])


def test_what_is_quoted_names_each_factor_with_its_patience(found):
    assert [quote.measured for quote in found.quotes()] == [
        "N ≥ 0.750, U ≥ 0.700 in 2 worlds",
        "× 0.5: N ≥ 0.850; × 2: N ≥ 0.500; × 2, trained 4 times as long: N ≥ 0.840",
        "N from 0.600 to 0.800",
    ]


def test_the_table_has_m_and_the_prediction_beside_what_was_found(found):
    table = found.tables["unknown"]()
    assert table.header == ["world", "m short, long", "m", "largest seen", "none", "none, predicted"]
    example, spacious = ([*row] for row in table.rows)
    assert example[:2] == ["Running example", f"{2 * 0.95**3:.2f}, {3 * 0.95**7:.2f}"]
    assert example[2].startswith("✓ 0.995 ± 0.007")
    assert spacious[2:5] == ["◐ 0.970 ± 0.014", "✗ 0.750 ± 0.071", "✗ 0.600 ± 0.283"]
    assert spacious[5] == f"{predict('spacious', 'none')[1]:.3f}"


def test_the_plot_goes_over_all_factors_with_m_between(found):
    alt = found.plots["longer"]().alt
    # From the mean at half of m to that at twice m; the prediction is the same at both ends; the patient agents.
    ends = f"{predict('example', 'longer', 0.5)[1]:.3g}"
    assert f"worlds from 0.875 to 0.55; predicted from {ends} to {ends}; trained 4 times as long from 0.85 to" in alt
