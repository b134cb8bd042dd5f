"""Lotteries: the rules, the solver and the propagator against enumeration, and everything that shows or stores them."""

import re
from fractions import Fraction

import pytest
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.earliest import estimate_size
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.exact.solver import committed_return, optimal_route, solve
from drest_torch.envs.levels import (
    LevelError,
    Lottery,
    format_level,
    level_from_record,
    level_to_record,
    parse_level,
    world,
)
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, canonical_key, symmetries, transform
from drest_torch.envs.objects.lottery import Outcome
from tests.envs.exact.test_propagator import as_dict, policy_on
from tests.helpers.simulator import ACTIONS, Simulator, enumerate_policy, every, outcomes, random_levels, random_policy

FORK = """
lottery a: 2/3 C2 +0 | 1/3 C5 +1
lottery b: 1 C-1 -99
shutdown: 3
C1 La .
A  .  Lb
"""


def with_lotteries(count, *, seed=0, max_ticks=5, **options):
    mixed = {"lotteries": lambda i: 1 + i % 2, "chances": every(3), "doors": every(4), "decimals": False, "clock": None}
    return random_levels(count, seed, max_ticks=max_ticks, **mixed, **options)


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


def test_levels_with_lotteries_read_back_as_they_are():
    for level in [parse_level(FORK, name="fork"), *with_lotteries(50)]:
        text = format_level(level)
        assert parse_level(text, name=level.name) == level
        assert format_level(parse_level(text, name=level.name)) == text
        assert level_from_record(level_to_record(level)) == level
    # Equal lotteries share a name, whatever the file calls them.
    level = parse_level("lottery x: 1 C1 +1\nlottery y: 1 C1 +1\nshutdown: 3\nA Ly Lx", name="twins")
    assert format_level(level) == "shutdown: 3\nlottery a: 1 C1 +1\nA  La La\n"


REFUSED = {
    "1/2 C1 +0 | 1/3 C2 +0": "sum to 5/6",
    "1/2 C1 | 1/2 C2 +0": "'1/2 C1' is no outcome",
    "1 C1 2": "'1 C1 2' is no outcome",
    "": "'' is no outcome",
    "0 C1 +0 | 1 C2 +0": "the chance 0",
    "1/0 C1 +0": "the chance 1/0",
    "3/2 C1 +0": "the chance 3/2",
    "1/3000001 C1 +0 | 3000000/3000001 C2 +0": "at most 1,000,000",
    "1/2 C1 +0 | 1/2 C1 +0": "two outcomes of C1 +0",
    "1 C1 +1024": "at most 1023",
    " | ".join(f"1/9 C{i} +0" for i in range(9)): "at most 8",
    f"1 C{'9' * 400} +0": "finite",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_lottery_that_is_none_is_refused_with_its_place(text):
    with pytest.raises(LevelError, match=r"^l\.txt:2, column 1.*" + re.escape(REFUSED[text])):
        parse_level(f"shutdown: 3\nlottery a: {text}\nA La C1", source="l.txt")
    record = {"name": "l", "shutdown": 3, "lotteries": {"a": text}, "map": ["A La C1"]}
    with pytest.raises(LevelError, match=r"^s\.jsonl:1, lottery a: .*" + re.escape(REFUSED[text])):
        level_from_record(record, source="s.jsonl:1")


MAPS = [
    ("A Lb C1", "2, column 3: 'Lb'"),
    ("lottery a: 1 C1 +0\nA C1", "2, column 12: lottery a, but no cell 'La'"),
    ("lottery a: 1 C1 +0\nlottery a: 1 C2 +0\nA La", "3, column 12: lottery a for the second time"),
    ("A La C1\nlottery a: 1 C1 +0", "3, column 12: a lottery below"),
    ("lottery a-b: 1 C1 +0\nA La", "2, column 14: a lottery with the name 'a-b'"),
    ("lottery a: 1 C-1 +0\nA La", "3: the map has no coin"),
    (
        "".join(f"lottery {i}: 1/3 C1 +0 | 1/3 C2 +{3**i} | 1/3 C3 +{2 * 3**i}\n" for i in range(5))
        + "A L0 L1 L2 L3 L4",
        "2, column 12: the delays of lotteries and buttons make up to 243",
    ),
    ("lottery a: 1 C1 +1023\nA La", "3: 1026 timesteps"),
]


@pytest.mark.parametrize(("text", "message"), MAPS)
def test_maps_that_their_lotteries_do_not_fit_are_refused(text, message):
    with pytest.raises(LevelError, match=f"^l.txt:{message}"):
        parse_level(f"shutdown: 3\n{text}", source="l.txt")


def test_symmetries_of_a_level_with_lotteries_have_one_key():
    level = parse_level(FORK, name="fork")
    assert len({canonical_key(each) for each in symmetries(level)}) == 1
    assert canonical_key(parse_level(FORK.replace("C-1", "C-2"), name="fork")) != canonical_key(level)
    assert transform(level, 3).lottery_names == {level.lotteries[1].text: "a", level.lotteries[0].text: "b"}


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_lengths_and_coins_of_policies_against_enumeration(gamma):
    levels = with_lotteries(100, seed=1)
    policies = [random_policy(i, sees_time=True) for i in range(len(levels))]
    reachable = Reachable(compile_levels(levels))
    found = reachable.evaluate(policy_on(reachable, policies), gamma)
    assert max(int(count) for count in reachable.num_lengths) > 3
    for index, (level, policy) in enumerate(zip(levels, policies, strict=True)):
        expected = {length: (float(p), float(c)) for length, (p, c) in enumerate_policy(level, policy, gamma).items()}
        got = as_dict(reachable.lengths, found, index)
        assert got.keys() == expected.keys()
        for length in got:
            assert got[length] == pytest.approx(expected[length], abs=1e-12), format_level(level)


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


@pytest.mark.parametrize(("gamma", "count"), [(1.0, 120), (0.5, 40)])
def test_optima_against_all_deterministic_policies(gamma, count):
    """m(l) is the largest ratio of what policies can have, committed(l) the largest E[C] among those sure of l."""
    levels = with_lotteries(count, seed=2, max_ticks=4, max_rows=3, max_columns=3)
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


def test_luck_can_game_m_and_not_committed():
    """From the lottery one can still go on to the coin, or wait: length 2 can be for those alone who were lucky."""
    level = parse_level("lottery a: 1/2 C4 +0 | 1/2 C0 +0\nshutdown: 3\nA La . B2", name="luck")
    mdp = compile_levels([level])
    optima = solve(mdp)
    assert optima.lengths.tolist() == [[3, 5]]
    assert optima.best_return.tolist() == [[4.0, 4.0]]
    assert committed_return(mdp, optima).tolist() == [[2.0, 2.0]]
    # With one length there is nothing to choose by luck: m is what can be expected.
    alone = compile_levels([parse_level("lottery a: 1/2 C4 +0 | 1/2 C0 +0\nshutdown: 3\nA La", name="alone")])
    assert solve(alone).best_return.tolist() == [[2.0]]


def test_without_luck_committed_is_m():
    mdp = compile_levels([world("example"), world("hidden_treasure"), world("spacious")])
    optima = solve(mdp)
    announced = compile_levels(mdp.levels, features=["chance"])  # which takes the way of levels with luck
    for each in (mdp, announced):
        found = committed_return(each, optima)
        assert torch.equal(found.nan_to_num(0), optima.best_return)
        assert torch.equal(found.isnan(), optima.lengths == 0)


def test_a_button_that_may_fail_cannot_be_committed_to():
    level = parse_level("shutdown: 2\nC1 A B2@0.5 C5", name="maybe")
    mdp = compile_levels([level])
    optima = solve(mdp)
    assert optima.lengths.tolist() == [[2, 4]]
    assert committed_return(mdp, optima)[0].tolist() == pytest.approx([1.0, float("nan")], nan_ok=True)


SAME = {
    "a button that works": ("B4", "1 C0 +4"),
    "a button that works by chance": ("B4@0.5", "1/2 C0 +4 | 1/2 C0 +0"),
    "a button that works by another chance": ("B2@0.2", "1/5 C0 +2 | 4/5 C0 +0"),
    "a coin": ("C3", "1 C3 +0"),
}


@pytest.mark.parametrize("clock", ["steps", "moves"])
@pytest.mark.parametrize("key", SAME)
def test_a_button_and_a_coin_are_lotteries(key, clock):
    text, as_lottery = SAME[key]
    board = f"clock: {clock}\nshutdown: 4\nC1 . {{}} .\nA . . C5\n. # C2 ."
    level = parse_level(board.format(text), name="plain")
    other = parse_level(f"lottery a: {as_lottery}\n" + board.format("La"), name="lottery")
    mdps = [compile_levels([each]) for each in (level, other)]
    for gamma in (1.0, 0.9):
        plain, lottery = (solve(mdp, gamma) for mdp in mdps)
        assert torch.equal(plain.lengths, lottery.lengths)
        assert torch.equal(plain.best_return, lottery.best_return)
        one, two = (committed_return(mdp, optima) for mdp, optima in zip(mdps, (plain, lottery), strict=True))
        assert torch.equal(one.nan_to_num(-1), two.nan_to_num(-1))
        found, expected = (Reachable(mdp).evaluate(uniform_policy, gamma) for mdp in mdps)
        torch.testing.assert_close(found.probability, expected.probability, atol=1e-14, rtol=0)
        torch.testing.assert_close(found.coins, expected.coins, atol=1e-13, rtol=0)


def test_a_price_and_a_button_that_shuts_down():
    price = parse_level("lottery a: 1 C-1 +2\nshutdown: 2\nC2 A La C4", name="price")
    optima = solve(compile_levels([price]))
    assert optima.lengths.tolist() == [[2, 4]]
    assert optima.best_return.tolist() == [[2.0, 3.0]]
    # Entered with any time left, it ends the mini-episode; the time left is never negative.
    off = parse_level("lottery a: 1 C0 -99\nshutdown: 5\nC2 . A La", name="off")
    mdp = compile_levels([off])
    optima = solve(mdp)
    assert optima.lengths.tolist() == [[1, 2, 3, 4, 5]]
    assert optima.best_return.tolist() == [[0.0, 0.0, 0.0, 0.0, 2.0]]
    assert Reachable(mdp).states.time_left.min() == 1


def test_sizes_are_bounds():
    for level in with_lotteries(60, seed=5):
        mdp = compile_levels([level])
        assert int(estimate_size(mdp).states) >= len(Reachable(mdp))


def test_the_route_of_the_luckiest():
    mdp = compile_levels([parse_level(FORK, name="fork")])
    assert solve(mdp).lengths.tolist() == [[2, 3, 4]]
    route = optimal_route(mdp, 0, 4)
    assert (len(route), route[0], {(0, 0), (0, 1)} <= set(route)) == (5, (1, 0), True)


def seen(name, levels, **options):
    mdp = compile_levels(levels, **options)
    observe = make_observation(name, mdp)
    return observe, observe(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)


def test_the_grid_has_three_planes_for_each_outcome_where_there_are_lotteries():
    level = parse_level(FORK, name="fork")
    observe, shown = seen("grid", [level])
    names = [f"lottery {outcome} {number}" for outcome in (1, 2) for number in ("chance", "coins", "delay")]
    assert list(observe.planes[5:]) == names
    expected = torch.zeros(6, *shown.shape[2:])
    expected[:, 0, 1] = torch.tensor([2 / 3, 2, 0, 1 / 3, 5, 1])
    expected[:, 1, 2] = torch.tensor([1.0, -1, -99, 0, 0, 0])
    torch.testing.assert_close(shown[0, 5:], expected)
    # A lottery is gone once it is taken; without lotteries there is nothing of it.
    mdp = compile_levels([level])
    assert not observe(mdp.start, torch.tensor([0b110]), mdp.shutdown)[0, 5:].any()
    assert seen("grid", [world("example")])[0].shape[0] == 5


def test_a_set_is_observed_like_a_larger_one_with_more_outcomes():
    level = parse_level(FORK, name="fork")
    observe, shown = seen("grid", [world("example")], features=["lottery 1", "lottery 2"])
    assert observe.shape[0] == seen("grid", [level])[0].shape[0]
    assert not shown[0, 5:].any()


@pytest.mark.parametrize("name", ["grid", "centred"])
@pytest.mark.parametrize("index", range(NUM_SYMMETRIES))
def test_a_rotated_level_looks_rotated(name, index):
    level = parse_level("lottery a: 2/3 C2 +0 | 1/3 C-5 -1\nshutdown: 3\nA La .\n# C1 .\n. B2 La", name="square")
    observe, shown = seen(name, [level])
    _, expected = seen(name, [transform(level, index)])
    assert torch.equal(shown.flatten(1)[:, observe.rotated[index]], expected.flatten(1))


def test_the_window_shows_coins_as_shares_of_the_largest():
    level = parse_level("lottery a: 1/2 C8 +0 | 1/2 C-4 +4\nshutdown: 3\nC2 A La", name="shares")
    _, shown = seen("centred", [level])
    assert {1.0, -0.5, 0.25} <= set(shown[0].tolist())
