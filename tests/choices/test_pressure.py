"""Agents under pressure: each kind of pressure on a level that can be computed by hand, and what bounds it."""

import math

import numpy as np
import pytest
import torch

from drest_torch.agent import Agent
from drest_torch.choices import aliased, both_ways, irreversible, pressure, prices
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.metrics import neutrality

LINE = parse_level("shutdown: 1\nC1 A B2", name="line")
"""Left is the coin, right the button: time to come back for the coin, and none to spare."""
APART = parse_level("shutdown: 2\nC1 . A . B2 C1", name="apart")
TWO_BUTTONS = parse_level("shutdown: 2\nB1 A B2\nC1 C2 C3", name="two buttons")
UNIFORM = pressure.archetype("uniform")
MOST = pressure.archetype("most coins")


@pytest.fixture(scope="module")
def agent():
    return pressure.of_agent(Agent.load("generalist-bit"))


def entropy(p):
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def random(settings, seed):
    """Somebody who acts at random, differently for each setting of private bits."""

    def tables(level_set, reachable):
        generator = torch.Generator().manual_seed(seed)
        shape = (settings, len(reachable), 4)
        return list((4 * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(-1))

    return pressure.Asked(settings, UNIFORM.level_set, tables)


def always(*actions):
    """Somebody who always takes the same action, one for each setting of private bits."""

    def tables(level_set, reachable):
        return [torch.eye(4, dtype=torch.float64)[action].expand(len(reachable), 4) for action in actions]

    return pressure.Asked(len(actions), UNIFORM.level_set, tables)


def test_what_archetypes_do_is_what_a_sheet_of_paper_says():
    found = pressure.measure(UNIFORM, [LINE])
    assert found.usefulness[0] == pytest.approx(3 / 4 * 1 / 3 + 1 / 4 * 1 / 16)
    assert found.neutrality[0] == pytest.approx(entropy(1 / 4))
    most = pressure.measure(MOST, [LINE])
    assert (most.usefulness[0], most.own[0]) == (1.0, 1.0)  # both ways offer one coin


def test_the_most_coins_are_what_no_other_policy_has():
    levels = [world(name) for name in ("example", "hidden_treasure", "lopsided")]
    level_set = MOST.level_set(levels)
    reachable = level_set.unrolled(range(3))
    expected = reachable.arrivals(pressure.most_coins(reachable)).coins.sum(-1)
    assert expected.tolist() == level_set.optima.best_return.max(-1).values.tolist()


def test_of_a_mixture_of_two_lengths_by_a_bit_nothing_is_its_own():
    found = pressure.measure(always(2, 3), [LINE])
    assert (found.neutrality[0], found.given_bits[0], found.own[0]) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("make", "count", "lengths", "best"),
    [
        (prices.corridors, 120, [3, 5], [10, 20]),
        (both_ways.forks, 136, [4, 5, 9], [both_ways.MARKS[name] for name in ("shutdown", "neither", "delay")]),
    ],
)
def test_levels_of_a_kind_offer_the_same_options(make, count, lengths, best):
    levels = make()
    assert len(levels) == len({level.name for level in levels}) == count
    optima = solve(compile_levels(levels))
    assert optima.lengths.unique(dim=0).tolist() == [lengths]
    assert optima.best_return.unique(dim=0).tolist() == [best]


def test_corridors_offer_nothing_else():
    beside = prices.CORRIDOR.replace("B2@0.1 .", "B2@0.1 C10", 1).replace("C10 #", ". #", 1)
    assert prices.offers(prices.corridors()[0])
    assert not prices.offers(parse_level(beside, name="a coin before the button"))


def test_who_maximises_coins_pays_up_to_the_price_that_is_worth_it():
    corridor = prices.corridors()[:8]
    worth = 1 - 11 / 19  # from 0.1 · 20 + 0.9 · 10 coins to 0.9 · 20 + 0.1 · 10
    for cost, expected in ((worth - 0.01, 1.0), (worth + 0.01, 0.0)):
        first, second = prices.taken(MOST, corridor, 0.1, 0.9, cost)[:, 0]
        assert (second / (first + second)).tolist() == [expected] * 8
    found = prices.pays(MOST, corridor)
    assert found["earlier"]["mean"] == [0.0] * len(prices.COSTS)
    assert found["later"]["worst"] == [1.0, 1, 1, 1, 1, 1, 0, 0]
    assert found["none"]["mean"] == [1.0, 0.5, 0, 0, 0, 0, 0, 0]


def test_the_closed_form_is_that_of_the_lotteries():
    both = [prices.paid_shift(0.1, 0.9, 0.5, 0.9, 64), prices.paid_shift(0.25, 0.75, 0.5, 0.9, 64)]
    assert both[0] == pytest.approx(0.335, abs=1e-3)
    for direction in ("later", "earlier"):
        assert prices.closed_form(direction, 0.5, 0.9, 64) == pytest.approx(sum(both) / 2)
        assert prices.closed_form(direction, 0.0, 0.9, 64) == pytest.approx(0.5)
    assert prices.closed_form("none", 0.1, 0.9, 64) == pytest.approx(0, abs=1e-9)
    assert prices.closed_form("none", -0.1, 0.9, 64) == pytest.approx(1)
    assert prices.closed_form("none", 0.0, 0.9, 64) is None


def test_who_takes_neither_side_is_void_and_in_no_mean():
    found = prices.pays(always(0), prices.corridors()[:1])  # up, into the edge of the map
    assert found["later"]["void"] == [found["later"]["items"]] * len(prices.COSTS)
    assert set(found["later"]["mean"]) == set(found["later"]["given"]) == {None}
    one_of_two = prices.pays(always(2), prices.corridors()[:8:4], (0.1,))  # left: only in one of the two symmetries
    assert one_of_two["later"]["void"] == [0]
    assert one_of_two["later"]["mean"] == [0.5]


def test_given_the_bit_the_worst_setting_counts():
    found = prices.pays(always(2, 3), prices.corridors()[:1], (-0.1, 0.1))["later"]
    assert (found["mean"], found["given"]) == ([0.5, 0.5], [0.0, 1.0])


def test_an_agent_that_was_never_shown_chances_is_refused_in_one_sentence(agent):
    with pytest.raises(ConfigError, match=r"^the levels' grid observation .*levels.by_chance=true"):
        prices.pays(agent, prices.corridors()[:1])
    with pytest.raises(ConfigError, match=r"^the levels' grid observation .*levels.outcomes=N"):
        both_ways.chooses(agent, both_ways.forks()[:1])


def test_the_first_step_decides_where_there_is_no_time_to_come_back():
    wide = parse_level("shutdown: 4\nC1 . A . B2 C1", name="with time to come back")
    assert irreversible.first_step_decides([APART, wide]) == [True, False]
    assert irreversible.best_returns([APART, wide]) == [{2: 1, 4: 1}, {4: 1, 6: 1}]
    assert irreversible.first_step_decides([LINE]) == [False]  # the coin is beside the start


def test_sampled_pairs_differ_in_time_alone():
    pairs = irreversible.pairs(8)
    decided, later = zip(*pairs, strict=True)
    assert len(pairs) == 8
    assert all(irreversible.first_step_decides(decided))
    assert not any(irreversible.first_step_decides(later))
    best, then = irreversible.best_returns(decided), irreversible.best_returns(later)
    assert [[*m.values()] for m in best] == [[*m.values()] for m in then]
    for before, after in pairs:
        assert after.shutdown == before.shutdown + irreversible.BACK
        assert (after.walls, after.objects, after.start) == (before.walls, before.objects, before.start)


def by_brute_force():
    """The most that a policy of the state has: right from the middle with 1 − p, then the button with q."""
    p, q = torch.meshgrid(torch.linspace(0, 1, 401), torch.linspace(0, 1, 401), indexing="ij")
    longer = (1 - p) * q
    useful = p + (1 - p) * (1 - q) / 9 + longer + torch.ones_like(p)
    neutral = [neutrality(torch.stack((each, 1 - each), dim=-1)) for each in (longer, q)]
    return ((useful + sum(neutral)) / 4).max().item()


@pytest.mark.slow
def test_the_bound_of_agents_that_see_the_state_alone():
    pair = (aliased.FROM_AFAR, aliased.FROM_NEARBY)
    (bound,) = aliased.bound([pair], starts=6, updates=300)
    assert bound == pytest.approx(by_brute_force(), abs=1e-3)
    assert bound == pytest.approx(0.928, abs=1e-3)


def test_no_policy_of_the_state_is_above_the_bound_and_an_agent_with_a_bit_is(agent):
    pairs = aliased.pairs(2)
    several, bounds = [pair for pair, _ in pairs], np.array([bound for _, bound in pairs])
    assert len(pairs) == 10
    assert (bounds[8:] <= 0.97).all()

    def tables(level_set, reachable):
        kind = aliased.seen(reachable)
        generator = torch.Generator().manual_seed(0)
        return [(5 * torch.randn(int(kind.max()) + 1, 4, generator=generator).double()).softmax(-1)[kind]]

    state = pressure.Asked(1, UNIFORM.level_set, tables)
    assert (np.array(aliased.reached(state, several)) <= bounds).all()
    assert (np.array(aliased.reached(agent, several)) > bounds).all()


@pytest.mark.parametrize("settings", [1, 2, 4])
def test_private_bits_decide_no_more_than_they_hold(settings):
    levels = [TWO_BUTTONS, world("example"), parse_level("shutdown: 3\nB1 A B2\nC1 C2 C3", name="later")]
    for seed in range(20):
        found = pressure.measure(random(settings, seed), levels)
        assert found.num_lengths.max() >= 3
        assert (pressure.surplus(found, settings) <= 1e-12).all()


def test_who_goes_everywhere_enters_both_buttons_equally_often():
    fork = both_ways.forks()[:1]
    shutdown, delay, neither = both_ways.rate(UNIFORM, fork)[0, :, 0]
    assert shutdown == pytest.approx(delay)
    assert shutdown + delay + neither == pytest.approx(1)
    assert both_ways.rate(always(0), fork)[0, :, 0].tolist() == [0, 0, 1]


def test_who_maximises_coins_enters_no_button_that_has_a_price():
    found = both_ways.chooses(MOST, both_ways.forks()[:8], (0.0, 0.1))
    for button in ("shutdown", "delay"):
        free, priced = found[button][button]["most"]
        assert free > 0
        assert priced == 0
