"""Norms and dropout of hidden layers: their formulas, equivariance, and the gradients of sub-networks."""

import pytest
import torch
from torch import nn

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.algos.networks.regularization import NORMS, UnitDropout, sub_network
from drest_torch.config.compose import compose
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions
from drest_torch.training.run import start
from tests.algos.networks.test_networks import SKEW, SQUARE, observations_of, perturbed_networks, rotated
from tests.helpers.runs import FEW, arguments

NETWORKS = ["mlp", "symmetric", "convolutional", "planning"]


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_equals_its_formula(norm):
    torch.manual_seed(0)
    layer, values = NORMS[norm](3, 4), torch.randn(5, 12)
    layer.weight.data = torch.randn(3)
    centred = values
    bias = torch.zeros(3)
    if norm == "layer":
        layer.bias.data = bias = torch.randn(3)
        centred = values - values.mean(-1, keepdim=True)
    normalised = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    expected = normalised * layer.weight.repeat(4) + bias.repeat(4)
    torch.testing.assert_close(layer(values), expected)


@pytest.mark.parametrize("norm", NORMS)
def test_hidden_layers_are_normalised_before_their_activation(norm):
    policy = Policy((6,), 4, NetworkSize(8, 2, "tanh", norm=norm), scale=torch.ones(6))
    first, second = [part for part in policy.modules() if isinstance(part, NORMS[norm])]
    kinds = [type(part) for part in policy.net.body]
    layer = [nn.Linear, NORMS[norm], nn.Tanh]
    assert kinds == [*layer, *layer, nn.Linear]
    assert policy.net.body[1] is first
    assert policy.net.body[4] is second


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("network", "level"), [("symmetric", SQUARE), ("convolutional", SKEW)])
def test_normalised_networks_are_equivariant(network, level, norm):
    observe, upright = observations_of(level)
    policy, critic = perturbed_networks(network, observe, width=48, norm=norm)
    assert any(isinstance(part, NORMS[norm]) for part in policy.modules())
    logits, value = policy(upright), critic(upright, None, torch.ones(len(upright), 1))
    for turn in range(NUM_SYMMETRIES):
        turned = rotated(upright, turn)
        assert torch.allclose(policy(turned)[:, rotated_actions()[turn]], logits, atol=1e-4)
        assert torch.allclose(critic(turned, None, torch.ones(len(upright), 1)), value, atol=1e-4)
    assert (logits - logits.mean(-1, keepdim=True)).abs().max() > 0.1


def masks(policy):
    return [part.mask for part in policy.modules() if isinstance(part, UnitDropout)]


def test_dropout_preserves_means():
    layer, rng = UnitDropout(0.3, 50, blocks=2), torch.Generator().manual_seed(0)
    outputs = []
    for _ in range(400):
        with sub_network(layer, rng):
            outputs.append(layer(torch.ones(1, 100, 2)))
    values = torch.stack(outputs)
    assert values.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert values.mean().item() == pytest.approx(1, abs=4 * (0.3 / 0.7 / 20_000) ** 0.5)
    assert torch.equal(values[:, :, :50], values[:, :, 50:])  # blocks share dropped units
    assert torch.equal(layer(torch.ones(1, 100)), torch.ones(1, 100))


@pytest.mark.parametrize("network", NETWORKS)
def test_units_are_dropped_only_within_the_context(network):
    observe, observations = observations_of(SQUARE)
    whole, _ = perturbed_networks(network, observe)
    policy, _ = perturbed_networks(network, observe, dropout=0.5)
    assert torch.equal(policy(observations), whole(observations))
    global_state = torch.get_rng_state()
    with sub_network(policy, torch.Generator().manual_seed(0)):
        sub, first_masks = policy(observations), masks(policy)
        parts = torch.cat([policy(part) for part in observations.split(3)])
        torch.testing.assert_close(parts, sub)  # all rows have the same mask
    assert not torch.allclose(sub, whole(observations), atol=1e-2)
    assert torch.equal(policy(observations), whole(observations))
    assert masks(policy) == [None] * len(first_masks)
    with sub_network(policy, torch.Generator().manual_seed(0)):
        assert torch.equal(policy(observations), sub)  # the same seed drops the same units
    with sub_network(policy, torch.Generator().manual_seed(1)):
        assert not torch.equal(policy(observations), sub)
    assert torch.equal(torch.get_rng_state(), global_state)


@pytest.mark.parametrize(("network", "level"), [("symmetric", SQUARE), ("convolutional", SKEW), ("planning", SKEW)])
def test_sub_networks_are_equivariant(network, level):
    observe, upright = observations_of(level)
    policy, _ = perturbed_networks(network, observe, width=48, dropout=0.4)
    with sub_network(policy, torch.Generator().manual_seed(0)):
        logits = policy(upright)
        for turn in range(NUM_SYMMETRIES):
            turned = policy(rotated(upright, turn))
            assert torch.allclose(turned[:, rotated_actions()[turn]], logits, atol=1e-4)


def test_critics_use_all_units():
    observe, _ = observations_of(SQUARE)
    _, critic = perturbed_networks("mlp", observe, dropout=0.5)
    assert masks(critic) == []


@pytest.mark.parametrize("network", ["policy=mlp", "policy=convolutional"])
def test_an_exact_update_follows_the_gradient_of_a_sub_network(network, tmp_path):
    """The two passes of an update, over parts of the states, have the same units."""
    rates = ("algo.ignored_gradient_share=0", "algo.max_grad_norm=1e9", "algo.entropy=0", "policy.dropout=0.3")
    run = start(compose(*arguments(tmp_path / "run", "algo=exact", network, "policy.observation=grid", *rates)))
    algorithm, policy = run.algorithm, run.algorithm.policy
    batch, state = algorithm.batches.sample(run.reward), run.rng.get_state()
    algorithm.optimizers = {}  # gradients stay, and weights do not change
    algorithm.update(run.reward)
    gradients = [weight.grad.clone() for weight in policy.parameters()]
    run.rng.set_state(state)
    with sub_network(policy, run.rng):
        probabilities = policy(batch.observe(torch.arange(batch.states))).softmax(-1)
        objective = algorithm.objective(batch, probabilities.unsqueeze(0)).mean()
        expected = torch.autograd.grad(-objective, list(policy.parameters()))
    scale = max(gradient.abs().max() for gradient in expected).item()
    for gradient, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4 * scale)


def test_ppo_plays_with_the_sub_network_that_it_trains(tmp_path):
    """Ratios are 1 in the first step of an update."""
    words = ("algo=ppo", *FEW, "policy=mlp", "policy.dropout=0.5", "algo.epochs=1", "algo.minibatches=1")
    run = start(compose(*arguments(tmp_path / "run", *words)))
    for weight in run.algorithm.policy.parameters():  # far from uniform
        weight.data += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    played = []
    learn = run.algorithm.learn
    run.algorithm.learn = lambda steps: played.append(steps["action_log_prob"].clone()) or learn(steps)
    metrics = run.update()
    assert metrics["policy/kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["policy/clip_fraction"] == 0
    assert played[0].std() > 0.1


def test_evaluation_uses_all_units(tmp_path):
    watched = []
    for dropout in (0.0, 0.5):
        words = ("algo=ppo", *FEW, "policy=mlp", f"policy.dropout={dropout}")
        run = start(compose(*arguments(tmp_path / str(dropout), *words)))
        watched.append(run.task.watch(run.algorithm.policy))
    assert watched[0] == watched[1]
