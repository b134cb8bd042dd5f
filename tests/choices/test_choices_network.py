"""Tests of the menu network, its training menus and its training."""

import pytest
import torch

from drest_torch.choices import measures
from drest_torch.choices.generation import KINDS, random_menus
from drest_torch.choices.menus import Menu, Menus, Option
from drest_torch.choices.variants import FEATURES, MenuNetwork, train

every_network = pytest.mark.parametrize(("kind", "reads"), [(kind, reads) for kind in KINDS for reads in FEATURES])


def menus_of(kind):
    """Return random menus of three options."""
    return random_menus(kind, 51, torch.Generator().manual_seed(1), 3)


def flipped(menus, dim):
    """Return menus with the order of options (1) or outcomes (2) reversed."""
    return Menus(menus.chance.flip(dim), menus.length.flip(dim), menus.coins.flip(dim))


@every_network
def test_the_network_is_equivariant_to_the_order_of_options(kind, reads):
    menus, network = menus_of(kind), MenuNetwork(3, 16, reads=reads)
    policy = network(menus)
    assert torch.allclose(policy.sum(-1), torch.ones(3, 51))
    assert torch.allclose(network(flipped(menus, 1)).flip(-1), policy, atol=1e-5)


@every_network
def test_the_network_is_invariant_to_the_order_of_outcomes(kind, reads):
    menus, network = menus_of(kind), MenuNetwork(3, 16, reads=reads)
    assert torch.allclose(network(flipped(menus, 2)), network(menus), atol=1e-5)


@every_network
def test_each_agent_chooses_in_its_own_part_of_the_menus(kind, reads):
    menus, network = menus_of(kind), MenuNetwork(3, 16, reads=reads)
    policy = network(menus)
    parts = torch.stack([policy[agent, 17 * agent : 17 * agent + 17] for agent in range(3)])
    assert torch.allclose(network.choose(menus, 3), parts, atol=1e-6)


def test_by_length_the_mean_coins_of_a_length_are_sufficient():
    whole, split = ([("1/2", 1, 2), ("1/2", 2, 4)], [("1/4", 1, 1), ("1/4", 1, 3), ("1/2", 2, 4)])
    network, other = MenuNetwork(1, 16), Option.of((1, 1, 3))
    first, second = (network(Menus.of([Menu((Option.of(*outcomes), other))])) for outcomes in (whole, split))
    assert torch.allclose(first, second, atol=1e-6)


def test_generated_menus_are_of_their_kind():
    by_kind = {kind: random_menus(kind, 200, torch.Generator().manual_seed(2)) for kind in KINDS}
    for menus in by_kind.values():
        assert torch.allclose(menus.chance.sum(-1), torch.ones(200, 2), atol=1e-5)
    assert (by_kind["sure"].chance.amax(-1) == 1).all()
    assert (by_kind["coins"].supports.sum(-1) == 1).all()
    assert (by_kind["lotteries"].num_supports == 1).all()
    assert (by_kind["shared"].num_supports == 2).any()


def test_a_variant_learns_to_take_more_coins():
    values = {"agents": 2, "batch": 64, "width": 16, "lr": 0.01, "lam": 0.9, "episodes": 16}
    menus = random_menus("lotteries", 300, torch.Generator().manual_seed(3))
    before, after = (
        measures.neutrality_plus(menus, train("Neutrality+, lotteries", updates=updates, **values)(menus)).mean()
        for updates in (0, 60)
    )
    assert after > before + 0.02
