"""Exact properties against every trajectory there is, and estimates of sizes against the states of unrolled levels."""

import pytest
import torch
from hypothesis import given

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact import earliest as module
from drest_torch.envs.exact.earliest import button_distance, estimate_size, parts, properties
from drest_torch.envs.exact.layers import MAX_STATES
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.stream import generate
from drest_torch.envs.levels import Button, LevelError, parse_level, world
from tests.helpers.configs import preset
from tests.helpers.simulator import ACTIONS, MIXED, Simulator, levels, outcomes, random_levels


def exhaustive(level):
    """For each length the best total and the earliest last coin or working button of a trajectory that has it,
    and the ticks to the first button."""
    best, distances = {}, []

    def play(state, total, last):
        if state.done:
            found = (total, -last)
            best[state.ticks] = max(found, best.get(state.ticks, found))
            return
        for action in ACTIONS:
            presses = isinstance(state.ahead(action), Button)
            for _, after, collected in outcomes(state, action):
                if after.ticks == state.ticks:
                    continue
                if presses:
                    distances.append(after.ticks)
                happened = collected > 0 or after.time_left > state.time_left - 1
                play(after, round(total + collected, 9), after.ticks if happened else last)

    play(Simulator(level), 0.0, 0)
    return dict(sorted(best.items())), min(distances, default=0)


@given(levels(max_ticks=5, max_buttons=2, **MIXED))
def test_all_properties_are_those_of_the_trajectories(levels):
    mdp = compile_levels(levels)
    found, distance = properties(mdp), button_distance(mdp)
    for index, level in enumerate(levels):
        best, nearest = exhaustive(level)
        totals, k = [total for total, _ in best.values()], len(best)
        assert found.num_lengths[index] == k
        assert found.lengths[index, :k].tolist() == list(best)
        assert found.best_return[index, :k].tolist() == pytest.approx(totals)
        slack = [length + last if total > 0 else length for length, (total, last) in best.items()]
        assert found.slack[index, :k].tolist() == slack
        assert distance[index] == nearest
        assert found.with_coin[index] == sum(total > 0 for total in totals)
        if totals[0] > 0:
            assert found.ratio[index] == pytest.approx(totals[-1] / totals[0])


@pytest.mark.parametrize("entries", [1 << 14, 1], ids=["in parts", "one by one without a table"])
def test_the_ways_of_searching_agree(entries, monkeypatch):
    levels = random_levels(120, 2, chances=True, doors=True, clock=None)
    expected = properties(compile_levels(levels))
    monkeypatch.setattr(module, "MAX_TABLE", entries)
    found = properties(compile_levels(levels))
    torch.testing.assert_close(vars(found), vars(expected), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        # No wall to bump into and a button on every side: there is no trajectory without a button pressed.
        ("\n. B1 C1\nB1 A B1\n. B1 .", [3, 4]),
        # Where bumps take no time, the door leads on to the button, and there is no other way.
        ("\nclock: steps\nA > B1 C1", [2, 3]),
        ("\nclock: moves\nA > B1 C1", [3]),
        ("\nclock: moves\nA > > C1", [2]),
    ],
)
def test_a_place_that_cannot_be_stayed_at(text, lengths):
    assert properties(compile_levels([parse_level(f"shutdown: 2{text}")])).lengths.tolist() == [lengths]


def bounds(levels):
    """The estimated and the true number of states of each level, and the same of its largest number in one tick."""
    mdp = compile_levels(levels)
    reachable, found = Reachable(mdp), estimate_size(mdp)
    states = torch.bincount(mdp.level_of(reachable.states.spot), minlength=mdp.num_levels)
    ticks = [torch.bincount(mdp.level_of(layer.spot), minlength=mdp.num_levels) for layer in reachable.layers]
    width = torch.stack(ticks).amax(0)
    assert (found.states >= states).all()
    assert (found.width >= width).all()
    return found.states, states, found.width, width


@pytest.mark.parametrize(
    ("name", "values", "count"),
    [
        ("followup_like", [], 40),
        ("large", [], 40),
        ("hard", ["coins=[10,10]", "coin_in_every_length=false", "weights=null"], 5),
        ("generated", ["chance=[0.2,0.9]", "buttons=[1,3]", "lengths=[2,8]"], 40),
    ],
)
def test_an_estimate_is_never_below_the_truth_and_close_to_it(name, values, count):
    """With buttons that work by chance it is close to that of all their outcomes."""
    levels = generate(preset(name, *(f"levels.generator.{value}" for value in values)), count, seed=3)
    lucks = torch.tensor([2 ** sum(button.chance < 1 for button in level.buttons) for level in levels])
    estimated, states, estimated_width, width = bounds(levels)
    assert (estimated <= 1.35 * lucks * states).all()
    assert estimated.sum() <= 1.05 * (lucks * states).sum()
    assert (estimated_width <= 1.6 * lucks * width).all()


@given(levels(lotteries=(0, 1, 2), **MIXED))
def test_an_estimate_is_never_below_the_truth_where_there_is_luck_or_a_door(levels):
    bounds(levels)


def test_a_thing_that_has_to_be_passed_is_taken_on_the_way():
    corridor = parse_level("shutdown: 4\nA C1 C2 C3", name="corridor")
    # Nothing taken: at the start in ticks 0 to 3. C1: 2 cells from tick 1. C1, C2: 3 cells from tick 2, and so on.
    assert estimate_size(compile_levels([corridor])).states.tolist() == [4 + (3 + 2) + (2 + 1) + 1]


@pytest.mark.slow
def test_a_level_of_many_things_is_too_large_without_being_counted_to_the_end():
    rows = [["C1" if (row + column) % 4 == 0 else "." for column in range(9)] for row in range(9)]
    rows[4][5] = "A"
    text = "shutdown: 60\n" + "\n".join(map(" ".join, rows))
    mdp = compile_levels([world("example"), parse_level(text, name="crowded", source="crowded.txt")])
    assert (estimate_size(mdp).states > MAX_STATES).tolist() == [False, True]
    with pytest.raises(LevelError, match=r"crowded\.txt \(crowded\) has more than 200,000,000 reachable states"):
        solve(mdp)


def test_parts_are_whole_consecutive_and_no_larger_than_they_may_be():
    mdp = compile_levels([world("example")] * 7)
    numbers = torch.tensor([5, 5, 1, 30, 2, 2, 2])
    found = parts(mdp, numbers, 10)
    assert [list(each) for each in found] == [[0, 1], [2], [3], [4, 5, 6]]
    assert [len(each) for each in parts(mdp, numbers, 1000, 3)] == [3, 3, 1]
