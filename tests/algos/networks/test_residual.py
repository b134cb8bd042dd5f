"""The residual MLP: near uniform at first, every weight learned, and trained by the command to the optimum."""

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS

INPUTS = 10
ROWS = torch.randn(64, INPUTS, generator=torch.Generator().manual_seed(0))
BITS = (ROWS[:, :2] > 0).float()


def made(depth=2, *, private_bits=2):
    torch.manual_seed(0)
    size, scale = NetworkSize(32, depth, "silu", "residual"), torch.ones(())
    return Policy((INPUTS,), NUM_ACTIONS, size, scale=scale, private_bits=private_bits), Critic(
        (INPUTS,), size, scale=scale, context=3
    )


@pytest.mark.parametrize("depth", [1, 8])
def test_at_first_all_actions_are_about_equally_likely_however_deep(depth):
    policy, critic = made(depth)
    probability = policy(ROWS, BITS).softmax(-1)
    assert (probability - 1 / NUM_ACTIONS).abs().max() < 0.02
    assert 0.1 < critic(ROWS, None, torch.zeros(64, 3)).std() < 10


@pytest.mark.parametrize("depth", [1, 8])
def test_gradients_reach_every_weight_however_deep(depth):
    policy, critic = made(depth)
    loss = (policy(ROWS, BITS) * torch.tensor([1.0, -2.0, 3.0, 0.5])).sum() + critic(
        ROWS, None, torch.ones(64, 3)
    ).sum()
    loss.backward()
    for name, parameter in [*policy.named_parameters(), *critic.named_parameters()]:
        assert parameter.grad.abs().max() > 1e-4, name


def test_a_block_adds_to_what_it_is_given():
    """Without its last layer a block passes its input on, so that the whole is a network with a block less."""
    policy, _ = made(2)
    shallow, _ = made(1)
    first, one, two, *end = policy.net.body
    shallow.net.body = torch.nn.Sequential(first, one, *end)
    assert not torch.allclose(policy(ROWS, BITS), shallow(ROWS, BITS), atol=1e-6)
    for parameter in two.layers[-1].parameters():
        parameter.data.zero_()
    assert torch.equal(policy(ROWS, BITS), shallow(ROWS, BITS))
