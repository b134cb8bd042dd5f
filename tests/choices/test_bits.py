"""A bit that is not shown all the time, against the enumeration of everything that can be shown."""

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
SHOWINGS = {
    "always": bits.always(),
    "again": bits.drawn_again(0.4),
    "first": bits.at_first(),
    "at times": bits.hidden_at_times(0.3),
}


@pytest.fixture(scope="module")
def reachable():
    return Reachable(compile_levels(LEVELS))


def tables_for(showing, reachable, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(len(showing.symbols), len(reachable), 4, generator=rng, dtype=torch.float64).softmax(-1)


def along(showing, reachable, tables, path):
    """The action probabilities of a mini-episode in which these links follow each other."""
    layers = tables.split([len(layer.spot) for layer in reachable.layers], 1)
    return torch.cat([layer[showing.shows[link]] for layer, link in zip(layers, path, strict=True)])


def every_path(showing, reachable):
    """Every path of links with its probability."""
    ticks = len(reachable.layers)
    for path in product(range(len(showing.start)), repeat=ticks):
        chance = showing.start[path[0]]
        for before, after in pairwise(path):
            chance *= showing.onward[before][after]
        if chance > 0:
            yield chance, path


@pytest.mark.parametrize("name", SHOWINGS)
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_chain_is_the_mean_over_all_paths(name, gamma, reachable):
    showing = SHOWINGS[name]
    tables = tables_for(showing, reachable)
    found = showing.comes_to(reachable, tables, gamma)
    paths = list(every_path(showing, reachable))
    assert sum(chance for chance, _ in paths) == pytest.approx(1)
    each = [(chance, reachable.arrivals(along(showing, reachable, tables, path), gamma)) for chance, path in paths]
    assert torch.allclose(found.probability, sum(chance * arrivals.probability for chance, arrivals in each))
    assert torch.allclose(found.coins, sum(chance * arrivals.coins for chance, arrivals in each))


def test_bits_that_stay_are_drawn_at_once_or_are_shown_at_first_are_known_policies(reachable):
    tables = tables_for(bits.at_first(), reachable)
    at_first = len(reachable.layers[0].spot)
    begun = [torch.cat((table[:at_first], tables[2, at_first:])) for table in tables[:2]]
    for showing, policies in (
        (bits.always(), tables[:2]),
        (bits.drawn_again(1.0), [tables[:2].mean(0)]),
        (bits.at_first(), begun),
    ):
        found = showing.comes_to(reachable, tables[: len(showing.symbols)])
        expected = mixture([reachable.arrivals(policy) for policy in policies])
        assert torch.allclose(found.probability, expected.probability)
        assert torch.allclose(found.coins, expected.coins)


@pytest.mark.parametrize(("name", "paths", "within"), [("again", 4000, 0.01), ("always", 50, 1e-12)])
def test_the_sampled_paths_come_to_the_mean_over_all(name, paths, within, reachable):
    """A bit that stays has two paths, and nothing of it is sampled."""
    showing = SHOWINGS[name]
    tables = tables_for(showing, reachable)
    exact = sum(
        chance * neutrality(reachable.arrivals(along(showing, reachable, tables, path)).probability)
        for chance, path in every_path(showing, reachable)
    )
    found = showing.neutrality_given(reachable, tables, paths, torch.Generator().manual_seed(1))
    assert torch.allclose(found, exact, atol=within)


def test_gradients_flow_through_the_chain(reachable):
    logits = torch.randn(3, len(reachable), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def coins(logits):
        return SHOWINGS["first"].comes_to(reachable, logits.softmax(-1)).coins.sum()

    assert torch.autograd.gradcheck(coins, logits.requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("hidden", [0.0, 0.25, 0.9])
def test_a_bit_is_hidden_as_often_at_the_first_tick_as_later(hidden):
    showing = bits.hidden_at_times(hidden)
    shown = [showing.symbols[each] != bits.HIDDEN for each in showing.shows]
    chances = [showing.start, *showing.onward]
    assert all(sum(row) == pytest.approx(1) for row in chances)
    of_shown = [sum(chance for chance, seen in zip(row, shown, strict=True) if seen) for row in chances]
    assert of_shown == pytest.approx([1 - hidden] * len(chances))
