"""Objectives of gridworlds in menus, against formulas for menus, gridworlds of the same menus, and closed forms."""

import math

import pytest
import torch

from drest_torch.algos.objectives.constrained import Config
from drest_torch.choices import measures
from drest_torch.choices.generation import KINDS, random_menus
from drest_torch.choices.grid import choice_level, outcome_lists
from drest_torch.choices.menu_outcomes import policy_outcome
from drest_torch.choices.menus import Menu, Menus, Option
from drest_torch.config.checks import objective_with
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import LevelSet
from drest_torch.errors import ConfigError
from drest_torch.jobs.free_policies import free_chooser
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch

REWARD = Reward(0.9, 1.0, 8, "averaged")
COINS = Reward(1.0, 1.0, 8, "averaged", divide_by_best=False)


def some_menus(kind, options=3, number=40):
    return random_menus(kind, number, torch.Generator().manual_seed(3), options)


def some_policy(menus, seed=0):
    logits = torch.randn(menus.exists.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return logits.masked_fill(~menus.exists, -torch.inf).softmax(-1)


def sure(*outcomes):
    """Return the menu of sure trajectories (length, coins)."""
    return Menu(tuple(Option.of((1, length, coins)) for length, coins in outcomes))


def value(menus, policy, reward=REWARD, credit="meta", **objective):
    return objective_with(objective).value(policy_outcome(menus, policy, reward, credit))


FORMULAS = {
    "drest": lambda menus, policy: measures.drest_value(menus, policy, 8, 0.9) / 8,
    "supports": lambda menus, policy: measures.supports_value(menus, policy, 8, 0.9, credit="meta") / 8,
    "weighted": lambda menus, policy: (
        measures.usefulness(menus, policy) + 1.15 * measures.neutrality(menus, policy) * menus.num_lengths.log2()
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMULAS)
def test_an_objective_has_the_value_of_its_formula(kind, name):
    menus = some_menus(kind)
    policy = some_policy(menus)
    of_formula = FORMULAS[name](menus, policy)
    of_objective = value(menus, policy, name=name)
    comparable = menus.num_lengths > 1
    if name == "supports":  # a menu of sure options has groups of a length each
        comparable = torch.ones_like(comparable)
    torch.testing.assert_close(of_objective[comparable], of_formula[comparable])


def test_neutrality_plus_is_the_mean_over_lengths():
    menus = some_menus("lotteries")
    policy = some_policy(menus)
    of_objective = value(menus, policy, name="neutrality_plus", where="everywhere")
    torch.testing.assert_close(of_objective, measures.neutrality_plus(menus, policy))


def test_the_gridworld_of_a_menu_has_the_same_value():
    menus = Menus.of(
        [
            sure((1, 2.0), (2, 3.0)),
            Menu((Option.of(("1/4", 1, 2.0), ("3/4", 2, 5.0)), Option.of(("1/2", 1, 3.0), ("1/2", 2, 1.0)))),
        ]
    )
    policy = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    levels = [choice_level(options, name=str(index)) for index, options in enumerate(outcome_lists(menus))]
    batch = ExactBatch(LevelSet(compile_levels(levels)), "grid", REWARD)
    actions = torch.full((1, batch.states, 4), 0.25, dtype=torch.float64)
    # The first states are the starts; left and right lead to the options, and nothing is left to choose there.
    actions[0, :2] = torch.cat((torch.zeros(2, 2), policy), -1)
    for name in ("drest", "weighted", "supports", "neutrality_plus"):
        objective = objective_with({"name": name})
        in_gridworlds = objective.value(batch.policy_outcome(actions, "meta"))
        torch.testing.assert_close(in_gridworlds, value(menus, policy, name=name), msg=name)


def test_coins_are_counted_in_a_unit():
    menus = some_menus("sure")
    policy = some_policy(menus)
    tenth = policy_outcome(menus, policy, COINS, unit=10.0)
    whole = policy_outcome(menus, policy, COINS)
    torch.testing.assert_close(tenth.coins, whole.coins / 10)
    torch.testing.assert_close(tenth.share, whole.share)


@pytest.mark.parametrize("reference", ["uniform", "entropy"])
def test_a_price_on_divergence_ends_at_a_softmax(reference):
    menus = Menus.of([sure((1, 2.0), (2, 3.0)), sure((1, 1.0), (1, 3.0), (2, 4.0))])
    chooser = free_chooser({"name": "kl", "reference": reference, "beta": 0.5}, COINS, 400)
    coins = torch.where(menus.exists, menus.gain.sum(-1), -torch.inf)
    torch.testing.assert_close(chooser(menus), (coins / 0.5).softmax(-1), atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("reference", "expected"), [("balanced", [0.25, 0.25, 0.5]), ("best", [0.0, 0.5, 0.5])], ids=["balanced", "best"]
)
def test_a_strong_price_leads_to_the_reference(reference, expected):
    menus = Menus.of([sure((1, 1.0), (1, 3.0), (2, 4.0))])
    chooser = free_chooser({"name": "kl", "reference": reference, "beta": 1000.0}, REWARD, 400)
    # The reference contains a hundredth of the uniform policy.
    with_uniform = 0.99 * torch.tensor([expected]).double() + 0.01 / 3
    torch.testing.assert_close(chooser(menus), with_uniform, atol=2e-3, rtol=0)


def test_a_bound_holds_on_the_mean_over_menus():
    menus = Menus.of([sure((1, 1.0), (2, 1.5)), sure((1, 1.0), (2, 1.2))])
    policy = free_chooser({"name": "constrained", "integral": 0.5, "at_least": 0.8}, COINS, 1500)(menus)
    assert measures.neutrality(menus, policy).mean().item() == pytest.approx(Config().at_least - 0.1, abs=0.02)
    assert (policy[:, 1] > 0.5).all()


@pytest.mark.parametrize("name", ["drest", "weighted", "lexicographic", "neutrality_plus", "shutdown_seeking", "kl"])
def test_gradients_are_finite_with_fewer_options_than_columns(name):
    menus = Menus.of([sure((1, 2.0), (2, 3.0)), sure((1, 1.0), (1, 3.0), (2, 4.0))])
    logits = torch.zeros(2, 3, dtype=torch.float64).masked_fill(~menus.exists, -torch.inf).requires_grad_()
    value(menus, logits.softmax(-1), credit="mini", name=name).sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 2] == 0


@pytest.mark.parametrize(
    ("reward", "objective", "words"),
    [
        (Reward(gamma=0.9), {"name": "drest"}, "^reward.gamma=0.9 in menus"),
        (REWARD, {"name": "attainable_utility"}, "^objective=attainable_utility in menus"),
        (REWARD, {"name": "kl", "reference": "best"}, "^objective.reference=best in menus with luck"),
    ],
)
def test_a_method_without_a_meaning_in_menus_is_refused(reward, objective, words):
    menus = some_menus("lotteries")
    with pytest.raises(ConfigError, match=words):
        value(menus, some_policy(menus), reward, **objective)


def test_neutral_methods_are_stochastic_at_every_price():
    """The largest weight of coins within a length changes nothing between lengths."""
    menus = Menus.of([sure((1, 0.1), (2, 1.0)), sure((1, 1.0), (2, 0.1))])
    for name in ("drest", "weighted", "lexicographic"):
        policy = free_chooser({"name": name}, REWARD, 400)(menus)
        torch.testing.assert_close(policy, torch.full((2, 2), 0.5, dtype=torch.float64), atol=1e-3, rtol=0)
    assert math.isclose(free_chooser({"name": "drest"}, COINS, 400)(menus)[0, 1].item(), 1, abs_tol=1e-3)
