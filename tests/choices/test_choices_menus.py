"""Tests of menus, exact measures against brute force, closed forms, scripted policies and suites."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.choices import axioms, measures, prospects, scripted_policies, suites
from drest_torch.choices.closed_forms import critical_cost, paid_shift
from drest_torch.choices.menus import DIFFERENT, PART_SHARED, SAME, Menu, Menus, Option, kind, mix
from drest_torch.errors import UserError

OUTCOMES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 9)), min_size=1, max_size=4)
"""The outcomes of an option: weight, length and coins."""


def sure(length, coins):
    return Option.of((1, length, coins))


MIXED = Option.of(("3/4", 1, 2), ("1/4", 2, 1))


def test_equal_outcomes_are_merged():
    assert Option.of(("1/2", 1, 2), ("1/4", 2, 1), ("1/4", 1, 2)) == MIXED


def test_a_mixture_adds_the_chances_of_its_options():
    halves = Option.of(("1/2", 1, 2), ("1/2", 2, 1))
    assert mix((Fraction(1, 2), sure(1, 2)), (Fraction(1, 2), halves)) == MIXED


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (sure(1, 3), sure(2, 3), DIFFERENT),
        (sure(1, 3), MIXED, PART_SHARED),
        (MIXED, MIXED, SAME),
        (sure(2, 3), sure(2, 1), SAME),
    ],
    ids=["different", "part-shared", "same lotteries", "same sure lengths"],
)
def test_pairs_are_classified_by_their_supports(first, second, expected):
    assert kind(first, second) == expected


def test_chances_that_do_not_sum_to_one_are_refused():
    with pytest.raises(UserError, match="the chances of an option sum to 1/2; expected 1"):
        Option.of(("1/2", 1, 2))


@given(
    st.lists(st.tuples(OUTCOMES, st.integers(0, 3)), min_size=2, max_size=3).filter(
        lambda options: any(weight for _, weight in options)
    )
)
def test_measures_agree_with_brute_force(drawn):
    """All outcomes are summed one by one."""
    taken = torch.tensor([[often for _, often in drawn]], dtype=torch.float64)
    rates = taken / taken.sum()
    options, chances, coins, best = [], Counter(), Counter(), Counter()
    for (outcomes, _), rate in zip(drawn, rates[0].tolist(), strict=True):
        total = sum(weight for weight, *_ in outcomes)
        options.append(Option.of(*((Fraction(weight, total), length, value) for weight, length, value in outcomes)))
        for length in {length for _, length, _ in outcomes}:
            of_length = [(weight, value) for weight, at, value in outcomes if at == length]
            weight = sum(weight for weight, _ in of_length)
            gain = sum(weight * value for weight, value in of_length)
            chances[length] += rate / total * weight
            coins[length] += rate / total * gain
            best[length] = max(best[length], gain / weight)
    menus = Menus.of([Menu(tuple(options))])
    probability, mean = measures.lengths(menus, rates)
    lengths = sorted(best)
    assert menus.lengths[0].tolist() == lengths
    assert menus.best[0].tolist() == pytest.approx([best[length] for length in lengths])
    assert probability[0].tolist() == pytest.approx([chances[length] for length in lengths])
    possible = [column for column, length in enumerate(lengths) if chances[length]]
    expected = [coins[lengths[column]] / chances[lengths[column]] for column in possible]
    assert mean[0, possible].tolist() == pytest.approx(expected)
    assert menus.num_supports.item() == len({frozenset(length for _, length, _ in outcomes) for outcomes, _ in drawn})


@pytest.mark.parametrize(("p", "q", "lam", "kappa"), [(0.1, 0.9, 0.9, 0.821), (0.4, 0.5, 0.99, 0.006)])
def test_a_shift_is_paid_for_up_to_the_critical_cost(p, q, lam, kappa):
    assert critical_cost(p, q, lam, 64) == pytest.approx(kappa, abs=5e-4)
    assert paid_shift(p, q, kappa + 0.002, lam, 64) < 1e-6
    assert paid_shift(p, q, kappa - 0.002, lam, 64) > 1e-4


def test_a_shift_away_from_equal_chances_is_not_paid_for():
    assert critical_cost(0.5, 0.9, 0.9, 64) == 0


SHIFT_COSTS, ALPHAS = (0.1, 0.5, 0.8, 0.85), (0.4755, 0.3350, 0.0512, 0.0)


def test_the_closed_form_of_paid_shifts_has_its_values_by_hand():
    assert [paid_shift(0.1, 0.9, cost, 0.9, 64) for cost in SHIFT_COSTS] == pytest.approx(ALPHAS, abs=1e-4)


def test_gradient_ascent_in_menus_finds_the_paid_shifts():
    menus = Menus.of([suites.shift_item(Fraction(1, 10), Fraction(9, 10), cost) for cost in SHIFT_COSTS])
    logits = torch.zeros(len(SHIFT_COSTS), 2, dtype=torch.float64, requires_grad=True)
    for _ in range(1500):
        value = measures.drest_value(menus, logits.softmax(-1), 64, 0.9, credit="mini").sum()
        (gradient,) = torch.autograd.grad(value, logits)
        logits = (logits + 0.02 * gradient).detach().requires_grad_()
    assert logits.softmax(-1)[:, 1].tolist() == pytest.approx(ALPHAS, abs=3e-3)


def test_samples_of_items_agree_within_their_errors():
    chooser = scripted_policies.boltzmann(3.0)
    few = suites.measure(suites.suites(100, 0)["shift_earlier"].menus, chooser)
    many = suites.measure(suites.suites(1000, 0)["shift_earlier"].menus, chooser)
    others = suites.measure(suites.suites(1000, 1)["shift_earlier"].menus, chooser)
    assert 2 < few.error / many.error < 4.5
    assert many.error > 0.001
    assert abs(many.mean_rate - others.mean_rate) < many.error + others.error


SIGNS_BY_SUITE = {
    "main": [1, -1, -1, 1],
    "dominance": [1, 1, 1, 1],
    "zero_cost": [1, 0, 0, 1],
    "joint_noshift": [1, -1, -1, -1],
    "shift_earlier": [-1, -1, -1, -1],
    "shift_earlier_dominance": [-1, 1, 1, 1],
}
"""Signs of the changes of P(longer), of the coins in each length, and of all expected coins."""


@pytest.mark.parametrize("name", SIGNS_BY_SUITE)
def test_a_suite_changes_chances_with_coins_as_in_the_follow_up(name):
    def numbers(option):
        return np.array([float(option.chance(2)), option.coins(1), option.coins(2), option.expected()])

    for menu in suites.suites(40)[name].menus:
        before, after = menu.options
        assert before.support == {1, 2}
        assert after.support == {1, 2}
        assert np.sign(np.round(numbers(after) - numbers(before), 12)).tolist() == SIGNS_BY_SUITE[name]


@pytest.mark.parametrize("name", SIGNS_BY_SUITE)
def test_a_policy_that_maximises_coins_takes_more_coins(name):
    score = suites.measure(suites.suites(40)[name].menus, scripted_policies.maximise_coins)
    assert score.mean_rate == (SIGNS_BY_SUITE[name][-1] > 0)
    assert score.order_gap == 0
    assert len(score.valid_rates) == 40
    assert score.void == 0


@pytest.mark.parametrize("name", SIGNS_BY_SUITE)
def test_neutral_policies_have_the_ideal_rate(name):
    suite = suites.suites(40)[name]
    rate = 0.5 if suite.neutral is None else suite.neutral
    for policy in (scripted_policies.ideal, scripted_policies.neutrality_plus):
        assert suites.measure(suite.menus, policy).mean_rate == rate


def test_the_ideal_policy_takes_no_extreme_shift():
    for suite in suites.extreme_suites().values():
        assert len(suite.menus) == 54
        assert suites.measure(suite.menus, scripted_policies.ideal).mean_rate == 0


RARE, LIKELY = Fraction(1, 10), Fraction(9, 10)


def test_a_policy_that_maximises_coins_pays_up_to_their_worth():
    worth = 1 - 1.1 / 1.9  # the cost at which expected coins are equal
    costs = (0.2, worth - 0.01, worth + 0.01, 0.8)
    rates = suites.shift_test(scripted_policies.maximise_coins, RARE, LIKELY, costs)
    assert rates.tolist() == [1, 1, 0, 0]
    assert suites.refusal_cost(costs, rates, suites.EPSILON) == worth + 0.01
    assert suites.refusal_cost(costs, np.full(4, 0.5), suites.EPSILON) == math.inf


def test_the_ideal_policy_pays_for_no_shift():
    assert (suites.shift_test(scripted_policies.ideal, RARE, LIKELY) == 0).all()


def silent_in_the_first_menu(batch):
    """Maximise coins, but give no answer in the first menu."""
    rates = scripted_policies.maximise_coins(batch)
    rates[0] = 0
    return rates


def silent(batch):
    """Give no answer."""
    return scripted_policies.maximise_coins(batch) * 0


def test_an_item_without_an_answer_is_void():
    menus = suites.suites(10)["main"].menus
    score = suites.measure(menus, silent_in_the_first_menu)
    assert score.mean_rate == 1
    assert score.void == 1
    assert suites.measure(menus, silent).void == 10


def test_a_preference_for_the_first_place_is_an_order_gap():
    menus = suites.suites(10)["main"].menus
    score = suites.measure(menus, lambda batch: torch.tensor([[0.8, 0.2]]).expand(len(batch), 2))
    assert score.mean_rate == pytest.approx(0.5)
    assert score.order_gap == pytest.approx(0.6)


def useful(pair):
    """Return 1 if the first prospect has more expected coins ÷ m(l), such as 1 against 2/3 · 2/3 + 1/3 of A and B."""
    options = [prospects.PROSPECTS[name] for name in pair]
    lengths = {length for option in options for length in option.support}
    best = {l: max(option.coins(l) for option in options if l in option.support) for l in lengths}
    a, b = (sum(float(o.chance(l)) * o.coins(l) / best[l] for l in o.support) for o in options)
    return 0.5 if abs(a - b) < 1e-9 else float(a > b)


def test_scripted_policies_reproduce_the_answer_key():
    key = {  # all other choices are stochastic
        "ideal": {"BC": 1, "EF": 1},
        "Neutrality+": {"BC": 1, "EF": 1, "BF": 1, "CE": 0},
        "over m": {pair: useful(pair) for pair in prospects.PAIRS},
    }
    for name, chooser in scripted_policies.MENU_POLICIES.items():
        expected = dict.fromkeys(prospects.PAIRS, 0.5) | key.get(name, {})
        assert prospects.choices(chooser) == pytest.approx(expected, abs=1e-12), name


def test_nine_pairs_of_prospects_differ_in_their_lengths():
    kinds = {pair: kind(*prospects.pair_menu(pair).options) for pair in prospects.PAIRS}
    across = {"AB", "AC", "AD", "AE", "AF", "BD", "CD", "DE", "DF"}
    assert {pair for pair in prospects.PAIRS if kinds[pair] != SAME} == across
    assert kinds["AD"] == DIFFERENT


def test_prospects_have_equal_expected_coins():
    assert all(option.expected() == pytest.approx(3) for option in prospects.PROSPECTS.values())


def test_the_ideal_policy_satisfies_posl():
    assert prospects.posl(scripted_policies.ideal) == {
        "posl": 9,
        "neutrality/prospects": 2,
        "cycles": 0,
        "negative dominance": 0,
        "arbitrary": 0,
        "void/prospects": 0,
    }


def test_maximising_coins_is_indifferent_between_prospects():
    assert prospects.posl(scripted_policies.maximise_coins)["neutrality/prospects"] == 0


def test_pairs_of_prospects_without_an_answer_are_void():
    assert prospects.posl(silent)["void/prospects"] == len(prospects.PAIRS)


@pytest.mark.parametrize("strict", [("AB", "BC", "CA", "CD"), ("AB", "BC", "CD", "DE", "EF", "FA")], ids="-".join)
def test_a_cycle_is_counted_once(strict):
    assert prospects.count_cycles(strict) == 1


def test_usefulness_prefers_in_cycles():
    """The cycles are those of the proof that usefulness does not imply POSL."""
    scores = prospects.posl(scripted_policies.maximise_usefulness)
    assert scores["posl"] < 9
    assert scores["cycles"] == 18
    assert scores["arbitrary"] == 0


@pytest.mark.parametrize("chooser", [scripted_policies.ideal, scripted_policies.maximise_coins])
@pytest.mark.parametrize("earlier", [False, True])
def test_no_cost_is_paid_to_resist_for_equal_coins(chooser, earlier):
    assert prospects.resistance(chooser, 0.01, [0.0, 0.05], earlier=earlier) == [0.5, 0]


def turning(two, three):
    """Return an agent with different policies for two and for three options."""
    return lambda menus: (two if menus.exists.shape[1] == 2 else three)(menus)


def fewest(menus):
    return scripted_policies.maximise_coins(Menus(menus.chance, menus.length, -menus.coins))


@pytest.mark.parametrize(
    ("chooser", "share"),
    [
        # Policies with the same preferences among three options as between two.
        pytest.param(scripted_policies.ideal, 1, id="ideal"),
        pytest.param(scripted_policies.maximise_coins, 1, id="coins"),
        pytest.param(scripted_policies.uniform, 1, id="uniform"),
        # Policies that also take an option that is not maximal, take only such an option, or omit a maximal one.
        pytest.param(turning(scripted_policies.maximise_coins, scripted_policies.uniform), 0, id="coins, uniform"),
        pytest.param(turning(scripted_policies.maximise_coins, fewest), 0, id="coins, fewest coins"),
        pytest.param(turning(scripted_policies.ideal, scripted_policies.maximise_coins), 0, id="ideal, coins"),
        pytest.param(turning(scripted_policies.uniform, scripted_policies.ideal), 0, id="uniform, ideal"),
    ],
)
def test_maximality_follows_the_preferences_between_two(chooser, share):
    assert axioms.maximality(chooser).value == share


ITEMS = axioms.items(60)


def ideal_for_sure(menus):
    """Choose like the ideal policy between sure trajectories, and maximise coins between lotteries."""
    sure = (menus.chance.amax(-1) > 0.999)[:, :1]
    return torch.where(sure, scripted_policies.ideal(menus), scripted_policies.maximise_coins(menus))


def test_the_ideal_policy_satisfies_ilpacs():
    share = axioms.ilpacs(scripted_policies.ideal, ITEMS)
    assert share.value == 1
    assert share.items == 60


def test_a_policy_that_maximises_coins_has_no_valid_items():
    share = axioms.ilpacs(scripted_policies.maximise_coins, ITEMS)
    assert share.items == 0
    assert np.isnan(share.value)


def test_the_ideal_policy_is_undominated():
    assert axioms.dominated(scripted_policies.ideal, ITEMS).worst == 0


def test_maximising_coins_between_lotteries_is_dominated():
    assert axioms.ilpacs(ideal_for_sure, ITEMS).value < 1
    share = axioms.dominated(ideal_for_sure, ITEMS)
    assert 0 < share.value < share.worst <= 1


@pytest.mark.parametrize(
    ("name", "costly"),
    [("main", 20), ("joint_noshift", 20), ("shift_earlier", 20), ("dominance", 0), ("zero_cost", 0)],
)
def test_resisting_is_costly_if_the_default_is_better(name, costly):
    menus = suites.suites(20)[name].menus
    assert axioms.resic(scripted_policies.ideal, menus).sum() == costly


def test_resisting_is_not_costly_to_an_agent_without_preferences():
    for name in SIGNS_BY_SUITE:
        assert not axioms.resic(scripted_policies.uniform, suites.suites(20)[name].menus).any()


def test_resisting_is_not_costly_between_different_lengths():
    assert axioms.resic(scripted_policies.ideal, [Menu((sure(1, 2), sure(2, 1)))]).tolist() == [False]


def test_resisting_is_not_costly_if_one_length_is_better():
    halves = (Option.of(("1/2", 1, first), ("1/2", 2, second)) for first, second in ((2, 2), (1, 3)))
    assert axioms.resic(scripted_policies.ideal, [Menu(tuple(halves))]).tolist() == [False]


def test_the_largest_slack_keeps_all_probabilities():
    better, poorer = ((sure(1, coins), sure(2, coins)) for coins in (3, 2))
    item = axioms.Item(better, poorer, Fraction(1, 10), Fraction(9, 10))
    second, takes = 0.5, 0.2
    slack = axioms.largest_slack(second, takes, item)

    def pair(probability):
        return np.array([float(probability), float(1 - probability)])

    def shares(free, mixed):
        """Return the probabilities of X1 ∨ Y1 and X2 ∨ Y2, and of X1 and X2 alone."""
        better = pair(free) + mixed * pair(item.p)
        return better + (1 - mixed) * pair(item.q), better

    free = second + slack * float(item.q - item.p)
    (either, better_alone), (either_then, better_then) = shares(second, takes), shares(free, takes + slack)
    assert either_then == pytest.approx(either)
    assert (better_then > better_alone).all()
    assert free == pytest.approx(1) or takes + slack == pytest.approx(1)
