"""Networks: all begin near uniform and learn with every weight, some turn with the map, each does what it is for."""

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize, Symmetries
from drest_torch.algos.networks.convolutional import sums_of
from drest_torch.algos.networks.policy import Critic, Policy, weights_unchanged
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import parse_level, world
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions
from tests.helpers.networks import group

SQUARE = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2 . .\n. . . C3", name="square")
SKEW = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2 . C3", name="skew")
LUCKY = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2@0.5 . C3", name="lucky")


def seen(level, observation="grid"):
    """How a level is seen, and the observations of all its states."""
    mdp = compile_levels([level])
    observe, states = make_observation(observation, mdp), Reachable(mdp).states
    return observe, observe(states.spot, states.taken, states.time_left)


def symmetries_of(network, observe):
    if network == "convolutional":
        return group(observe.planes)
    return Symmetries(observe.rotated, rotated_actions()) if network == "symmetric" else None


def made(network, observe, *, private_bits=0, width=16, depth=2, context=1, changed=0.3, on_top=False):
    """A policy and a critic, with weights far from where they begin."""
    torch.manual_seed(0)
    shared = {"private_bits": private_bits, "symmetries": symmetries_of(network, observe)}
    policy = Policy(
        observe.shape, NUM_ACTIONS, NetworkSize(width, depth, "silu", network), scale=observe.scale, **shared
    )
    size = NetworkSize(width, depth, "silu" if on_top else "tanh", network)
    like = {"policy": policy} if on_top else {}
    critic = Critic(observe.shape, size, scale=observe.scale, context=context, **shared, **like)
    for parameter in dict.fromkeys([*policy.parameters(), *critic.parameters()]):
        parameter.data += changed * torch.randn_like(parameter)
    return policy, critic


def bits_of(rows, private_bits):
    return torch.randint(0, 2, (rows, private_bits), generator=torch.Generator().manual_seed(0)).float()


# ------------------------------------------------------------------------------------ symmetries


def rotated(planes, turn):
    """Planes [n, P, H, W] turned around as `transform` does with a level."""
    mirrored = planes.flip(-1) if turn >= 4 else planes
    return mirrored.rot90(-(turn % 4), (-2, -1))


@pytest.mark.parametrize("private_bits", [0, 2])
@pytest.mark.parametrize(
    ("network", "level", "observation", "depth"),
    [
        ("symmetric", SQUARE, "centred", 1),
        ("symmetric", SQUARE, "grid", 3),
        ("convolutional", SKEW, "grid", 2),
        ("convolutional", LUCKY, "grid", 2),
    ],
)
def test_turned_maps_give_turned_outputs(network, level, observation, depth, private_bits):
    """Also where a quarter turn puts rows for columns."""
    observe, here = seen(level, observation)
    bits, context = bits_of(len(here), private_bits), torch.randn(len(here), 1)
    policy, critic = made(network, observe, private_bits=private_bits, width=48, depth=depth)
    logits, value = policy(here, bits), critic(here, bits, context)
    for turn in range(NUM_SYMMETRIES):
        there = rotated(here, turn) if here.ndim == 4 else here[:, observe.rotated[turn]]
        assert torch.allclose(policy(there, bits)[:, rotated_actions()[turn]], logits, atol=1e-4)
        assert torch.allclose(critic(there, bits, context), value, atol=1e-4)
    assert (logits - logits.mean(-1, keepdim=True)).abs().max() > 0.1  # which actions are better it can say
    assert value.std() > 0.1


# ------------------------------------------------------------------------------------ reading maps


def test_each_map_is_encoded_once_while_the_weights_are_unchanged(monkeypatch):
    observe, shown = seen(world("last_moment"))
    policy, critic = made("convolutional", observe, context=0, on_top=True)
    expected, value = policy(shown).detach(), critic(shown).detach()
    encoded, read = [], type(policy.net.read)
    forward = read.forward
    monkeypatch.setattr(read, "forward", lambda self, maps: encoded.append(len(maps)) or forward(self, maps))
    order = torch.randperm(len(shown), generator=torch.Generator().manual_seed(0))
    with weights_unchanged(policy, critic):
        with torch.no_grad():
            for part in order.split(7):
                assert torch.allclose(policy(shown[part]), expected[part], atol=1e-6)
        maps = len(sums_of(shown[:, policy.net.map]).unique())
        assert sum(encoded) == maps
        assert torch.allclose(critic(shown), value, atol=1e-6)
        assert sum(encoded) == maps
        policy(shown[:1]).sum().backward()
        assert sum(encoded) == maps + 1
        assert policy.net.read.first.grad.abs().sum() > 0
        with torch.no_grad():
            assert policy(shown[:0]).shape == (0, NUM_ACTIONS)
    with torch.no_grad():
        policy.net.read.first += 1
    assert not torch.allclose(policy(shown), expected, atol=1e-3)


# ------------------------------------------------------------------------------------ entries


def of_entries(network, entries):
    torch.manual_seed(0)
    numbers = sum(torch.Size(shape).numel() for shape in entries)
    return Policy((numbers,), 3, NetworkSize(8, 2, "tanh", network), scale=torch.ones(numbers), entries=entries)


@pytest.mark.parametrize("shape", [(9, 8, 2), (2, 9, 8)])
def test_an_image_is_read_where_it_lies(shape):
    net = of_entries("entries", [(3,), shape]).net.body
    numbers, picture = torch.randn(4, 3), torch.randn(4, *shape)
    features = net.images["1"].layers(picture.permute(0, 3, 1, 2) if shape[-1] == 2 else picture)
    expected = net.mlp(torch.cat((numbers, features), -1))
    torch.testing.assert_close(net(torch.cat((numbers, picture.flatten(1)), -1)), expected)
