"""Tests of partially observed private bits, against the enumeration of all observations."""

from itertools import pairwise, product

import pytest
import torch

from drest_torch.choices import bits
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, mixture
from drest_torch.envs.levels import parse_level
from drest_torch.metrics import neutrality

LEVELS = [
    parse_level("shutdown: 2\n\nA B1 C2\nC1 . .", name="plain"),
    parse_level("shutdown: 3\n\nA B2@0.5 .\nC1 C3 .", name="luck"),
    parse_level("shutdown: 2\nlottery a: 1/3 C2 +0 | 2/3 C5 +1\n\nA La C1\n. C2 .", name="lottery"),
]
CHANNELS = {
    "always": bits.always(),
    "again": bits.redrawn(0.4),
    "first": bits.first_tick_only(),
    "at times": bits.hidden_at_random(0.3),
}


@pytest.fixture(scope="module")
def reachable():
    return Reachable(compile_levels(LEVELS))


def tables_for(channel, reachable):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(len(channel.symbols), len(reachable), 4, generator=rng, dtype=torch.float64).softmax(-1)


def every_path(channel, reachable, tables):
    """Yield the probability of each path of the chain, and the action probabilities along it."""
    layers = tables.split([len(layer.spot) for layer in reachable.layers], 1)
    for path in product(range(len(channel.start)), repeat=len(layers)):
        chance = channel.start[path[0]]
        for before, after in pairwise(path):
            chance *= channel.onward[before][after]
        if chance > 0:
            yield chance, torch.cat([layer[channel.shows[state]] for layer, state in zip(layers, path, strict=True)])


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_arrivals_are_the_mean_over_all_paths(name, gamma, reachable):
    channel = CHANNELS[name]
    tables = tables_for(channel, reachable)
    arrivals = channel.arrivals(reachable, tables, gamma)
    total = probability = coins = 0.0
    for chance, policy in every_path(channel, reachable, tables):
        along_path = reachable.arrivals(policy, gamma)
        total += chance
        probability += chance * along_path.probability
        coins += chance * along_path.coins
    assert total == pytest.approx(1)
    assert torch.allclose(arrivals.probability, probability)
    assert torch.allclose(arrivals.coins, coins)


@pytest.mark.parametrize("name", CHANNELS)
def test_sampled_neutrality_is_the_mean_over_all_paths(name, reachable):
    channel = CHANNELS[name]
    tables = tables_for(channel, reachable)
    exact = 0.0
    for chance, policy in every_path(channel, reachable, tables):
        exact += chance * neutrality(reachable.arrivals(policy).probability)
    # A constant bit has two paths, so nothing is sampled.
    paths, tolerance = (50, 1e-12) if name == "always" else (4000, 0.01)
    sampled = channel.neutrality_given(reachable, tables, paths, torch.Generator().manual_seed(1))
    assert torch.allclose(sampled, exact, atol=tolerance)


def check_mixture(channel, reachable, tables, policies):
    """Check that the channel's arrivals are those of a mixture of policies."""
    arrivals = channel.arrivals(reachable, tables)
    expected = mixture([reachable.arrivals(policy) for policy in policies])
    assert torch.allclose(arrivals.probability, expected.probability)
    assert torch.allclose(arrivals.coins, expected.coins)


def test_a_constant_bit_mixes_the_policies_of_its_settings(reachable):
    tables = tables_for(bits.always(), reachable)
    check_mixture(bits.always(), reachable, tables, tables)


def test_a_bit_that_is_always_redrawn_averages_the_policies(reachable):
    tables = tables_for(bits.redrawn(1.0), reachable)
    check_mixture(bits.redrawn(1.0), reachable, tables, [tables.mean(0)])


def test_a_bit_at_the_first_tick_decides_the_first_action(reachable):
    tables = tables_for(bits.first_tick_only(), reachable)
    first = len(reachable.layers[0].spot)
    policies = [torch.cat((table[:first], tables[2, first:])) for table in tables[:2]]
    check_mixture(bits.first_tick_only(), reachable, tables, policies)


def test_gradients_flow_through_the_chain(reachable):
    logits = torch.randn(3, len(reachable), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def coins(logits):
        return CHANNELS["first"].arrivals(reachable, logits.softmax(-1)).coins.sum()

    assert torch.autograd.gradcheck(coins, logits.requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("hidden", [0.0, 0.25, 0.9])
def test_a_bit_is_hidden_as_often_at_the_first_tick_as_later(hidden):
    channel = bits.hidden_at_random(hidden)
    chances = torch.tensor([channel.start, *channel.onward], dtype=torch.float64)
    visible = torch.tensor([channel.symbols[symbol] != bits.HIDDEN for symbol in channel.shows]).double()
    assert chances.sum(-1).tolist() == pytest.approx([1] * len(chances))
    assert (chances @ visible).tolist() == pytest.approx([1 - hidden] * len(chances))
