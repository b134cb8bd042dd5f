"""The exact distribution over lengths, against enumeration, sampling and numerical gradients."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import world
from tests.helpers.simulator import MIXED, enumerate_policy, levels, random_policy


def policy_on(reachable, policies):
    """The simulator's policies, one a level, as one function of the propagator's states."""
    mdp = reachable.mdp

    def ask(states):
        rows = []
        for spot, taken, time_left in zip(
            *(x.tolist() for x in (states.spot, states.taken, states.time_left)), strict=True
        ):
            index, cell = divmod(spot, mdp.num_cells)
            level = mdp.levels[index]
            present = [1 - (taken >> bit & 1) for bit in range(level.num_objects)]
            row, column = divmod(cell, mdp.width)
            rows.append(policies[index](SimpleNamespace(observation=(column, row, *present), time_left=time_left)))
        return torch.tensor([[float(p) for p in row] for row in rows], dtype=torch.float64)

    return ask


@given(levels(4, max_ticks=5, lotteries=(0, 0, 1, 2), **MIXED), st.booleans(), st.sampled_from((1.0, 0.9, 0.5)))
def test_random_levels_and_policies_against_enumeration(levels, sees_time, gamma):
    policies = [random_policy(i, sees_time=sees_time) for i in range(len(levels))]
    reachable = Reachable(compile_levels(levels))
    states, index = reachable.distinct(see_time=sees_time)
    assert len(states) <= len(reachable)
    found = reachable.propagate(policy_on(reachable, policies)(states)[index], gamma)
    for index, (level, policy) in enumerate(zip(levels, policies, strict=True)):
        expected = {length: (float(p), float(c)) for length, (p, c) in enumerate_policy(level, policy, gamma).items()}
        columns = zip(reachable.lengths[index].tolist(), found.probability[index], found.coins[index], strict=True)
        got = {length: (p.item(), (p * coins).item()) for length, p, coins in columns if p > 0}
        assert got.keys() == expected.keys()
        for length in got:
            assert got[length] == pytest.approx(expected[length], abs=1e-12)


def test_wrong_shape_is_refused():
    reachable = Reachable(compile_levels([world("example")]))
    with pytest.raises(ValueError, match="expected"):
        reachable.propagate(torch.ones(3, 4))


def rows(states):
    return list(zip(states.spot.tolist(), states.taken.tolist(), states.time_left.tolist(), strict=True))
