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
    "again": bits.redrawn(0.4),
    "first": bits.first_tick_only(),
    "at times": bits.hidden_at_random(0.3),
}


@pytest.fixture(scope="module")
def reachable():
    return Reachable(compile_levels(LEVELS))


def tables_for(showing, reachable):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(len(showing.symbols), len(reachable), 4, generator=rng, dtype=torch.float64).softmax(-1)


def every_path(showing, reachable, tables):
    """Every path of links: its probability, and the action probabilities of a mini-episode along it."""
    layers = tables.split([len(layer.spot) for layer in reachable.layers], 1)
    for path in product(range(len(showing.start)), repeat=len(layers)):
        chance = showing.start[path[0]]
        for before, after in pairwise(path):
            chance *= showing.onward[before][after]
        if chance > 0:
            yield chance, torch.cat([layer[showing.shows[link]] for layer, link in zip(layers, path, strict=True)])


@pytest.mark.parametrize("name", SHOWINGS)
def test_the_chain_and_sampled_paths_are_the_mean_over_all_paths(name, reachable):
    showing = SHOWINGS[name]
    tables = tables_for(showing, reachable)
    chances, policies = zip(*every_path(showing, reachable, tables), strict=True)
    assert sum(chances) == pytest.approx(1)
    for gamma in (1.0, 0.9):
        found = showing.arrivals(reachable, tables, gamma)
        each = [reachable.arrivals(policy, gamma) for policy in policies]
        for part in ("probability", "coins"):
            mean = sum(chance * getattr(arrivals, part) for chance, arrivals in zip(chances, each, strict=True))
            assert torch.allclose(getattr(found, part), mean)
    exact = sum(chance * neutrality(arrivals.probability) for chance, arrivals in zip(chances, each, strict=True))
    # A bit that stays has two paths, and nothing of it is sampled.
    paths, within = (50, 1e-12) if name == "always" else (4000, 0.01)
    sampled = showing.neutrality_given(reachable, tables, paths, torch.Generator().manual_seed(1))
    assert torch.allclose(sampled, exact, atol=within)


def test_bits_that_stay_are_drawn_at_once_or_are_shown_at_first_are_known_policies(reachable):
    tables = tables_for(bits.first_tick_only(), reachable)
    first_tick_only = len(reachable.layers[0].spot)
    begun = [torch.cat((table[:first_tick_only], tables[2, first_tick_only:])) for table in tables[:2]]
    for showing, policies in (
        (bits.always(), tables[:2]),
        (bits.redrawn(1.0), [tables[:2].mean(0)]),
        (bits.first_tick_only(), begun),
    ):
        found = showing.arrivals(reachable, tables[: len(showing.symbols)])
        expected = mixture([reachable.arrivals(policy) for policy in policies])
        assert torch.allclose(found.probability, expected.probability)
        assert torch.allclose(found.coins, expected.coins)


def test_gradients_flow_through_the_chain(reachable):
    logits = torch.randn(3, len(reachable), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def coins(logits):
        return SHOWINGS["first"].arrivals(reachable, logits.softmax(-1)).coins.sum()

    assert torch.autograd.gradcheck(coins, logits.requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("hidden", [0.0, 0.25, 0.9])
def test_a_bit_is_hidden_as_often_at_the_first_tick_as_later(hidden):
    showing = bits.hidden_at_random(hidden)
    chances = torch.tensor([showing.start, *showing.onward], dtype=torch.float64)
    shown = torch.tensor([showing.symbols[link] != bits.HIDDEN for link in showing.shows]).double()
    assert chances.sum(-1).tolist() == pytest.approx([1] * len(chances))
    assert (chances @ shown).tolist() == pytest.approx([1 - hidden] * len(chances))
