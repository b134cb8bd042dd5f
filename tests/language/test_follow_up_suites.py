"""Suites with the chances and scores of the follow-up (arXiv 2604.17502)."""

import numpy as np
import pytest

from drest_torch.language.evaluation import reference_rows, with_flattening
from drest_torch.language.follow_up_suites import DEFINITIONS, follow_up_offers, follow_up_prompts
from drest_torch.language.prompt_ladder import HELD_OUT
from drest_torch.language.prompt_suites import generate, suites_of
from drest_torch.language.scenario_measures import uniform_flattening

ITEMS = 400


def numbers(name):
    """Return the chances of the later time and the scores of both times: of staying, and of shifting [items, 3]."""
    rows = []
    for offer_pair in follow_up_offers(name, ITEMS, 3):
        rows.append([[later[0], sooner[2], later[2]] for sooner, later in offer_pair])
    return np.array(rows).transpose(1, 0, 2)


def expected(offers):
    chance, sooner, later = offers.T
    return (1 - chance) * sooner + chance * later


@pytest.mark.parametrize("name", ["main", "low_gain", "dominance", "zero_cost", "joint_noshift"])
def test_the_action_makes_the_later_time_likelier(name):
    stay, shift = numbers(name)
    assert (shift[:, 0] > stay[:, 0]).all()


@pytest.mark.parametrize("name", ["shift_earlier", "shift_earlier_dominance"])
def test_the_action_makes_the_sooner_time_likelier(name):
    stay, shift = numbers(name)
    assert (shift[:, 0] < stay[:, 0]).all()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_scores_are_whole_numbers_up_to_ten(name):
    for offers in numbers(name):
        assert (offers[:, 1:] == offers[:, 1:].round()).all()
        assert offers[:, 1:].min() >= 0
        assert offers[:, 1:].max() <= 10


def test_gains_of_low_gain_are_four_to_twelve_percent():
    """The middle 90 % of the factors; all gains are above 0.2 and below 0.6 points."""
    stay, shift = numbers("low_gain")
    gain = expected(shift) - expected(stay)
    assert gain.min() > 0.2
    assert gain.max() < 0.6
    factors = expected(shift) / expected(stay) - 1
    low, high = np.quantile(factors, [0.05, 0.95])
    assert low == pytest.approx(0.04, abs=0.01)
    assert high == pytest.approx(0.12, abs=0.015)


def test_most_of_dominance_keeps_a_score():
    stay, shift = numbers("dominance")
    change = shift[:, 1:] - stay[:, 1:]
    assert change.min() == 0
    assert (change[:, 0] > 0).all()
    assert (change[:, 1] == 0).mean() == pytest.approx(0.65, abs=0.2)  # a score of 10 stays, too


def test_gains_of_both_dominances_are_matched():
    gains = []
    for name in ("dominance", "shift_earlier_dominance"):
        stay, shift = numbers(name)
        gains.append(expected(shift) - expected(stay))
    assert np.abs(gains[0] - gains[1]).max() <= 0.15 + 1e-6


@pytest.mark.parametrize(
    ("name", "neutral", "best"),
    [
        ("main", 0, 1),
        ("low_gain", 0, 1),
        ("dominance", 1, 1),
        ("zero_cost", 0.5, 1),
        ("joint_noshift", 0, 0),
        ("shift_earlier", 0, 0),
        ("shift_earlier_dominance", 1, 1),
    ],
)
def test_reference_policies_act_as_the_follow_up_says(name, neutral, best):
    rows = {row.policy: row.numbers["takes the action"].estimate for row in reference_rows(follow_up_prompts(name, 30))}
    assert rows["neutral expert"] == pytest.approx(neutral)
    assert rows["best score"] == pytest.approx(best)


def test_suites_have_prompts_in_two_orders():
    prompts = generate("followup_main", 3, 1, HELD_OUT)
    assert [prompt.order for prompt in prompts] == [0, 1] * 3
    assert {prompt.suite for prompt in prompts} == {"followup_main"}
    assert "followup_low_gain" in suites_of("followup")


def test_flattening_of_these_suites_uses_their_main():
    prompts = [*follow_up_prompts("main", 4), *follow_up_prompts("dominance", 4)]
    rows = [row for row in reference_rows(prompts) if row.policy == "random"]
    before = [row for row in reference_rows(prompts) if row.policy == "best score"]
    main, dominance = with_flattening(rows, before)
    assert main.numbers["action if flattened"].estimate == pytest.approx(0.5)
    assert dominance.numbers["action if flattened"].estimate == pytest.approx(uniform_flattening(1, 1, 0.5))
