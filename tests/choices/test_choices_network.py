"""The network of menus, the menus that it is trained on, and its training."""

import pytest
import torch

from drest_torch.choices import measures
from drest_torch.choices.generation import KINDS, random_menus
from drest_torch.choices.menus import Menu, Menus, Option
from drest_torch.choices.variants import FEATURES, MenuNetwork, train


@pytest.mark.parametrize("reads", FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_neither_the_order_of_options_and_outcomes_nor_who_else_is_asked_makes_a_difference(kind, reads):
    menus = random_menus(kind, 51, torch.Generator().manual_seed(1), 3)
    network = MenuNetwork(3, 16, reads=reads)
    policy = network(menus)
    assert torch.allclose(policy.sum(-1), torch.ones(3, 51))
    turned = Menus(*(each.flip(1) for each in (menus.chance, menus.length, menus.coins)))
    mixed = Menus(*(each.flip(2) for each in (menus.chance, menus.length, menus.coins)))
    assert torch.allclose(network(turned).flip(-1), policy, atol=1e-5)
    assert torch.allclose(network(mixed), policy, atol=1e-5)
    parts = torch.stack([policy[agent, 17 * agent : 17 * agent + 17] for agent in range(3)])
    assert torch.allclose(network.choose(menus, 3), parts, atol=1e-6)  # each agent is asked about its own part


def test_by_length_an_option_that_is_split_into_equal_outcomes_is_the_same():
    whole, split = ([("1/2", 1, 2), ("1/2", 2, 4)], [("1/4", 1, 1), ("1/4", 1, 3), ("1/2", 2, 4)])
    network, other = MenuNetwork(1, 16), Option.of((1, 1, 3))
    first, second = (network(Menus.of([Menu((Option.of(*outcomes), other))])) for outcomes in (whole, split))
    assert torch.allclose(first, second, atol=1e-6)


def test_generated_menus_are_of_their_kind():
    made = {kind: random_menus(kind, 200, torch.Generator().manual_seed(2)) for kind in KINDS}
    for menus in made.values():
        assert torch.allclose(menus.chance.sum(-1), torch.ones(200, 2), atol=1e-5)
    assert (made["sure"].chance.amax(-1) == 1).all()
    assert (made["coins"].supports.sum(-1) == 1).all()
    assert (made["lotteries"].num_supports == 1).all()
    assert (made["shared"].num_supports == 2).any()


def test_an_arm_learns_to_take_more_coins():
    values = {"agents": 2, "batch": 64, "width": 16, "lr": 0.01, "lam": 0.9, "episodes": 16}
    menus = random_menus("lotteries", 300, torch.Generator().manual_seed(3))
    before, after = (
        measures.neutrality_plus(menus, train("Neutrality+, lotteries", updates=updates, **values)(menus)).mean()
        for updates in (0, 60)
    )
    assert after > before + 0.02
