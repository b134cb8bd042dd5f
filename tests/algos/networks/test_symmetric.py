"""The network with symmetries built in: on a level turned around it does the same, turned around."""

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize, Symmetries
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.envs.dynamics.mdp import ACTIONS, NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import parse_level, world
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions

LEVEL = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2 . .\n. . . C3", name="skew")
SEEN = ["centred", "grid"]


def prepared(seen):
    return make_observation(seen, compile_levels([LEVEL]))


def test_actions_turn_with_the_map():
    by_name = [dict(zip(ACTIONS, (ACTIONS[i] for i in row), strict=True)) for row in rotated_actions().tolist()]
    assert by_name[0] == {name: name for name in ACTIONS}
    assert by_name[1] == {"up": "right", "right": "down", "down": "left", "left": "up"}
    assert by_name[4] == {"up": "up", "down": "down", "left": "right", "right": "left"}
    assert len({tuple(row) for row in rotated_actions().tolist()}) == NUM_SYMMETRIES


def symmetric(observe, **kwargs):
    return Symmetries(observe.rotated, rotated_actions()), {"scale": observe.scale, **kwargs}


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("private_bits", [0, 2])
@pytest.mark.parametrize("seen", SEEN)
def test_turned_inputs_give_turned_outputs(seen, private_bits, depth):
    torch.manual_seed(0)
    observe = prepared(seen)
    group, kwargs = symmetric(observe, private_bits=private_bits)
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(48, depth, "silu", "symmetric"), symmetries=group, **kwargs)
    critic = Critic(observe.shape, NetworkSize(48, depth, "tanh", "symmetric"), context=1, symmetries=group, **kwargs)
    for parameter in [*policy.parameters(), *critic.parameters()]:
        parameter.data += 0.3 * torch.randn_like(parameter)
    inputs = torch.randn(20, observe.rotated.shape[1])
    bits, context = torch.rand(20, private_bits) if private_bits else None, torch.randn(20, 1)
    logits, value = policy(inputs, bits), critic(inputs, bits, context)
    for turned, action in zip(group.inputs, group.outputs, strict=True):
        assert torch.allclose(policy(inputs[:, turned], bits)[:, action], logits, atol=1e-4)
        assert torch.allclose(critic(inputs[:, turned], bits, context), value, atol=1e-4)
    assert (logits - logits.mean(-1, keepdim=True)).abs().max() > 0.1  # which actions are better it can say
    assert value.std() > 0.1


def test_a_width_that_does_not_fit_is_refused_with_the_numbers():
    observe = prepared("centred")
    group, kwargs = symmetric(observe)
    with pytest.raises(ValueError, match="width 20; expected at least one hidden layer of a multiple of 8"):
        Policy(observe.shape, NUM_ACTIONS, NetworkSize(20, 2, "silu", "symmetric"), symmetries=group, **kwargs)


def test_maps_that_are_not_square_do_not_say_how_they_turn():
    level = parse_level("shutdown: 2\nA C1 .", name="flat")
    assert make_observation("centred", compile_levels([level])).rotated is None
    assert make_observation("centred", compile_levels([level], at_least=(3, 3))).rotated is not None
    assert make_observation("vector", compile_levels([world("example")])).rotated is None


@pytest.mark.parametrize(("network", "symmetries"), [("symmetric", None), ("mlp", "given")])
def test_a_network_is_built_with_the_symmetries_that_it_requires_and_no_others(network, symmetries):
    observe = prepared("centred")
    group, kwargs = symmetric(observe)
    with pytest.raises(ValueError, match=f"the network '{network}' is built with symmetries of"):
        Policy(
            observe.shape, NUM_ACTIONS, NetworkSize(16, 2, "silu", network), symmetries=symmetries and group, **kwargs
        )
