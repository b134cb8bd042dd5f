"""Tests of entry rates, commitment and luck, against enumeration and in closed form."""

import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest
import torch

from drest_torch.choices.attribution import commitment_profile, decompose, luck_outcomes, redraw_bits
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.exact.passing import entered
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level
from drest_torch.errors import LevelError
from tests.envs.exact.test_propagator import policy_on
from tests.helpers.simulator import Simulator, enumerate_policy, outcomes, random_level, random_policy

RIGHT = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)


@pytest.fixture(scope="module")
def worlds():
    """Return random levels with policies that observe the time, and their tensors."""
    rng = random.Random(5)
    levels = [
        random_level(rng, max_ticks=5, chances=i % 2 == 0, doors=i % 3 == 0, clock=None, name=str(i)) for i in range(40)
    ]
    policies = [random_policy(500 + i, sees_time=True) for i in range(len(levels))]
    reachable = Reachable(compile_levels(levels))
    return list(zip(levels, policies, strict=True)), reachable, policy_on(reachable, policies)(reachable.states)


def trajectories(level, policy):
    """Yield the probability and the states of each trajectory; its last state has ended."""

    def play(states, probability):
        state = states[-1]
        if state.done:
            yield probability, states
            return
        moves = [0 if level.clock == "moves" and state.is_bump(a) else p for a, p in enumerate(policy(state))]
        for action, p in enumerate(moves):
            if p > 0:
                for chance, after, _ in outcomes(state, action):
                    yield from play([*states, after], probability * p / sum(moves) * float(chance))

    yield from play([Simulator(level)], 1.0)


def entropy(weights):
    """Return the entropy of weights in bits."""
    total = sum(weights)
    return -sum(w / total * math.log2(w / total) for w in weights if w > 0) if total > 0 else 0.0


def test_entry_rates_agree_with_enumeration(worlds):
    played, reachable, table = worlds
    mdp, rates = reachable.mdp, entered(reachable, table)
    for index, (level, policy) in enumerate(played):
        taken = Counter()
        for probability, states in trajectories(level, policy):
            cells = {(state.row, state.column) for state in states[1:]}
            for thing in level.objects:
                taken[thing] += probability * ((thing.row, thing.column) in cells)
        for thing in level.objects:
            spot = index * mdp.num_cells + thing.row * mdp.width + thing.column
            assert rates[spot].item() == pytest.approx(taken[thing], abs=1e-12)


def test_the_commitment_profile_agrees_with_enumeration(worlds):
    played, reachable, table = worlds
    profile = commitment_profile(reachable, table)
    for index, (level, policy) in enumerate(played):
        lengths = defaultdict(Counter)
        for probability, states in trajectories(level, policy):
            for tick, state in enumerate(states[:-1]):
                lengths[tick, state.state][states[-1].ticks] += probability
        expected = [0.0] * profile.shape[1]
        for (tick, _), counts in lengths.items():
            expected[tick] += sum(counts.values()) * entropy(counts.values())
        assert profile[index].tolist() == pytest.approx(expected, abs=1e-9)


def test_neutrality_given_luck_agrees_with_enumeration(worlds):
    played, reachable, table = worlds
    parts = decompose(reachable, [table])
    assert sum("chance" in level.features for level, _ in played) > 5
    for index, (level, policy) in enumerate(played):
        lucky = [button for button in level.buttons if button.chance < 1]
        expected = 0.0
        for works in product((1, 0), repeat=len(lucky)):
            chance = math.prod(b.chance if work else 1 - b.chance for b, work in zip(lucky, works, strict=True))
            decided = {b: replace(b, chance=work) for b, work in zip(lucky, works, strict=True)}
            world = replace(level, objects=tuple(decided.get(thing, thing) for thing in level.objects))
            outcomes_of_world = enumerate_policy(world, policy, 1.0).values()
            expected += chance * entropy([probability for probability, _ in outcomes_of_world])
        assert parts.given_both[index].item() == pytest.approx(expected, abs=1e-9)
        assert parts.given_luck[index].item() == pytest.approx(expected, abs=1e-9)


def test_the_probabilities_of_outcomes_of_luck_sum_to_one(worlds):
    played, reachable, _ = worlds
    weights = torch.stack([chance for chance, _ in luck_outcomes(reachable)]).sum(0)
    torch.testing.assert_close(weights, torch.ones(len(played), dtype=torch.float64))


class TwoWays(NamedTuple):
    """A level with a coin on each side, and policies that go left and right."""

    reachable: Reachable
    left: torch.Tensor
    right: torch.Tensor
    best_return: torch.Tensor


@pytest.fixture(scope="module")
def two_ways():
    """Return a level with a coin on the left, and a button that leads to a coin on the right."""
    mdp = compile_levels([parse_level("shutdown: 2\nC1 . A B2 C1")])
    reachable = Reachable(mdp)
    left = RIGHT[[0, 1, 3, 2]].expand(len(reachable), -1)
    return TwoWays(reachable, left, RIGHT.expand(len(reachable), -1), solve(mdp).best_return)


def test_a_bit_that_decides_leaves_no_neutrality(two_ways):
    parts = decompose(two_ways.reachable, [two_ways.left, two_ways.right])
    assert parts.neutrality.item() == 1
    assert parts.given_bits.item() == 0
    assert parts.given_both.item() == 0


def test_a_random_setting_of_the_bit_leaves_half_the_neutrality(two_ways):
    random_walk = (two_ways.left + two_ways.right) / 2
    parts = decompose(two_ways.reachable, [two_ways.left, random_walk])
    assert parts.given_both.item() == pytest.approx(0.5 * 1.0, abs=0.2)


def test_a_bit_that_is_redrawn_at_the_start_decides_the_length(two_ways):
    tables = [two_ways.left, two_ways.right]
    distance, useful = redraw_bits(two_ways.reachable, tables, two_ways.best_return, 0)
    assert distance.item() == 1
    assert useful.item() == 1


def test_redrawing_a_bit_after_a_step_changes_no_length(two_ways):
    """One tick remains, too few to reach the button, or the coin on the other side."""
    tables = [two_ways.left, two_ways.right]
    distance, useful = redraw_bits(two_ways.reachable, tables, two_ways.best_return, 1)
    assert distance.item() == 0
    assert useful.item() < 1


def test_too_many_outcomes_of_luck_are_refused():
    reachable = Reachable(compile_levels([parse_level("shutdown: 13\nA C1" + 13 * " B1@0.5")]))
    with pytest.raises(LevelError, match="13 cells that work by chance"):
        decompose(reachable, [RIGHT.expand(len(reachable), -1)])


def test_a_lottery_has_the_luck_of_an_equivalent_button() -> None:
    """The world is written with buttons that work by chance, and with lotteries."""
    cells = "C1 A {} . C2 {} C1"
    buttons = "shutdown: 3\n\n" + cells.format("B2@0.5", "B1@0.25")
    lotteries = "lottery a: 1/2 C0 +2 | 1/2 C0 +0\nlottery b: 1/4 C0 +1 | 3/4 C0 +0\n\n" + cells.format("La", "Lb")
    measured = []
    for text in (buttons, f"shutdown: 3\n{lotteries}"):
        reachable = Reachable(compile_levels([parse_level(text, name="luck")]))
        states = reachable.states
        logits = [torch.sin(1.3 * states.spot + (action + 0.7) * states.time_left) for action in range(NUM_ACTIONS)]
        parts = decompose(reachable, [(2 * torch.stack(logits, -1).double()).softmax(-1)])
        measured.append((parts.neutrality.item(), parts.given_luck.item()))
    assert measured[0] == pytest.approx(measured[1], rel=1e-12)
    total, given_luck = measured[0]
    assert 0.1 < given_luck < total - 0.1
