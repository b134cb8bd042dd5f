"""Observations against the states of the simulator, cell by cell."""

from collections import defaultdict
from itertools import compress, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import FAINT, OBSERVATIONS, TIME_STEPS, VectorObservation, make_observation
from drest_torch.envs.levels import Button, Coin, LevelError, world
from tests.helpers.simulator import MIXED, Simulator, levels, outcomes


def plane_values(state, contrast, names, places, units):
    """Return the values of these planes at these places, in these units; 0 without an object."""
    level, cells = state.level, defaultdict(dict)
    for thing in compress(level.objects, state.present):
        at = thing.row, thing.column
        if isinstance(thing, Coin):
            cells["coin"][at] = thing.value if contrast is None else 1 + contrast * thing.value
        elif isinstance(thing, Button):
            cells["delay"][at], cells["chance"][at] = thing.delay, thing.chance
        else:
            for number, outcome in enumerate(thing.outcomes, 1):
                for name, value in zip(("chance", "coins", "delay"), outcome, strict=True):
                    cells[f"lottery {number} {name}"][at] = float(value)
    for door in level.fixtures:
        cells[f"door {ACTIONS[door.direction]}"][door.row, door.column] = 1.0
    cells["agent"][state.row, state.column] = cells["start"][level.start] = 1.0
    cells["wall"] = {place: float(state.is_wall(*place)) for place in places}
    cells["time"] = dict.fromkeys(places, float(state.time_left))
    return [cells[name].get(place, 0.0) / units.get(name.split()[-1], 1.0) for name in names for place in places]


def expected(name, state, mdp, count):
    if name == "vector":
        return list(state.observation)
    contrast = {"faint": FAINT, "alike": 0.0}.get(name.rpartition("_")[2])
    has_start = name.endswith(("start", "start_elapsed", "faint", "alike"))
    names = make_observation("grid_start" if has_start else "grid", mdp).planes
    if name.startswith("grid"):
        return plane_values(state, contrast, names, [*product(range(mdp.height), range(mdp.width))], {})
    # The cells around the agent: coins as shares of the largest, delays in units of 8.
    level, beside = state.level, [plane for plane in names if plane not in ("agent", "time")]
    values = [coin.value for coin in level.coins] + [
        outcome.coins for lottery in level.lotteries for outcome in lottery.outcomes
    ]
    units = {"coin": max(values) if contrast is None else 1.0, "coins": max(values), "delay": 8}
    downs, rights = range(1 - mdp.height, mdp.height), range(1 - mdp.width, mdp.width)
    places = [(state.row + down, state.column + right) for down, right in product(downs, rights)]
    window = plane_values(state, contrast, beside, places, units)
    return window + steps(state.time_left, count) + (steps(state.ticks, count) if "elapsed" in name else [])


def steps(time, count):
    return [*(min(max(time - step, 0), 1) for step in range(count)), time / count]


def walked(level, rng):
    """Return a state of a level after some random steps, before the end."""
    state = Simulator(level)
    for _ in range(rng.randint(0, 6)):
        _, after, _ = rng.choice(outcomes(state, rng.randrange(4)))
        state = state if after.done else after
    return state


@settings(max_examples=40)
@given(
    levels(4, doors=(False, True), clock=None) | levels(4, lotteries=(0, 0, 0, 1, 2), **MIXED),
    st.sampled_from(sorted(OBSERVATIONS)),
    st.sampled_from((TIME_STEPS, 40)),
    st.sampled_from((VectorObservation.TABLE_BITS, 0)),
    st.randoms(use_true_random=False),
)
def test_an_observation_equals_the_state_of_the_simulator(monkeypatch, levels, chosen, count, bits, rng):
    monkeypatch.setattr(VectorObservation, "TABLE_BITS", bits)
    mdp, states = compile_levels(levels), [walked(level, rng) for level in levels]
    spots = [index * mdp.num_cells + state.row * mdp.width + state.column for index, state in enumerate(states)]
    taken = [sum((1 - present) << bit for bit, present in enumerate(state.observation[2:])) for state in states]
    now = [torch.tensor(values) for values in (spots, taken, [state.time_left for state in states])]
    luck = any(level.lotteries or any(button.chance < 1 for button in level.buttons) for level in levels)
    refused = {"vector": (ValueError, f"shows 1 level, but the set has {len(levels)}")} if len(levels) > 1 else {}
    if luck:
        refused |= dict.fromkeys(("centred_elapsed", "centred_start_elapsed"), (LevelError, "has luck or lotteries"))
    for name in {"grid", "centred", "centred_start_elapsed", chosen}:
        if name in refused:
            with pytest.raises(refused[name][0], match=refused[name][1]):
                make_observation(name, mdp)
            continue
        observe = make_observation(name, mdp, count)
        seen = observe(*now)
        assert seen.shape[1:] == observe.shape
        for state, of_state in zip(states, seen.flatten(1), strict=True):
            assert of_state.tolist() == pytest.approx(expected(name, state, mdp, count))


def test_the_vector_observation_is_the_papers():
    """The agent is at x = 2, y = 4, and the objects are C3, C2, C1 in reading order, then B4."""
    mdp = compile_levels([world("example")])
    assert make_observation("vector", mdp)(mdp.start, torch.tensor([0]), mdp.shutdown).tolist() == [[2, 4, 1, 1, 1, 1]]


def test_an_unsupported_observation_is_refused():
    mdp = compile_levels([world("example")])
    with pytest.raises(ValueError, match="no observation 'pixels'"):
        make_observation("pixels", mdp)
