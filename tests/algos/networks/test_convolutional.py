"""The network that reads maps: turned maps give turned outputs, and to read each map once changes nothing."""

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.convolutional import sums_of
from drest_torch.algos.networks.policy import Critic, Policy, weights_unchanged
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import GridObservation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import parse_level, world
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions, rotated_cells, transform
from tests.helpers.networks import PLANES, group

SKEW = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2 . C3", name="skew")
LUCKY = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2@0.5 . C3", name="lucky")


def made(shape, *, private_bits=0, width=16, depth=2, context=1, scale=0.3, on_top=False):
    """A policy and a critic with weights far from where they begin."""
    torch.manual_seed(0)
    planes = PLANES + ("chance",) * (shape[0] - len(PLANES))
    shared = {"scale": torch.ones(()), "private_bits": private_bits, "symmetries": group(planes)}
    policy = Policy(shape, NUM_ACTIONS, NetworkSize(width, depth, "silu", "convolutional"), **shared)
    activation = "silu" if on_top else "tanh"
    like = {"policy": policy} if on_top else {}
    critic = Critic(shape, NetworkSize(width, depth, activation, "convolutional"), context=context, **shared, **like)
    for parameter in dict.fromkeys([*policy.parameters(), *critic.parameters()]):
        parameter.data += scale * torch.randn_like(parameter)
    return policy, critic


def seen(level):
    """Observations of all states of a level."""
    mdp = compile_levels([level])
    states = Reachable(mdp).states
    return GridObservation(mdp)(states.spot, states.taken, states.time_left)


def rotated(planes, turn):
    """Planes [n, P, H, W] turned around as `transform` does with a level."""
    mirrored = planes.flip(-1) if turn >= 4 else planes
    return mirrored.rot90(-(turn % 4), (-2, -1))


def test_planes_are_turned_like_levels():
    numbers = torch.arange(9.0).reshape(1, 1, 3, 3)
    for turn, cells in enumerate(rotated_cells(3)):
        assert rotated(numbers, turn).flatten().tolist() == cells.tolist()
    assert torch.equal(rotated(seen(SKEW)[:1, :4], 1), seen(transform(SKEW, 1))[:1, :4])


def test_a_layout_of_other_planes_is_refused():
    with pytest.raises(ValueError, match="observations of 6 planes, and a layout of 5"):
        Policy(
            (6, 3, 4),
            NUM_ACTIONS,
            NetworkSize(16, 2, "silu", "convolutional"),
            scale=torch.ones(()),
            symmetries=group(),
        )


@pytest.mark.parametrize("level", [SKEW, LUCKY], ids=lambda level: level.name)
@pytest.mark.parametrize("turn", range(NUM_SYMMETRIES))
def test_turned_maps_give_turned_outputs(level, turn):
    """Also where a quarter turn puts rows for columns."""
    here = seen(level)
    there, context = rotated(here, turn), torch.ones(len(here), 1)
    policy, critic = made(here.shape[1:])
    logits, value = policy(here), critic(here, None, context)
    assert torch.allclose(policy(there)[:, rotated_actions()[turn]], logits, atol=1e-4)
    assert torch.allclose(critic(there, None, context), value, atol=1e-4)
    assert (logits - logits.mean(-1, keepdim=True)).abs().max() > 0.1  # which actions are better it can say
    assert value.std() > 0.1


@pytest.mark.parametrize("private_bits", [0, 2])
def test_to_read_each_map_once_changes_nothing(private_bits):
    observation = seen(world("last_moment"))
    observation = torch.cat((observation, observation[::3].flip(0)))
    bits = torch.randint(0, 2, (len(observation), private_bits), generator=torch.Generator().manual_seed(0)).float()
    context = torch.ones(len(observation), 1)
    (policy, critic), slow = (made(observation.shape[1:], private_bits=private_bits) for _ in range(2))
    for network in slow:
        network.net.read.once = lambda maps, encoder=network.net.read: (encoder(maps), torch.arange(len(maps)))
    slow_policy, slow_critic = slow
    assert torch.allclose(policy(observation, bits), slow_policy(observation, bits), atol=1e-5)
    assert torch.allclose(critic(observation, bits, context), slow_critic(observation, bits, context), atol=1e-5)
    one_by_one = torch.cat([policy(*each) for each in zip(observation.split(1), bits.split(1), strict=True)])
    assert torch.allclose(policy(observation, bits), one_by_one, atol=1e-5)


def test_a_critic_on_top_of_the_policy_reads_its_encodings_and_leaves_them_as_they_are():
    observation, context = seen(world("last_moment")), torch.zeros(1)
    policy, critic = made(observation.shape[1:], on_top=True)
    before = critic(observation, None, context.expand(len(observation), 1))
    before.sum().backward()
    encoder = set(policy.net.read.parameters())
    assert encoder < set(critic.parameters())
    assert all((parameter.grad is None) == (parameter in encoder) for parameter in critic.parameters())
    with torch.no_grad():
        policy.net.read.first += 1
    assert not torch.allclose(critic(observation, None, context.expand(len(observation), 1)), before)


def test_each_map_is_encoded_once_while_the_weights_are_unchanged(monkeypatch):
    observation = seen(world("last_moment"))
    policy, critic = made(observation.shape[1:], context=0, on_top=True)
    expected, value = policy(observation).detach(), critic(observation).detach()
    encoded = []
    read = policy.net.read
    monkeypatch.setattr(type(read), "forward", _counted(type(read).forward, encoded))
    order = torch.randperm(len(observation), generator=torch.Generator().manual_seed(0))
    with weights_unchanged(policy, critic):
        with torch.no_grad():
            for part in order.split(7):
                assert torch.allclose(policy(observation[part]), expected[part], atol=1e-6)
        maps = len(sums_of(observation[:, policy.net.map]).unique())
        assert sum(encoded) == maps
        assert torch.allclose(critic(observation), value, atol=1e-6)
        assert sum(encoded) == maps
        policy(observation[:1]).sum().backward()
        assert sum(encoded) == maps + 1
        assert policy.net.read.first.grad.abs().sum() > 0
        with torch.no_grad():
            assert policy(observation[:0]).shape == (0, NUM_ACTIONS)
    with torch.no_grad():
        policy.net.read.first += 1
    assert not torch.allclose(policy(observation), expected, atol=1e-3)


def _counted(forward, counts):
    def counted(self, maps):
        counts.append(len(maps))
        return forward(self, maps)

    return counted


def test_every_weight_is_used():
    observation = seen(world("last_moment"))
    for network, further in zip(
        made(observation.shape[1:]), [(), (None, torch.ones(len(observation), 1))], strict=True
    ):
        network(observation, *further).square().sum().backward()
        for name, parameter in network.named_parameters():
            assert (parameter.grad != 0).any(), name


def test_a_state_sees_as_far_as_there_are_layers():
    """A coin too far away for the layers makes no difference, one within reach does."""
    near, far = (parse_level(f"shutdown: 9\nA . . . {a} . {b} C1", name="line") for a, b in (("C1", "."), (".", "C1")))
    bare = parse_level("shutdown: 9\nA . . . . . . C1", name="line")
    observations = [seen(level)[:1] for level in (near, far, bare)]
    policy, _ = made(observations[0].shape[1:], depth=3)
    close, distant, nothing = (policy(each) for each in observations)
    assert torch.equal(distant, nothing)
    assert not torch.allclose(close, nothing)
