"""Pass probabilities, commitment and luck, against the enumeration of all trajectories and in closed form."""

import math
import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product

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
    """Random levels with policies that see the time, and the tensors of both."""
    rng = random.Random(5)
    levels = [
        random_level(rng, max_ticks=5, chances=i % 2 == 0, doors=i % 3 == 0, clock=None, name=str(i)) for i in range(40)
    ]
    policies = [random_policy(500 + i, sees_time=True) for i in range(len(levels))]
    reachable = Reachable(compile_levels(levels))
    return list(zip(levels, policies, strict=True)), reachable, policy_on(reachable, policies)(reachable.states)


def trajectories(level, policy):
    """Every trajectory: its probability, and the states that it comes through, the last one ended."""

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
    total = sum(weights)
    return -sum(w / total * math.log2(w / total) for w in weights if w > 0) if total > 0 else 0.0


def test_entered_cells_and_the_commitment_profile_against_enumeration(worlds):
    played, reachable, table = worlds
    mdp, objects, found = reachable.mdp, entered(reachable, table), commitment_profile(reachable, table)
    for index, (level, policy) in enumerate(played):
        taken, lengths = Counter(), defaultdict(Counter)
        for probability, states in trajectories(level, policy):
            cells = {(state.row, state.column) for state in states[1:]}
            for thing in level.objects:
                taken[thing] += probability * ((thing.row, thing.column) in cells)
            for tick, state in enumerate(states[:-1]):
                lengths[tick, state.state][states[-1].ticks] += probability
        for thing in level.objects:
            spot = index * mdp.num_cells + thing.row * mdp.width + thing.column
            assert objects[spot].item() == pytest.approx(taken[thing], abs=1e-12)
        expected = [0.0] * found.shape[1]
        for (tick, _), counts in lengths.items():
            expected[tick] += sum(counts.values()) * entropy(counts.values())
        assert found[index].tolist() == pytest.approx(expected, abs=1e-9)


def test_luck_against_enumeration_with_luck_decided(worlds):
    played, reachable, table = worlds
    found = decompose(reachable, [table])
    assert sum("chance" in level.features for level, _ in played) > 5
    for index, (level, policy) in enumerate(played):
        lucky = [button for button in level.buttons if button.chance < 1]
        own = 0.0
        for works in product((1, 0), repeat=len(lucky)):
            chance = math.prod(b.chance if work else 1 - b.chance for b, work in zip(lucky, works, strict=True))
            decided = {b: replace(b, chance=work) for b, work in zip(lucky, works, strict=True)}
            world = replace(level, objects=tuple(decided.get(thing, thing) for thing in level.objects))
            own += chance * entropy([probability for probability, _ in enumerate_policy(world, policy, 1.0).values()])
        assert found.own[index].item() == pytest.approx(own, abs=1e-9)
        assert found.given_luck[index].item() == pytest.approx(own, abs=1e-9)
    weights = torch.stack([chance for chance, _ in luck_outcomes(reachable)]).sum(0)
    torch.testing.assert_close(weights, torch.ones(len(played), dtype=torch.float64))


def test_a_bit_that_decides_leaves_nothing_to_the_agent_until_it_is_drawn_again():
    level = parse_level("shutdown: 2\nC1 . A B2 C1")
    mdp = compile_levels([level])
    reachable, best = Reachable(mdp), solve(mdp).best_return
    left = RIGHT[[0, 1, 3, 2]].expand(len(reachable), -1)
    right = RIGHT.expand(len(reachable), -1)
    found = decompose(reachable, [left, right])
    assert (found.neutrality.item(), found.given_bits.item(), found.own.item()) == (1, 0, 0)
    half = decompose(reachable, [left, (left + right) / 2])
    assert half.own.item() == pytest.approx(0.5 * 1.0, abs=0.2)  # the second setting leaves almost everything open
    apart, useful = redraw_bits(reachable, [left, right], best, 0)
    assert (apart.item(), useful.item()) == (1, 1)
    # After a step to the left one timestep remains: too few to turn around to the button, or to C1 on the other side.
    apart, useful = redraw_bits(reachable, [left, right], best, 1)
    assert apart.item() == 0
    assert useful.item() < 1


def test_more_luck_than_can_be_gone_through_is_refused():
    reachable = Reachable(compile_levels([parse_level("shutdown: 13\nA C1" + 13 * " B1@0.5")]))
    with pytest.raises(LevelError, match="13 cells that work by chance"):
        decompose(reachable, [RIGHT.expand(len(reachable), -1)])


def test_luck_of_a_lottery_is_that_of_the_button_that_it_is() -> None:
    """The same policy in the same world, written with buttons that work by chance and with lotteries."""
    cells = "C1 A {} . C2 {} C1"
    buttons = "shutdown: 3\n\n" + cells.format("B2@0.5", "B1@0.25")
    lotteries = "lottery a: 1/2 C0 +2 | 1/2 C0 +0\nlottery b: 1/4 C0 +1 | 3/4 C0 +0\n\n" + cells.format("La", "Lb")
    found = []
    for text in (buttons, f"shutdown: 3\n{lotteries}"):
        reachable = Reachable(compile_levels([parse_level(text, name="luck")]))
        states = reachable.states
        logits = [torch.sin(1.3 * states.spot + (action + 0.7) * states.time_left) for action in range(NUM_ACTIONS)]
        parts = decompose(reachable, [(2 * torch.stack(logits, -1).double()).softmax(-1)])
        found.append((parts.neutrality.item(), parts.given_luck.item()))
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert 0.1 < found[0][1] < found[0][0] - 0.1
