"""Exact properties against every trajectory there is."""

import pytest
import torch
from hypothesis import given

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact import earliest as module
from drest_torch.envs.exact.earliest import button_distance, properties
from drest_torch.envs.levels import Button, parse_level
from tests.helpers.simulator import ACTIONS, MIXED, Simulator, levels, outcomes, random_levels


def exhaustive(level):
    """For each length the best total and the earliest last coin or working button of a trajectory that has it,
    and the ticks to the first button."""
    best, distance = {}, 0

    def play(state, total, last):
        nonlocal distance
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
                    distance = min(distance or after.ticks, after.ticks)
                happened = collected > 0 or after.time_left > state.time_left - 1
                play(after, round(total + collected, 9), after.ticks if happened else last)

    play(Simulator(level), 0.0, 0)
    return dict(sorted(best.items())), distance


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
    for name in ("num_lengths", "lengths", "best_return", "slack"):
        assert torch.equal(getattr(found, name), getattr(expected, name))


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
