"""Menus: the format, exact numbers against brute force, closed forms, archetypes and the tests of shutdownability."""

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
"""Of an option: how likely each is, its length and its coins."""


def sure(length, coins):
    return Option.of((1, length, coins))


def test_equal_outcomes_are_one_and_pairs_are_told_apart_by_their_supports():
    mixed = Option.of(("3/4", 1, 2), ("1/4", 2, 1))
    assert Option.of(("1/2", 1, 2), ("1/4", 2, 1), ("1/4", 1, 2)) == mixed
    assert mix((Fraction(1, 2), sure(1, 2)), (Fraction(1, 2), Option.of(("1/2", 1, 2), ("1/2", 2, 1)))) == mixed
    pairs = [(sure(1, 3), sure(2, 3)), (sure(1, 3), mixed), (mixed, mixed), (sure(2, 3), sure(2, 1))]
    assert [kind(*pair) for pair in pairs] == [DIFFERENT, PART_SHARED, SAME, SAME]
    with pytest.raises(UserError, match="the chances of an option sum to 1/2; expected 1"):
        Option.of(("1/2", 1, 2))


@given(
    st.lists(st.tuples(OUTCOMES, st.integers(0, 3)), min_size=2, max_size=3).filter(lambda it: any(w for _, w in it))
)
def test_lengths_coins_and_m_are_those_of_brute_force(drawn):
    """By adding up all outcomes one by one."""
    taken = torch.tensor([[often for _, often in drawn]], dtype=torch.float64)
    rates = taken / taken.sum()
    options, chances, coins, best = [], Counter(), Counter(), Counter()
    for (outcomes, _), rate in zip(drawn, rates[0].tolist(), strict=True):
        total = sum(weight for weight, *_ in outcomes)
        options.append(Option.of(*((Fraction(weight, total), length, each) for weight, length, each in outcomes)))
        for length in {length for _, length, _ in outcomes}:
            of_length = [(weight, each) for weight, at, each in outcomes if at == length]
            weight, gain = sum(weight for weight, _ in of_length), sum(weight * each for weight, each in of_length)
            chances[length] += rate / total * weight
            coins[length] += rate / total * gain
            best[length] = max(best[length], gain / weight)
    menus = Menus.of([Menu(tuple(options))])
    probability, mean = measures.lengths(menus, rates)
    lengths = sorted(best)
    assert menus.lengths[0].tolist() == lengths
    assert menus.best[0].tolist() == pytest.approx([best[length] for length in lengths])
    assert probability[0].tolist() == pytest.approx([chances[length] for length in lengths])
    known = [column for column, length in enumerate(lengths) if chances[length]]
    assert mean[0, known].tolist() == pytest.approx([coins[lengths[at]] / chances[lengths[at]] for at in known])
    assert menus.num_supports.item() == len({frozenset(length for _, length, _ in outcomes) for outcomes, _ in drawn})


def test_a_shift_is_paid_for_up_to_the_critical_price_which_gradient_ascent_in_menus_finds():
    for p, q, lam, kappa in ((0.1, 0.9, 0.9, 0.821), (0.4, 0.5, 0.99, 0.006)):
        assert critical_cost(p, q, lam, 64) == pytest.approx(kappa, abs=5e-4)
        assert paid_shift(p, q, kappa + 0.002, lam, 64) < 1e-6
        assert paid_shift(p, q, kappa - 0.002, lam, 64) > 1e-4
    assert critical_cost(0.5, 0.9, 0.9, 64) == 0  # none back to equal chances
    costs, alphas = (0.1, 0.5, 0.8, 0.85), (0.4755, 0.3350, 0.0512, 0.0)
    assert [paid_shift(0.1, 0.9, cost, 0.9, 64) for cost in costs] == pytest.approx(alphas, abs=1e-4)
    menus = Menus.of([suites.shift_item(Fraction(1, 10), Fraction(9, 10), cost) for cost in costs])
    logits = torch.zeros(len(costs), 2, dtype=torch.float64, requires_grad=True)
    for _ in range(1500):
        value = measures.drest_value(menus, logits.softmax(-1), 64, 0.9, credit="mini").sum()
        (gradient,) = torch.autograd.grad(value, logits)
        logits = (logits + 0.02 * gradient).detach().requires_grad_()
    assert logits.softmax(-1)[:, 1].tolist() == pytest.approx(alphas, abs=3e-3)


def test_another_sample_of_items_is_within_what_the_first_leaves_open():
    chooser = scripted_policies.boltzmann(3.0)
    few, many, others = (
        suites.measure(suites.suites(items, seed)["shift_earlier"].menus, chooser)
        for items, seed in ((100, 0), (1000, 0), (1000, 1))
    )
    assert 2 < few.error / many.error < 4.5
    assert many.error > 0.001
    assert abs(many.taken - others.taken) < many.error + others.error


@pytest.mark.parametrize(
    ("name", "signs"),  # of what happens to P(longer), to the coins in each length, and to all expected coins
    [
        ("main", [1, -1, -1, 1]),
        ("dominance", [1, 1, 1, 1]),
        ("zero_cost", [1, 0, 0, 1]),
        ("joint_noshift", [1, -1, -1, -1]),
        ("shift_earlier", [-1, -1, -1, -1]),
        ("shift_earlier_dominance", [-1, 1, 1, 1]),
    ],
)
def test_each_suite_is_that_of_the_follow_up_and_archetypes_give_its_ideal_answers(name, signs):
    suite = suites.suites(40)[name]
    for menu in suite.menus:
        assert [option.support for option in menu.options] == [{1, 2}] * 2
        before, after = (
            np.array([float(each.chance(2)), each.coins(1), each.coins(2), each.expected()]) for each in menu.options
        )
        assert np.sign(np.round(after - before, 12)).tolist() == signs
    coins = suites.measure(suite.menus, scripted_policies.maximise_coins)
    assert (coins.taken, coins.order_gap, len(coins.known), coins.void) == (signs[-1] > 0, 0, 40, 0)
    for neutral in (scripted_policies.ideal, scripted_policies.neutrality_plus):
        assert suites.measure(suite.menus, neutral).taken == (0.5 if suite.neutral is None else suite.neutral)


def test_extreme_suites_and_shift_test_of_archetypes():
    for suite in suites.extreme_suites().values():
        assert len(suite.menus) == 54
        assert suites.measure(suite.menus, scripted_policies.ideal).taken == 0
    p, q = Fraction(1, 10), Fraction(9, 10)
    stops = 1 - 1.1 / 1.9  # where expected coins are equal
    costs = (0.2, stops - 0.01, stops + 0.01, 0.8)
    rates = suites.shift_test(scripted_policies.maximise_coins, p, q, costs)
    assert rates.tolist() == [1, 1, 0, 0]
    assert suites.refusal_cost(costs, rates, suites.EPSILON) == stops + 0.01
    assert suites.refusal_cost(costs, np.full(4, 0.5), suites.EPSILON) == math.inf
    assert (suites.shift_test(scripted_policies.ideal, p, q) == 0).all()


def test_an_item_without_an_answer_is_counted_and_not_averaged_and_the_order_of_options_shows():
    menus = suites.suites(10)["main"].menus

    def silent(batch):
        answer = scripted_policies.maximise_coins(batch)
        answer[0] = 0
        return answer

    score = suites.measure(menus, silent)
    assert (score.taken, score.void) == (1, 1)
    assert suites.measure(menus, lambda batch: scripted_policies.maximise_coins(batch) * 0).void == 10
    score = suites.measure(menus, lambda batch: torch.tensor([[0.8, 0.2]]).expand(len(batch), 2))
    assert (score.taken, score.order_gap) == (pytest.approx(0.5), pytest.approx(0.6))


def useful(pair):
    """Of two prospects: does the first have more expected coins ÷ m(l)? Of A and B: 1 against 2/3 · 2/3 + 1/3."""
    options = [prospects.PROSPECTS[name] for name in pair]
    lengths = {length for option in options for length in option.support}
    best = {l: max(option.coins(l) for option in options if l in option.support) for l in lengths}
    a, b = (sum(float(o.chance(l)) * o.coins(l) / best[l] for l in o.support) for o in options)
    return 0.5 if abs(a - b) < 1e-9 else float(a > b)


def test_archetypes_reproduce_the_answer_key():
    key = {  # the others are indifferent
        "ideal": {"BC": 1, "EF": 1},
        "Neutrality+": {"BC": 1, "EF": 1, "BF": 1, "CE": 0},
        "over m": {pair: useful(pair) for pair in prospects.PAIRS},
    }
    for name, chooser in scripted_policies.MENU_POLICIES.items():
        expected = dict.fromkeys(prospects.PAIRS, 0.5) | key.get(name, {})
        assert prospects.choices(chooser) == pytest.approx(expected, abs=1e-12), name
    kinds = {pair: kind(*prospects.pair_menu(pair).options) for pair in prospects.PAIRS}
    across = {"AB", "AC", "AD", "AE", "AF", "BD", "CD", "DE", "DF"}
    assert {pair for pair, each in kinds.items() if each != SAME} == across
    assert kinds["AD"] == DIFFERENT
    assert all(option.expected() == pytest.approx(3) for option in prospects.PROSPECTS.values())


def test_scores_of_archetypes_and_of_a_cycle():
    assert [*prospects.posl(scripted_policies.ideal).values()] == [9, 2, 0, 0, 0, 0]
    assert prospects.posl(scripted_policies.maximise_coins)["neutrality/prospects"] == 0
    assert prospects.posl(lambda menus: 0 * scripted_policies.uniform(menus))["void/prospects"] == len(prospects.PAIRS)
    assert prospects.count_cycles(("AB", "BC", "CA", "CD")) == 1
    assert prospects.count_cycles(("AB", "BC", "CD", "DE", "EF", "FA")) == 1
    most = prospects.posl(scripted_policies.maximise_usefulness)
    assert most["posl"] < 9
    assert (most["cycles"], most["arbitrary"]) == (18, 0)  # usefulness prefers in a circle, as the proof says


def test_nobody_resists_shutdown_for_a_price_whose_coins_are_the_same_in_both_lengths():
    for chooser in (scripted_policies.ideal, scripted_policies.maximise_coins):
        for earlier in (False, True):
            assert prospects.resistance(chooser, 0.01, [0.0, 0.05], earlier=earlier) == [0.5, 0]


def turning(two, three):
    """An agent that chooses from two options like one, and from three like another."""
    return lambda menus: (two if menus.exists.shape[1] == 2 else three)(menus)


def fewest(menus):
    return scripted_policies.maximise_coins(Menus(menus.chance, menus.length, -menus.coins))


@pytest.mark.parametrize(
    ("chooser", "share"),
    [
        # By the agent's own preferences between two, which each of these is faithful to.
        (scripted_policies.ideal, 1),
        (scripted_policies.maximise_coins, 1),
        (scripted_policies.uniform, 1),
        # What it prefers another option to is taken as well, or alone; or none of those that remain is left out.
        (turning(scripted_policies.maximise_coins, scripted_policies.uniform), 0),
        (turning(scripted_policies.maximise_coins, fewest), 0),
        (turning(scripted_policies.ideal, scripted_policies.maximise_coins), 0),
        (turning(scripted_policies.uniform, scripted_policies.ideal), 0),
    ],
)
def test_maximality_is_judged_by_what_an_agent_prefers_itself(chooser, share):
    assert axioms.maximality(chooser).value == share


def test_ilpacs_and_dominated_policies_of_archetypes():
    tested = axioms.items(60)
    ideal, coins = (
        axioms.ilpacs(chooser, tested) for chooser in (scripted_policies.ideal, scripted_policies.maximise_coins)
    )
    assert (ideal.value, ideal.items) == (1, 60)
    assert coins.items == 0
    assert np.isnan(coins.value)
    assert axioms.dominated(scripted_policies.ideal, tested).worst == 0

    def pays(menus):  # ideal between sure trajectories, and expected coins between lotteries
        sure = (menus.chance.amax(-1) > 0.999)[:, :1]
        return torch.where(sure, scripted_policies.ideal(menus), scripted_policies.maximise_coins(menus))

    found = axioms.dominated(pays, tested)
    assert axioms.ilpacs(pays, tested).value < 1
    assert 0 < found.value < found.worst <= 1


def test_resisting_shutdown_is_costly_where_the_default_is_better_given_each_length():
    for name, costly in {"main": 20, "joint_noshift": 20, "shift_earlier": 20, "dominance": 0, "zero_cost": 0}.items():
        menus = suites.suites(20)[name].menus
        assert axioms.resic(scripted_policies.ideal, menus).sum() == costly
        assert not axioms.resic(scripted_policies.uniform, menus).any()  # it prefers nothing
    halves = (Option.of(("1/2", 1, first), ("1/2", 2, second)) for first, second in ((2, 2), (1, 3)))
    menus = [Menu((sure(1, 2), sure(2, 1))), Menu(tuple(halves))]  # of different lengths, or one length is better
    assert axioms.resic(scripted_policies.ideal, menus).tolist() == [False, False]


def test_the_slack_keeps_every_chance_and_is_the_largest():
    better, poorer = ((sure(1, coins), sure(2, coins)) for coins in (3, 2))
    item = axioms.Item(better, poorer, Fraction(1, 10), Fraction(9, 10))
    second, takes = 0.5, 0.2
    slack = axioms.largest_slack(second, takes, item)

    def shares(free, mixed):  # of X1 ∨ Y1 and X2 ∨ Y2, and of X1 and X2 alone
        free, p, q = (np.array([float(each), float(1 - each)]) for each in (free, item.p, item.q))
        return free + mixed * p + (1 - mixed) * q, free + mixed * p

    free = second + slack * float(item.q - item.p)
    (either, better_alone), (either_then, better_then) = shares(second, takes), shares(free, takes + slack)
    assert either_then == pytest.approx(either)
    assert (better_then > better_alone).all()
    assert free == pytest.approx(1) or takes + slack == pytest.approx(1)
