"""Exact properties against all trajectories, and estimates of sizes against the states of unrolled levels."""

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
    """Return, for each length, the best total and the negative of its last tick, and the distance to the nearest
    button.

    The last tick is the earliest at which a trajectory with the best total has its last coin or working button.
    """
    best, distances = {}, []

    def play(state, total, last):
        if state.done:
            end = (total, -last)
            best[state.ticks] = max(end, best.get(state.ticks, end))
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
def test_properties_agree_with_all_trajectories(levels):
    mdp = compile_levels(levels)
    exact, distance = properties(mdp), button_distance(mdp)
    for index, level in enumerate(levels):
        best, nearest = exhaustive(level)
        totals, k = [total for total, _ in best.values()], len(best)
        assert exact.num_lengths[index] == k
        assert exact.lengths[index, :k].tolist() == list(best)
        assert exact.best_return[index, :k].tolist() == pytest.approx(totals)
        slack = [length + last if total > 0 else length for length, (total, last) in best.items()]
        assert exact.slack[index, :k].tolist() == slack
        assert distance[index] == nearest
        assert exact.with_coin[index] == sum(total > 0 for total in totals)
        if totals[0] > 0:
            assert exact.ratio[index] == pytest.approx(totals[-1] / totals[0])


@pytest.mark.parametrize("entries", [1 << 14, 1], ids=["in parts", "one by one without a table"])
def test_searches_with_small_tables_agree(entries, monkeypatch):
    levels = random_levels(120, 2, chances=True, doors=True, clock=None)
    expected = properties(compile_levels(levels))
    monkeypatch.setattr(module, "MAX_TABLE", entries)
    exact = properties(compile_levels(levels))
    torch.testing.assert_close(vars(exact), vars(expected), rtol=0, atol=0)


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
def test_an_agent_cannot_wait_everywhere(text, lengths):
    assert properties(compile_levels([parse_level(f"shutdown: 2{text}")])).lengths.tolist() == [lengths]


def checked_bounds(levels):
    """Return the estimated and the true numbers of states of each level, then of its largest tick.

    Assert that no estimate is below the truth.
    """
    mdp = compile_levels(levels)
    reachable, estimate = Reachable(mdp), estimate_size(mdp)
    states = torch.bincount(mdp.level_of(reachable.states.spot), minlength=mdp.num_levels)
    ticks = [torch.bincount(mdp.level_of(layer.spot), minlength=mdp.num_levels) for layer in reachable.layers]
    width = torch.stack(ticks).amax(0)
    assert (estimate.states >= states).all()
    assert (estimate.width >= width).all()
    return estimate.states, states, estimate.width, width


@pytest.mark.parametrize(
    ("name", "values", "count"),
    [
        ("followup_like", [], 40),
        ("large", [], 40),
        ("hard", ["coins=[10,10]", "coin_in_every_length=false", "weights=null"], 5),
        ("generated", ["chance=[0.2,0.9]", "buttons=[1,3]", "lengths=[2,8]"], 40),
    ],
)
def test_an_estimate_is_a_tight_upper_bound(name, values, count):
    """For buttons that work by chance, the bound counts all of their outcomes."""
    levels = generate(preset(name, *(f"levels.generator.{value}" for value in values)), count, seed=3)
    lucks = torch.tensor([2 ** sum(button.chance < 1 for button in level.buttons) for level in levels])
    estimated, states, estimated_width, width = checked_bounds(levels)
    assert (estimated <= 1.35 * lucks * states).all()
    assert estimated.sum() <= 1.05 * (lucks * states).sum()
    assert (estimated_width <= 1.6 * lucks * width).all()


@given(levels(lotteries=(0, 1, 2), **MIXED))
def test_an_estimate_is_an_upper_bound_with_luck_or_doors(levels):
    checked_bounds(levels)


def test_objects_of_a_corridor_are_taken_in_order():
    corridor = parse_level("shutdown: 4\nA C1 C2 C3", name="corridor")
    # Nothing taken: at the start in ticks 0 to 3. C1: 2 cells from tick 1. C1, C2: 3 cells from tick 2, and so on.
    assert estimate_size(compile_levels([corridor])).states.tolist() == [4 + (3 + 2) + (2 + 1) + 1]


@pytest.mark.slow
def test_a_level_with_many_objects_is_refused_early():
    rows = [["C1" if (row + column) % 4 == 0 else "." for column in range(9)] for row in range(9)]
    rows[4][5] = "A"
    text = "shutdown: 60\n" + "\n".join(map(" ".join, rows))
    mdp = compile_levels([world("example"), parse_level(text, name="crowded", source="crowded.txt")])
    assert (estimate_size(mdp).states > MAX_STATES).tolist() == [False, True]
    with pytest.raises(LevelError, match=r"crowded\.txt \(crowded\) has more than 200,000,000 reachable states"):
        solve(mdp)


def test_parts_are_consecutive_ranges_within_their_limits():
    mdp = compile_levels([world("example")] * 7)
    numbers = torch.tensor([5, 5, 1, 30, 2, 2, 2])
    assert [list(part) for part in parts(mdp, numbers, 10)] == [[0, 1], [2], [3], [4, 5, 6]]
    assert [len(part) for part in parts(mdp, numbers, 1000, 3)] == [3, 3, 1]
