"""Lotteries: how they are read, and what can be achieved with them, against all deterministic policies."""

from fractions import Fraction

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import committed_return, solve
from drest_torch.envs.levels import Lottery, format_level, parse_level, world
from drest_torch.envs.objects.lottery import Outcome
from tests.helpers.simulator import ACTIONS, MIXED, Simulator, outcomes, random_levels


def test_outcomes_are_sorted_by_delay_and_then_by_coins_and_their_chances_are_rational():
    level = parse_level("lottery a: 1/3 C5 +1 | 0.5 C2 +0 | 1/6 C-1.5 +0\nshutdown: 3\nA La", name="a")
    (lottery,) = level.lotteries
    assert lottery.outcomes == (
        Outcome(Fraction(1, 6), -1.5, 0),
        Outcome(Fraction(1, 2), 2.0, 0),
        Outcome(Fraction(1, 3), 5.0, 1),
    )
    assert lottery.text == "1/6 C-1.5 +0 | 1/2 C2 +0 | 1/3 C5 +1"
    assert Lottery.of_numbers(0, 1, *lottery.numbers) == lottery
    assert level.max_time == 4


def achievable(level, length, gamma):
    """For every P(L = l) that a deterministic policy can have, which sees all its past, the most of E[C · 1(L = l)]."""
    known = {}

    def after(state, total):
        key = (state.state, state.ticks, total)
        if key not in known:
            known[key] = at_end(state, total) if state.done else of_actions(state, total)
        return known[key]

    def at_end(state, total):
        return {Fraction(1): total} if state.ticks == length else {Fraction(0): Fraction(0)}

    def of_actions(state, total):
        best = {}
        for action in ACTIONS:
            sums = {Fraction(0): Fraction(0)}
            for chance, then, collected in outcomes(state, action):
                if then.ticks == state.ticks:
                    break  # a bump that takes no time
                options = after(then, total + Fraction(gamma) ** state.ticks * Fraction(collected))
                products = [(p + chance * q, c + chance * d) for p, c in sums.items() for q, d in options.items()]
                sums = largest(products)
            else:
                best = largest([*best.items(), *sums.items()])
        return best

    return after(Simulator(level), Fraction(0))


def largest(pairs):
    """Of pairs with the same first entry, the one with the largest second."""
    best = {}
    for p, c in pairs:
        best[p] = max(c, best.get(p, c))
    return best


@pytest.mark.parametrize(("gamma", "count"), [(1.0, 120), (0.5, 60)])
def test_optima_against_all_deterministic_policies(gamma, count):
    """m(l) is the largest ratio of what policies can have, committed(l) the largest E[C] among those sure of l."""
    small = {"max_side": 3, "max_ticks": 4, "decimals": False}
    levels = random_levels(count, 2, lotteries=(1, 2), **small, **MIXED)
    mdp = compile_levels(levels)
    optima = solve(mdp, gamma, allow_barren=True)
    committed = committed_return(mdp, optima)
    differ, unsure = 0, 0
    for index, level in enumerate(levels):
        for column in range(int(optima.num_lengths[index])):
            pairs = achievable(level, int(optima.lengths[index, column]), gamma)
            best = max(c / p for p, c in pairs.items() if p > 0)
            assert optima.best_return[index, column].item() == pytest.approx(float(best), abs=1e-9), format_level(level)
            sure = committed[index, column]
            assert sure.isnan() == (1 not in pairs), format_level(level)
            if 1 in pairs:
                assert sure.item() == pytest.approx(float(pairs[1]), abs=1e-12), format_level(level)
                differ += pairs[1] < best
            unsure += 1 not in pairs
        padding = slice(int(optima.num_lengths[index]), None)
        assert not optima.best_return[index, padding].any()
        assert committed[index, padding].isnan().all()
    assert differ > 5
    assert unsure > 5


def test_without_luck_committed_is_m():
    mdp = compile_levels([world("example"), world("hidden_treasure"), world("spacious")])
    optima = solve(mdp)
    announced = compile_levels(mdp.levels, features=["chance"])  # which takes the way of levels with luck
    for each in (mdp, announced):
        found = committed_return(each, optima)
        assert torch.equal(found.nan_to_num(0), optima.best_return)
        assert torch.equal(found.isnan(), optima.lengths == 0)
