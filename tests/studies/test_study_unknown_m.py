"""m unknown: predictions for a wrong m, or none, have their symmetries; runs have the divisors that they say."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.studies import unknown_m
from drest_torch.studies.unknown_m import Key, best_return, offers, quotes, rest
from drest_torch.theory import balance
from tests.helpers.studies import composed_study

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
