"""The exact distribution over lengths, against enumeration, sampling and numerical gradients."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import parse_level, world
from tests.helpers.simulator import MIXED, enumerate_policy, levels, random_levels, random_policy


def rows(states):
    return list(zip(states.spot.tolist(), states.taken.tolist(), states.time_left.tolist(), strict=True))


def policy_on(reachable, policies):
    """Return the simulator's policies, one for each level, as one function of the propagator's states."""
    mdp = reachable.mdp

    def policy(states):
        chances = []
        for spot, taken, time_left in rows(states):
            index, cell = divmod(spot, mdp.num_cells)
            present = [1 - (taken >> bit & 1) for bit in range(mdp.levels[index].num_objects)]
            row, column = divmod(cell, mdp.width)
            chances.append(policies[index](SimpleNamespace(observation=(column, row, *present), time_left=time_left)))
        return torch.tensor(chances, dtype=torch.float64)

    return policy


@given(levels(4, max_ticks=5, lotteries=(0, 0, 1, 2), **MIXED), st.booleans(), st.sampled_from((1.0, 0.9, 0.5)))
def test_random_policies_have_the_lengths_of_an_enumeration(levels, sees_time, gamma):
    policies = [random_policy(i, sees_time=sees_time) for i in range(len(levels))]
    reachable = Reachable(compile_levels(levels))
    states, index = reachable.distinct(see_time=sees_time)
    assert len(states) <= len(reachable)
    lengths = reachable.propagate(policy_on(reachable, policies)(states)[index], gamma)
    for index, (level, policy) in enumerate(zip(levels, policies, strict=True)):
        expected = {length: (float(p), float(c)) for length, (p, c) in enumerate_policy(level, policy, gamma).items()}
        columns = zip(reachable.lengths[index].tolist(), lengths.probability[index], lengths.coins[index], strict=True)
        got = {length: (p.item(), (p * coins).item()) for length, p, coins in columns if p > 0}
        assert got.keys() == expected.keys()
        for length in got:
            assert got[length] == pytest.approx(expected[length], abs=1e-12)


def test_visits_by_hand():
    """The agent enters the coin's cell with probability 1/4 in each step, and leaves it with 1/4."""
    reachable = Reachable(compile_levels([parse_level("shutdown: 3\nA C1", name="corridor")]))
    visits = reachable.visits(torch.full((len(reachable), 4), 0.25, dtype=torch.float64))
    assert len(reachable.distinct(see_time=False)[0]) == 3  # the coin is there, or the agent in one of two cells
    by_state = dict(zip(rows(reachable.states), visits.tolist(), strict=True))
    first, second = {(0, 0, 3): 1, (0, 0, 2): 3 / 4, (1, 1, 2): 1 / 4}, {(0, 0, 1): 9 / 16, (0, 1, 1): 1 / 16}
    assert by_state == pytest.approx(first | second | {(1, 1, 1): 3 / 16 + 3 / 16})


@pytest.mark.parametrize(
    ("level", "action", "probability"),
    [
        (parse_level("shutdown: 2\nclock: moves\nA . C1", name="a bump takes no time"), 0, [0.0]),
        (world("example"), 1, [1.0, 0.0]),
    ],
    ids=["never an end", "never the longer length"],
)
def test_a_length_that_is_never_chosen_has_no_coins(level, action, probability):
    reachable = Reachable(compile_levels([level]))
    policy = torch.eye(4)[action].expand(len(reachable), 4).clone().requires_grad_()
    lengths = reachable.propagate(policy)
    assert lengths.probability.tolist() == [probability]
    assert not lengths.coins.any()
    (lengths.probability.sum() + lengths.coins.sum()).backward()
    assert policy.grad.isfinite().all()


def test_wrong_shape_is_refused():
    reachable = Reachable(compile_levels([world("example")]))
    with pytest.raises(ValueError, match="expected"):
        reachable.propagate(torch.ones(3, 4))


@pytest.mark.parametrize("rarely", [0.0, 0.02, 0.2])
def test_a_policy_is_evaluated_only_in_visited_states(rarely):
    """Its visits follow from its logits in these states, and uniform actions elsewhere."""
    reachable = Reachable(compile_levels(random_levels(40, 0, max_ticks=6, chances=(False, True), clock=None)))
    place = {row: i for i, row in enumerate(rows(reachable.states))}
    alike = torch.tensor([place[row] for row in rows(reachable.states)])  # at different ticks, the same state
    logits = 2 * torch.randn(len(reachable), 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)[alike]
    evaluated = []

    def policy(states):
        evaluated.extend(place[row] for row in rows(states))
        return logits[evaluated[len(evaluated) - len(states) :]]

    visited, explored_logits = reachable.explore(policy, rarely)
    assert alike[visited].tolist() == evaluated
    assert torch.equal(explored_logits, logits[visited])
    played = torch.full_like(logits, 0.25)
    played[visited] = logits[visited].softmax(-1)
    assert torch.equal(visited, (reachable.visits(played) > rarely).nonzero().squeeze(-1))
    assert (len(visited) < len(reachable)) == (rarely > 0)
