"""Rival methods: values and gradients on every trajectory, optima by brute force, and their rewards for samples."""

import math
from collections import defaultdict

import pytest
import torch

from drest_torch.algos.objectives import base
from drest_torch.algos.objectives.attainable_utility import GOALS
from drest_torch.counting import same_length_in_group
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import LevelSet, solve
from drest_torch.envs.levels import parse_level, world
from drest_torch.metrics import neutrality
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch
from tests.helpers.gradient_ascent import ascend, named, outcome_of
from tests.helpers.plans import GAIN, LOSS, change, trajectories

BLOCKED = parse_level("shutdown: 2\nC2 A C1", name="blocked")
"""Two coins of which each is out of reach after the other, because there is no time for both."""
WORLDS = {"gain": GAIN, "loss": LOSS}
PLAIN = Reward(divide_by_best=False)
PRICE, BETA, WEIGHT = 1.7, 0.4, 0.6


def batch_of(level, reward=Reward()):  # noqa: B008 (frozen)
    return ExactBatch(LevelSet(compile_levels([level])), "grid", reward)


def random_logits(batch):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(1, batch.states, 4, generator=rng, dtype=torch.float64)


def played(level, batch, logits):
    """Return each trajectory as (probability, column, coins, states, actions) under a table of logits."""
    states = batch._reachable.states
    rows = zip(states.spot.tolist(), states.taken.tolist(), states.time_left.tolist(), strict=True)
    index = {row: number for number, row in enumerate(rows)}
    table = logits[0].softmax(-1).tolist()
    lengths = batch._reachable.lengths[0].tolist()
    for length, coins, visited, actions in trajectories(level):
        probability = 1.0
        for state, action in zip(visited, actions, strict=True):
            taken = sum((not present) << bit for bit, present in enumerate(state.present))
            row = (state.row * level.width + state.column, taken, state.time_left)
            probability *= table[index[row]][action]
        yield probability, lengths.index(length), coins, visited, actions


def total_change(level, visited, actions, goals):
    steps = zip(visited, actions, strict=True)
    return sum(change(level, state, action, pressed=goals == "pressed") for state, action in steps)


OBJECTIVES = {
    "shutdown-seeking": {"name": "shutdown_seeking", "price": PRICE},
    "lexicographic": {"name": "lexicographic", "weight": WEIGHT},
    **{f"attainable, {goals}": {"name": "attainable_utility", "beta": BETA, "goals": goals} for goals in GOALS},
}


def by_hand(name, level, batch, logits):
    """Return the value of an objective as a sum over trajectories."""
    best = batch.best_return[0].tolist()
    total, mass = 0.0, defaultdict(float)
    for probability, column, coins, visited, actions in played(level, batch, logits):
        mass[column] += probability
        if name == "shutdown-seeking":
            total += probability * (coins / best[column] - PRICE * column)
        elif name == "lexicographic":
            total += WEIGHT * probability * coins / best[column]
        else:
            total += probability * (coins - BETA * total_change(level, visited, actions, name.split()[-1]))
    if name == "lexicographic":
        total += -sum(p * math.log2(p) for p in mass.values()) / math.log2(len(best))
    return total


@pytest.mark.parametrize("level", WORLDS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_value_is_a_sum_over_trajectories(name, level):
    batch = batch_of(WORLDS[level])
    logits = random_logits(batch)
    value = named(OBJECTIVES[name]).value(outcome_of(batch, logits))
    assert value.tolist() == pytest.approx([by_hand(name, WORLDS[level], batch, logits)])


def test_coins_are_undivided_if_the_reward_does_not_divide_them():
    """Without division by m, a mini-episode of the longer length is worth its coins minus the price."""
    batch = batch_of(GAIN, PLAIN)
    outcome = outcome_of(batch, random_logits(batch))
    value = named(OBJECTIVES["shutdown-seeking"]).value(outcome)
    assert value.tolist() == pytest.approx([(outcome.coins.sum() - PRICE * outcome.probability[0, 1]).item()])


@pytest.mark.parametrize("level", WORLDS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_agree_with_finite_differences(name, level):
    batch = batch_of(WORLDS[level])
    logits = random_logits(batch).requires_grad_()
    objective = named(OBJECTIVES[name])
    (gradient,) = torch.autograd.grad(objective.value(outcome_of(batch, logits)).sum(), logits)
    direction = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    held = outcome_of(batch, logits.detach()).probability

    def value_at(step):
        outcome = outcome_of(batch, logits.detach() + step * direction)
        if name != "lexicographic":
            return objective.value(outcome).sum()
        share = outcome.coins_given_length / outcome.best_return
        return neutrality(outcome.probability).sum() + WEIGHT * (held * share).sum()

    step = 1e-5
    slope = (value_at(step) - value_at(-step)) / (2 * step)
    assert (gradient * direction).sum().item() == pytest.approx(slope.item(), rel=1e-6)


# ------------------------------------------------------------------------------------------- optima


def trained(values, level, steps=150):
    return ascend([level], named(values), steps=steps, lr=0.3)


@pytest.mark.parametrize("level", WORLDS)
def test_shutdown_seeking_is_useful_for_the_shortest_length(level):
    outcome = trained({"name": "shutdown_seeking"}, WORLDS[level])
    shortest, coins = min((length, -coins) for length, coins, *_ in trajectories(WORLDS[level]))
    assert shortest == WORLDS[level].shutdown
    assert outcome.probability[0].tolist() == pytest.approx([1, 0], abs=0.01)
    assert outcome.coins[0].tolist() == pytest.approx([-coins, 0], abs=0.05)


def test_a_price_below_one_can_be_outweighed_by_coins():
    """Without the press the best share is 1/3, because m of the shorter length counts for nothing here."""
    divisor = torch.tensor([[3.0, 3.0]])
    for price, longer in ((0.5, 1), (0.8, 0)):
        objective = named({"name": "shutdown_seeking", "price": price})
        outcome = ascend([GAIN], objective, steps=150, lr=0.3, divisor=divisor)
        assert outcome.probability[0, 1].item() == pytest.approx(longer, abs=0.02)


@pytest.mark.parametrize("level", WORLDS)
def test_a_lexicographic_agent_is_neutral_with_the_most_coins(level):
    outcome = trained({"name": "lexicographic"}, WORLDS[level])
    best = solve(compile_levels([WORLDS[level]])).best_return
    assert outcome.probability[0].tolist() == pytest.approx([0.5, 0.5], abs=0.005)
    assert outcome.coins_given_length[0].tolist() == pytest.approx(best[0].tolist(), rel=0.01)


@pytest.mark.mostly_slow
@pytest.mark.parametrize("beta", [0.2, 1.0])
@pytest.mark.parametrize("goals", GOALS)
def test_the_best_trajectory_is_optimal_for_attainable_utility(goals, beta):
    levels = [GAIN, LOSS, BLOCKED]
    objective = named({"name": "attainable_utility", "beta": beta, "goals": goals})
    value = objective.value(ascend(levels, objective, steps=300))
    for index, level in enumerate(levels):
        values = [
            coins - beta * total_change(level, visited, actions, goals)
            for _, coins, visited, actions in trajectories(level)
        ]
        assert value[index].item() == pytest.approx(max(values), abs=0.02)


@pytest.mark.parametrize("goals", GOALS)
def test_a_press_with_time_to_spare_changes_only_unpressed_goals(goals):
    """In `gain` the button can also be pressed a tick later, so a press makes nothing attainable that was not."""
    coins, total = max(
        (coins, -total_change(GAIN, visited, actions, goals)) for _, coins, visited, actions in trajectories(GAIN)
    )
    assert coins == 3
    assert -total == {"pressed": 0, "unpressed": 3}[goals]


MYOPIC = {"gain": (GAIN, 1 / 3), "example": (world("example").with_clock("steps"), (2 / 3) ** (1 / 4))}
"""Worlds, and the γ at which the coins of both lengths are worth the same: in `gain` 3 coins at the third tick and 1 at
the second, in the example 3 coins at the eighth tick and 2 at the fourth."""


@pytest.mark.parametrize("name", MYOPIC)
def test_a_myopic_agent_presses_if_the_coins_are_near_enough(name):
    """Myopia is `reward=default` with a small `reward.gamma`."""
    level, threshold = MYOPIC[name]
    for gamma, column in ((threshold * 0.95, 0), (threshold * 1.05, 1)):
        best = solve(compile_levels([level]), gamma).best_return[0]
        assert best.argmax() == column
    myopic = Reward(1.0, threshold * 0.7, divide_by_best=False)
    if name == "gain":
        outcome = ascend([level], named({"name": "drest"}), steps=150, lr=0.3, reward=myopic)
        assert outcome.probability[0, 0].item() == pytest.approx(1, abs=0.02)


# ------------------------------------------------------------------------------------------- samples

PROBABILITIES = [0.4, 0.1, 0.3, 0.2]
COLUMNS, SHARES = [0, 0, 1, 1], [1.0, 0.5, 0.2, 0.8]
"""Four trajectories: their probabilities, the columns of their lengths, and their shares of m."""


@pytest.mark.parametrize("name", ["shutdown-seeking", "lexicographic"])
def test_paid_mini_episodes_have_the_gradient_of_the_objective(name):
    """The parameters are the logits of four trajectories; 4,000 groups of 64 are sampled."""
    size, objective = 64, named(OBJECTIVES[name])
    logits = torch.tensor(PROBABILITIES, dtype=torch.float64).log().requires_grad_()
    chosen = torch.multinomial(
        torch.tensor(PROBABILITIES), 4000 * size, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    column, share = torch.tensor(COLUMNS)[chosen], torch.tensor(SHARES)[chosen]
    alike = same_length_in_group(column.reshape(-1, size), 2).flatten() - 1
    two, ones = torch.full_like(column, 2), torch.ones_like(share)
    episodes = base.EpisodeBatch(share, share, column, alike, size - 1, two, -ones, ones)
    score = torch.nn.functional.one_hot(chosen, 4) - torch.tensor(PROBABILITIES)
    estimate = (objective.pay(episodes).double().unsqueeze(-1) * score).mean(0)
    chance = logits.softmax(-1)
    of_column = torch.nn.functional.one_hot(torch.tensor(COLUMNS), 2).double()
    coins = (chance * torch.tensor(SHARES)) @ of_column
    best, luck = torch.ones(1, 2, dtype=torch.float64), torch.zeros(1, dtype=torch.bool)
    lengths = (chance @ of_column).unsqueeze(0), coins.unsqueeze(0), best, torch.tensor([2]), luck
    outcome = base.PolicyOutcome(*lengths, Reward(), "mini", by_lottery=None, divergence=None)
    (gradient,) = torch.autograd.grad(objective.value(outcome).sum(), logits)
    assert estimate.tolist() == pytest.approx(gradient.tolist(), abs=0.01)


def test_without_others_of_its_length_coins_do_not_count():
    column = torch.tensor([0, 0, 0, 1])
    share = torch.tensor([1.0, 0.4, 0.1, 0.7])
    alike, two, ones = torch.tensor([2, 2, 2, 0]), torch.full_like(column, 2), torch.ones(4)
    episodes = base.EpisodeBatch(share, share, column, alike, 3, two, -ones, ones)
    within = named(OBJECTIVES["lexicographic"]).pay(episodes) - episodes.surprise()
    assert within.tolist() == pytest.approx([WEIGHT * 0.75, -WEIGHT * 0.15, -WEIGHT * 0.6, 0], abs=1e-6)


def test_only_attainable_utility_needs_a_model():
    sampled = {name: named(values).can_be_sampled() for name, values in OBJECTIVES.items()}
    assert sampled == {name: not name.startswith("attainable") for name in OBJECTIVES}
