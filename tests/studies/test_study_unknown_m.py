"""m unknown: predictions for a wrong m, or none, have their symmetries; runs have the divisors that they say."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.studies import unknown_m
from drest_torch.studies.unknown_m import best_return, predict, quotes, rest
from drest_torch.theory import balance
from tests.helpers.studies import composed_study

CFG = composed_study("unknown_m")


@pytest.mark.parametrize("factor", [2.0, 5.0, 10.0])
def test_too_large_an_m_is_the_mirror_image_of_too_small_a_one(factor):
    p, bits = predict(CFG, "example", f"longer-x{factor:g}")
    q, same = predict(CFG, "spacious", f"longer-x{1 / factor:g}")  # the same in every world
    assert p + q == pytest.approx(1)
    assert bits == pytest.approx(same)
    assert p == pytest.approx(balance(1.0, 1 / factor, 0.9, 64).item())
    assert p < 0.5


@pytest.mark.parametrize("label", ["m", "seen", "both-x0.1", "both-x10"])
def test_one_half_wherever_both_lengths_offer_the_same(label):
    assert predict(CFG, "example", label) == (pytest.approx(0.5), pytest.approx(1))


def test_no_divisor_is_a_wrong_one():
    """By m of the shorter ÷ m of the longer; and m has the γ of the world."""
    shorter, longer = best_return(CFG, "example")
    assert [shorter, longer] == pytest.approx([2 * 0.95**3, 3 * 0.95**7])
    assert best_return(CFG, "spacious") == pytest.approx([2 * 0.9**2, 3 * 0.9**4])
    p, bits = rest(CFG, np.ones(1), np.array([longer / shorter]))
    assert predict(CFG, "example", "none") == (pytest.approx(p.item()), pytest.approx(bits.item()))


def test_runs_say_what_coins_are_divided_by():
    specs = {key: job.spec for key, job in unknown_m.jobs(CFG).items()}
    assert len(specs) == len(CFG.worlds) * (4 + 2 * len(CFG.factors))
    assert [specs["example", label]["divisor"] for label in unknown_m.UNKNOWN] == ["best", "seen", "none"]
    assert specs["spacious", "longer-x0.5"]["factors"] == [1.0, 0.5]
    assert specs["spacious", "both-x2"]["factors"] == [2.0, 2.0]
    usual, patient = (specs["example", f"longer-x10{end}"]["training"] for end in ("", "-patient"))
    assert [patient[each] // usual[each] for each in ("meta_episodes", "decay_episodes")] == [4, 4]
    assert [specs[name, "m"]["training"]["gamma"] for name in ("example", "spacious")] == [0.95, 0.9]


def test_what_is_quoted_is_the_lowest_mean_of_any_world():
    index = pd.MultiIndex.from_product((("example", "spacious"), unknown_m.divisors(CFG)), names=("world", "divisor"))
    means = pd.DataFrame({"neutrality": 0.9, "usefulness": 0.8}, index)
    means.loc[("spacious", "seen"), "neutrality"], means.loc[("example", "none"), "neutrality"] = 0.5, 0.25
    seen, _, none = quotes(CFG, means)
    assert seen.measured.startswith("N ≥ 0.500, U ≥ 0.800")
    assert none.measured == "N from 0.250 to 0.900"
