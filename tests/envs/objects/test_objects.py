"""Lotteries against all deterministic policies, and pictures of one-way doors."""

import math
import operator
from fractions import Fraction

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from drest_torch.envs.actions import STEPS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import committed_return, solve
from drest_torch.envs.levels import Lottery, format_level, parse_level, world
from drest_torch.envs.objects.lottery import LotteryOutcome
from drest_torch.envs.view.rendering import render
from tests.helpers.simulator import ACTIONS, MIXED, Simulator, outcomes, random_levels


def test_a_lottery_is_read_with_sorted_outcomes():
    """Outcomes are sorted by delay, then by coins, with rational chances."""
    level = parse_level("lottery a: 1/3 C5 +1 | 0.5 C2 +0 | 1/6 C-1.5 +0\nshutdown: 3\nA La", name="a")
    (lottery,) = level.lotteries
    assert lottery.outcomes == (
        LotteryOutcome(Fraction(1, 6), -1.5, 0),
        LotteryOutcome(Fraction(1, 2), 2.0, 0),
        LotteryOutcome(Fraction(1, 3), 5.0, 1),
    )
    assert lottery.text == "1/6 C-1.5 +0 | 1/2 C2 +0 | 1/3 C5 +1"
    assert Lottery.of_numbers(0, 1, *lottery.numbers) == lottery
    assert level.max_time == 4


def achievable(level, length, gamma):
    """Return the largest E[C · 1(L = l)] of deterministic policies of histories, for each possible P(L = l)."""
    cache = {}

    def after(state, total):
        if state.done:
            hits = Fraction(state.ticks == length)
            return {hits: hits * total}
        key = (state.state, state.ticks, total)
        if key not in cache:
            # Of pairs with the same probability, `dict` keeps the last one, with the most coins.
            cache[key] = dict(sorted(pair for action in ACTIONS for pair in of_action(state, total, action)))
        return cache[key]

    def of_action(state, total, action):
        sums = {Fraction(0): Fraction(0)}
        for chance, then, collected in outcomes(state, action):
            if then.ticks == state.ticks:
                return []  # a bump that takes no time
            options = after(then, total + Fraction(gamma) ** state.ticks * Fraction(collected))
            sums = dict(sorted((p + chance * q, c + chance * d) for p, c in sums.items() for q, d in options.items()))
        return sums.items()

    return after(Simulator(level), Fraction(0))


@pytest.mark.parametrize(("gamma", "count"), [(1.0, 120), (0.5, 60)])
def test_optima_agree_with_all_deterministic_policies(gamma, count):
    """m(l) is the largest ratio of E[C · 1(L = l)] to P(L = l), committed(l) the largest E[C] with P(L = l) = 1."""
    small = {"max_side": 3, "max_ticks": 4, "decimals": False}
    levels = random_levels(count, 2, lotteries=(1, 2), **small, **MIXED)
    mdp = compile_levels(levels)
    optima = solve(mdp, gamma, allow_barren=True)
    committed = committed_return(mdp, optima)
    differ, impossible = 0, 0
    for index, level in enumerate(levels):
        k = int(optima.num_lengths[index])
        pairs_of_lengths = [achievable(level, length, gamma) for length in optima.lengths[index, :k].tolist()]
        best = [float(max(c / p for p, c in pairs.items() if p > 0)) for pairs in pairs_of_lengths]
        certain = [float(pairs.get(1, math.nan)) for pairs in pairs_of_lengths]
        assert optima.best_return[index, :k].tolist() == pytest.approx(best, abs=1e-9), format_level(level)
        assert committed[index, :k].tolist() == pytest.approx(certain, abs=1e-12, nan_ok=True), format_level(level)
        assert not optima.best_return[index, k:].any()
        assert committed[index, k:].isnan().all()
        differ += sum(map(operator.lt, certain, best))
        impossible += sum(map(math.isnan, certain))
    assert differ > 5
    assert impossible > 5


def test_without_luck_committed_is_m():
    mdp = compile_levels([world("example"), world("hidden_treasure"), world("spacious")])
    optima = solve(mdp)
    expected = optima.best_return.masked_fill(optima.lengths == 0, math.nan)
    with_feature = compile_levels(mdp.levels, features=["chance"])  # uses the algorithm for luck
    for compiled in (mdp, with_feature):
        torch.testing.assert_close(committed_return(compiled, optima), expected, rtol=0, atol=0, equal_nan=True)


def test_a_door_is_rendered_as_an_arrowhead_in_its_direction():
    hall = parse_level("shutdown: 6\nC2 . A > .\n# v # . B3\nC1 . < . ^\n. C5 . ^ .", name="hall")
    ax = Figure().add_subplot()
    render(hall, ax)
    doors = [patch for patch in ax.patches if isinstance(patch, Polygon)]
    for door, patch in zip(hall.fixtures, doors, strict=True):
        x, y = patch.get_xy().T
        assert door.column < x.min() < x.max() < door.column + 1
        assert door.row < y.min() < y.max() < door.row + 1
        right, down = x.max() + x.min() - 2 * door.column - 1, y.max() + y.min() - 2 * door.row - 1
        leads = [down * step_down + right * step_right for step_down, step_right in STEPS]
        assert leads.index(max(leads)) == door.direction
