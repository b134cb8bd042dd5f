"""Muon on whole layers: the update of a layer that symmetries repeat, against the matrix of the whole layer."""

from types import SimpleNamespace

import pytest
import torch

from drest_torch.algos.base import optimizers_of
from drest_torch.algos.muon import LayerMuon, orthogonalised
from drest_torch.algos.networks.base import repeated_weights
from tests.algos.networks.test_networks import READ_MAPS, SQUARE, observations_of, perturbed_networks
from tests.helpers.settings import SETTINGS

NETWORKS = ["symmetric", *READ_MAPS]


def policy_of(network):
    policy, _ = perturbed_networks(network, observations_of(SQUARE)[0], width=24)
    return policy


def updates_of(network):
    """Yield the repeated weights of a network, layer with a random update."""
    rng = torch.Generator().manual_seed(2)
    for layer in repeated_weights(policy_of(network)):
        yield layer, torch.randn(layer.weight.shape, generator=rng)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_whole_layer_begins_with_the_trained_block(network):
    for layer, update in updates_of(network):
        whole = layer.whole(update)
        assert len(whole) == 8 * len(update)
        assert torch.equal(whole[: len(update)], update)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_update_is_that_of_the_whole_matrix(network):
    """The same iteration, on the whole matrix and without its symmetry."""
    for layer, update in updates_of(network):
        full = layer.whole(update).double()
        rows, columns = full.shape
        full /= full.norm()
        for _ in range(5):
            gram = full @ full.T
            full = 3.4445 * full + (-4.7750 * gram + 2.0315 * gram @ gram) @ full
        expected = full * max(1, rows / columns) ** 0.5
        symmetric = layer.whole(orthogonalised(update, layer)).double()
        torch.testing.assert_close(symmetric, expected, rtol=0, atol=1e-4)  # float32, over five iterations


@pytest.mark.parametrize("network", NETWORKS)
def test_a_layer_learns_all_directions_at_one_pace(network):
    for layer, update in updates_of(network):
        rows, columns = layer.whole(update).shape
        stretched = torch.linalg.svdvals(layer.whole(orthogonalised(update, layer))) / max(1, rows / columns) ** 0.5
        rank = torch.linalg.matrix_rank(layer.whole(update))
        assert stretched.max() < 1.3
        assert stretched[: int(0.8 * rank)].min() > 0.5


def test_repeated_weights_have_an_optimiser_of_their_own():
    policy = policy_of("convolutional")
    optimizers = optimizers_of(policy, SimpleNamespace(**vars(SETTINGS) | {"muon_lr": 0.1}))
    layers = {id(weight) for weight in optimizers["layer_muon"].param_groups[0]["params"]}
    assert layers == {id(layer.weight) for layer in repeated_weights(policy)}
    assert "muon" not in optimizers
    by_adam = {id(weight) for group in optimizers["adam"].param_groups for weight in group["params"]}
    assert by_adam | layers == {id(weight) for weight in policy.parameters()}
    assert not by_adam & layers


def test_blocks_alone_are_trained_as_before():
    policy = policy_of("convolutional")
    optimizers = optimizers_of(policy, SimpleNamespace(**vars(SETTINGS) | {"muon_lr": 0.1, "muon_matrix": "block"}))
    wide = [weight for weight in policy.parameters() if weight.ndim == 2 and min(weight.shape) >= 8]
    assert [id(weight) for weight in optimizers["muon"].param_groups[0]["params"]] == [id(weight) for weight in wide]
    assert "layer_muon" not in optimizers


def test_a_step_equals_its_formula():
    (layer, *_), decay, rate = list(repeated_weights(policy_of("symmetric"))), 0.25, 0.1
    optimizer = LayerMuon([layer], rate, decay)
    expected, momentum, rng = (
        layer.weight.detach().clone(),
        torch.zeros_like(layer.weight),
        torch.Generator().manual_seed(3),
    )
    for _ in range(3):
        gradient = torch.randn(layer.weight.shape, generator=rng)
        momentum = 0.95 * momentum + 0.05 * gradient
        expected = expected * (1 - rate * decay) - rate * orthogonalised(0.95 * momentum + 0.05 * gradient, layer)
        layer.weight.grad = gradient
        optimizer.step()
        torch.testing.assert_close(layer.weight.detach(), expected.detach(), rtol=0, atol=1e-5)
