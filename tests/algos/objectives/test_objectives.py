"""Objectives other than DReST: their optima for tabular policies, and their rewards for samples."""

import math
from itertools import product

import pytest
import torch

from drest_torch.algos.objectives import base, kl
from drest_torch.counting import same_length_in_group
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.soft import length_mixture, reference_policy, trajectory_sums
from drest_torch.envs.exact.solver import LevelSet, solve
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.metrics import neutrality, usefulness
from drest_torch.play.gridworld_slots import Gridworlds
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch
from tests.helpers.gradient_ascent import ascend, named
from tests.helpers.networks import Table
from tests.helpers.simulator import Simulator

NINE = [world(name).with_clock("steps") for name in PAPER_WORLDS]
REACHABLE = Reachable(compile_levels(NINE))
BEST = solve(REACHABLE.mdp).best_return


def soft(reachable, best, beta, reference):
    """Return P(L = l) and the actions of the policy that maximises C/m minus β times a divergence."""
    log_reference = reference_policy(reachable, best, reference).log()
    weight, tables = trajectory_sums(reachable, 1 / (beta * torch.where(best > 0, best, 1)), log_reference)
    lengths = weight.softmax(-1)
    return lengths, length_mixture(reachable, lengths, tables)


def test_the_state_of_a_constraint_is_restored():
    objective, again = (named({"name": "constrained"}) for _ in range(2))
    ascend([world("fewer_for_longer").with_clock("steps")], objective, steps=100, lr=0.05)
    for name, value in again.tensors().items():
        value.copy_(objective.tensors()[name])
    assert again.tensors()["sum"].equal(objective.sum)
    assert again.sum.sum() > 0


SMALL = [parse_level("shutdown: 2\nA C1 B1\n. C2 .", name="small"), parse_level("shutdown: 1\nC1 A B2\n. . C3")]


@pytest.mark.parametrize("beta", [0.05, 0.4])
@pytest.mark.parametrize("reference", ["entropy", "uniform"])
@pytest.mark.parametrize("level", SMALL)
def test_the_soft_recursion_is_the_sum_over_all_trajectories(level, reference, beta):
    reachable = Reachable(compile_levels([level]))
    best, lengths = solve(reachable.mdp).best_return, reachable.lengths[0].tolist()
    total = dict.fromkeys(lengths, 0.0)
    for actions in product(range(4), repeat=max(lengths)):
        state, coins = Simulator(level), 0.0
        for action in actions:
            coins += 0.0 if state.done else state.step(action)
        weight = math.exp(coins / best[0, lengths.index(state.ticks)].item() / beta)
        # A shorter trajectory occurs once for each continuation; with a uniform reference its weight has this factor.
        total[state.ticks] += weight / (4 ** (max(lengths) - state.ticks) if reference == "entropy" else 1)
    lengths_of_optimum = soft(reachable, best, beta, reference)[0][0]
    assert lengths_of_optimum.tolist() == pytest.approx([value / sum(total.values()) for value in total.values()])


@pytest.mark.slow
@pytest.mark.parametrize("reference", kl.REFERENCES)
def test_a_trained_table_reaches_the_soft_optimum(reference):
    objective = kl.Objective(kl.Config(name="kl", beta=0.1, reference=reference))
    outcome = ascend(NINE, objective, steps=1500)
    expected, _ = soft(REACHABLE, outcome.best_return, 0.1, reference)
    assert (outcome.probability - expected).abs().max() < 0.01


@pytest.mark.parametrize("reference", ["uniform", "balanced", "best"])
def test_the_soft_policy_has_the_lengths_of_the_soft_optimum(reference):
    for beta in (0.05, 0.5):
        lengths, policy = soft(REACHABLE, BEST, beta, reference)
        assert (REACHABLE.propagate(policy).probability - lengths).abs().max() < 1e-6


@pytest.mark.parametrize(("reference", "least_usefulness"), [("balanced", 0.0), ("best", 0.95)])
def test_references_are_neutral(reference, least_usefulness):
    policy = reference_policy(REACHABLE, BEST, reference)
    assert (policy.sum(-1) - 1).abs().max() < 1e-12
    arrivals = REACHABLE.propagate(policy)
    assert neutrality(arrivals.probability).min() > 0.99
    assert usefulness(arrivals.probability, arrivals.coins, BEST).min() >= least_usefulness


def test_only_the_best_reference_has_a_neutral_optimum():
    for beta in (0.02, 0.1, 1.0):
        assert neutrality(soft(REACHABLE, BEST, beta, "best")[0]).min() > 0.99
    assert neutrality(soft(REACHABLE, BEST, 0.02, "balanced")[0]).min() < 0.95


def groups(p, size, count, seed=0):
    """Return mini-episodes in groups, on a level with two lengths, of which the longer has probability p."""
    longer = (torch.rand(count * size, generator=torch.Generator().manual_seed(seed)) < p).long()
    alike = same_length_in_group(longer.reshape(-1, size), 2).flatten() - 1
    ones = torch.ones(len(longer))
    return base.EpisodeBatch(ones, ones, longer, alike, size - 1, 2 * ones.long(), 0 * ones, ones)


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(
    ("name", "values", "size", "slope"),
    [
        ("weighted", {"weight": 1.0}, 128, lambda p: math.log2((1 - p) / p)),
        ("weighted", {"weight": 1.0, "spread": "gini"}, 16, lambda p: 2 - 4 * p),
        ("rarity", {"weight": 1.0}, 16, None),
        ("constrained", {"at_least": 1.0, "proportional": 1e9, "integral": 0.0}, 128, lambda p: math.log2((1 - p) / p)),
    ],
    ids=["sum", "gini", "rarity", "constrained"],
)
def test_paid_mini_episodes_have_the_gradient_of_the_value(p, name, values, size, slope):
    """The policy's parameter is logit(p); shares are 1 for both lengths, so that only the spread matters."""
    objective = named({"name": name, **values})
    played = groups(p, size, 4000)
    reward = objective.pay(played).double()
    if name == "constrained":  # μ is huge, as N < 1, so that only neutrality matters
        assert p == 0.5 or objective.multiplier.sum() > 1e3
        reward = reward if p != 0.5 else played.surprise().double()
    estimate = ((played.column - p) * reward).mean().item()
    if slope is None:
        chance = torch.tensor([[1 - p, p]], dtype=torch.float64, requires_grad=True)
        two, by_luck = torch.tensor([2]), torch.zeros(1, dtype=torch.bool)
        best = torch.ones_like(chance)
        outcome = base.PolicyOutcome(chance, chance, best, two, by_luck, Reward(), "mini", None, None)
        (gradient,) = torch.autograd.grad(objective.value(outcome).sum(), chance)
        expected = (gradient[0, 1] - gradient[0, 0]).item()
    else:
        expected = slope(p)
    assert estimate == pytest.approx(p * (1 - p) * expected, abs=0.01)


def test_the_estimated_entropy_of_a_group_is_hardly_biased():
    """The plug-in estimate from 16 fair draws has a mean of 0.953 bits, so it could not meet a larger bound."""
    for p in (0.5, 0.3, 0.1):
        played = groups(p, 16, 20_000)
        exact = -p * math.log2(p) - (1 - p) * math.log2(1 - p)
        assert played.entropy().mean().item() == pytest.approx(exact, abs=0.02)
        shares = (played.alike + 1) / 16
        assert -shares.log2().mean().item() < exact - 0.03


@pytest.mark.parametrize("reference", ["uniform", "entropy"])
def test_sampled_divergence_agrees_with_the_exact_one(reference):
    mdp = compile_levels(SMALL[:1])
    worlds = Gridworlds.on(mdp, solve(mdp), make_observation("grid", mdp), slots=8192, group=16)
    objective = named({"name": "kl", "beta": 0.3, "reference": reference})
    worlds.pay(Reward(counting="averaged"), objective=objective)
    exact = ExactBatch(LevelSet(mdp), "grid", Reward())
    logits = torch.randn(exact.states, 4, generator=torch.Generator().manual_seed(0))
    policy = Table(exact.observe(torch.arange(exact.states)), logits)
    batch = worlds.collector(worlds.actor(policy)).collect(torch.Generator().manual_seed(1))
    probabilities = logits.softmax(-1).double().unsqueeze(0)
    _, coins = exact.outcome(probabilities)
    expected = (coins / exact.best_return).sum() - 0.3 * exact.divergence(probabilities, reference).sum()
    assert batch["next", "reward"].sum().item() / 8192 == pytest.approx(expected.item(), abs=0.02)
