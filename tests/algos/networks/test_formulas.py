"""Networks against the formulas of their page in plain torch, and their initial weights."""

import pytest
import torch
from torch import nn

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy, number_of, private_settings, settings_of

SHAPE, SCALE = (2, 3), torch.tensor([[0.5], [2.0]])
ROWS, BITS, CONTEXT = 5, 2, 3
ACTIVATIONS = {
    "relu": lambda x: x.clamp_min(0),
    "tanh": torch.tanh,
    "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: x * torch.distributions.Normal(0.0, 1.0).cdf(x),
}


def perturbed_networks(network, activation="tanh", depth=2, changed=0.5):
    """Return a policy and a critic with weights far from the initial ones, and their inputs."""
    torch.manual_seed(0)
    size, seen = NetworkSize(8, depth, activation, network), {"scale": SCALE, "private_bits": BITS}
    policy = Policy(SHAPE, 4, size, offset=torch.tensor([0.0, 1.0, -2.0, 0.5]), **seen)
    critic = Critic(SHAPE, size, context=CONTEXT, **seen)
    for parameter in (*policy.parameters(), *critic.parameters()):
        parameter.data += changed * torch.randn_like(parameter)
    bits = torch.randint(2, (ROWS, BITS)).float()
    return policy, critic, torch.randn(ROWS, *SHAPE), bits, torch.randn(ROWS, CONTEXT)


def inputs(observation, bits, context=None):
    """Return the scaled observation, the bits as −4 and 4, and the context: one row of numbers."""
    parts = [(observation * SCALE).flatten(1), 8 * bits - 4, *([] if context is None else [context])]
    return torch.cat(parts, -1)


def mlp(body, rows, act):
    *hidden, last = [layer for layer in body if isinstance(layer, nn.Linear)]
    for layer in hidden:
        rows = act(rows @ layer.weight.T + layer.bias)
    return rows @ last.weight.T + last.bias


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_mlp_equals_its_formula(activation):
    policy, critic, observation, bits, context = perturbed_networks("mlp", activation)
    act = ACTIVATIONS[activation]
    expected = mlp(policy.net.body, inputs(observation, bits), act) + policy.offset
    torch.testing.assert_close(policy(observation, bits), expected, rtol=1e-4, atol=1e-4)
    value = mlp(critic.net.body, inputs(observation, bits, context), act).squeeze(-1)
    torch.testing.assert_close(critic(observation, bits, context), value, rtol=1e-4, atol=1e-4)
    index = torch.tensor([3, 0, 3, 1, 4, 4])
    contexts = context[[0, 1, 2, 3, 4, 0]]
    value = mlp(critic.net.body, inputs(observation[index], bits[index], contexts), act).squeeze(-1)
    torch.testing.assert_close(critic(observation, bits, contexts, index), value, rtol=1e-4, atol=1e-4)


def test_a_recurrent_network_equals_its_formula():
    policy, critic, observation, bits, _ = perturbed_networks("recurrent")
    cell = policy.net.gru.gru
    read = policy(observation, bits)
    first, second = (layer for layer in policy.net.body if isinstance(layer, nn.Linear))
    rows = torch.tanh(inputs(observation, bits) @ first.weight.T + first.bias)
    torch.testing.assert_close(read, torch.tanh(rows @ second.weight.T + second.bias), rtol=1e-4, atol=1e-4)
    memory = torch.randn(ROWS, 8)
    gates = nn.functional.linear(read, cell.weight_ih_l0, cell.bias_ih_l0).chunk(3, -1)
    recurrent = nn.functional.linear(memory, cell.weight_hh_l0, cell.bias_hh_l0).chunk(3, -1)
    reset, update = (torch.sigmoid(new + other) for new, other in zip(gates[:2], recurrent[:2], strict=True))
    after = (1 - update) * torch.tanh(gates[2] + reset * recurrent[2]) + update * memory
    outputs, remembered = policy.recall(read, torch.zeros(ROWS, 1, dtype=torch.bool), memory.unsqueeze(1))
    torch.testing.assert_close(remembered.squeeze(1), after, rtol=1e-4, atol=1e-4)
    expected = after @ policy.net.head.weight.T + policy.net.head.bias + policy.offset
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4)
    begins = torch.tensor([True, False, False, True, False]).unsqueeze(-1)
    outputs, _ = policy.recall(read, begins)
    expected, carried = [], torch.zeros(1, 1, 8)
    for row, new in zip(read.split(1), begins.flatten().tolist(), strict=True):
        carried = torch.zeros_like(carried) if new else carried
        output, carried = policy.recall(row, torch.zeros(1, 1, dtype=torch.bool), carried)
        expected.append(output)
    torch.testing.assert_close(outputs, torch.cat(expected), rtol=1e-4, atol=1e-4)
    assert policy.memory == critic.memory == 8


def square(weight):
    """Return the Gram matrix of the rows, or of the columns if there are fewer."""
    return weight @ weight.T if weight.shape[0] <= weight.shape[1] else weight.T @ weight


@pytest.mark.parametrize("network", ["mlp", "recurrent"])
def test_initial_weights_are_orthogonal_with_their_gains(network):
    policy, critic, *_ = perturbed_networks(network, depth=4, changed=0.0)
    for whole, gain in ((policy, 0.01), (critic, 1.0)):
        layers = [layer for layer in whole.modules() if isinstance(layer, nn.Linear)]
        gains = [2**0.5] * (len(layers) - 1) + [gain]
        for layer, expected_gain in zip(layers, gains, strict=True):
            side = min(layer.weight.shape)
            assert torch.allclose(square(layer.weight), expected_gain**2 * torch.eye(side), atol=1e-4)
            assert not layer.bias.any()


def test_settings_of_private_bits_are_numbered():
    assert private_settings(0).shape == (1, 0)
    assert private_settings(3).tolist() == [[n & 1, n >> 1 & 1, n >> 2] for n in range(8)]
    assert number_of(private_settings(3)).tolist() == list(range(8))
    assert settings_of(torch.tensor([6, 1]), 3).tolist() == [[0, 1, 1], [1, 0, 0]]
