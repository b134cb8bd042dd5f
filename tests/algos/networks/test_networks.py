"""Networks: initial outputs, gradients of all weights, equivariance, and encodings of maps and images."""

import pytest
import torch

from drest_torch.algos.networks.base import HEAD_DEPTH, NetworkSize, Symmetries
from drest_torch.algos.networks.convolutional import map_hashes
from drest_torch.algos.networks.policy import Critic, Policy, weights_unchanged
from drest_torch.envs.dynamics.mdp import ACTIONS, NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.levels import parse_level, world
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions, rotated_cells, transform
from tests.helpers.networks import group

SQUARE = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2 . .\n. . . C3", name="square")
SKEW = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2 . C3", name="skew")
READ_MAPS = ["convolutional", "planning"]
LUCKY = parse_level("shutdown: 3\n. C1 # .\nA . C2 .\n. B2@0.5 . C3", name="lucky")


def observations_of(level, observation="grid"):
    """Return the observation of a level, and the observations of all its states."""
    mdp = compile_levels([level])
    observe, states = make_observation(observation, mdp), Reachable(mdp).states
    return observe, observe(states.spot, states.taken, states.time_left)


def perturbed_networks(
    network, observe, *, private_bits=0, width=16, depth=2, context=1, changed=0.3, on_top=False, **hidden
):
    """Return a policy and a critic with weights far from the initial ones; ``hidden`` is their norm and dropout."""
    torch.manual_seed(0)
    shared = {"scale": observe.scale, "private_bits": private_bits}
    if network in READ_MAPS:
        shared["symmetries"] = group(observe.planes)
    elif network == "symmetric":
        shared["symmetries"] = Symmetries(observe.rotated, rotated_actions())
    policy = Policy(observe.shape, NUM_ACTIONS, NetworkSize(width, depth, "silu", network, **hidden), **shared)
    size = NetworkSize(width, depth, "silu" if on_top else "tanh", network, hidden.get("norm"))
    critic = Critic(observe.shape, size, context=context, policy=policy if on_top else None, **shared)
    for parameter in dict.fromkeys([*policy.parameters(), *critic.parameters()]):
        parameter.data += changed * torch.randn_like(parameter)
    return policy, critic


def bits_of(rows, private_bits):
    return torch.randint(0, 2, (rows, private_bits), generator=torch.Generator().manual_seed(0)).float()


@pytest.mark.parametrize("network", ["mlp", "symmetric", *READ_MAPS])
def test_an_untrained_network_is_nearly_uniform(network):
    observe, observations = observations_of(SQUARE)
    bits = bits_of(len(observations), 2)
    context = torch.randn(len(observations), 1, generator=torch.Generator().manual_seed(1))
    policy, critic = perturbed_networks(network, observe, private_bits=2, changed=0.0)
    assert (policy(observations, bits).softmax(-1) - 1 / NUM_ACTIONS).abs().max() < 0.03
    assert 0.01 < critic(observations, bits, context).std() < 10


@pytest.mark.parametrize("network", READ_MAPS)
def test_the_head_has_its_own_size(network):
    observe, observations = observations_of(SQUARE)
    sizes = {"head_width": 24, "head_depth": 3}
    policy, critic = perturbed_networks(network, observe, changed=0.0, **sizes)
    *hidden, last = policy.net.ask.built()
    assert [len(bias) for _, bias in hidden] == [24] * 3
    assert len(last[1]) == NUM_ACTIONS
    assert len(critic.net.ask.hidden) == HEAD_DEPTH - 1
    turned = [transform(SQUARE, turn) for turn in range(NUM_SYMMETRIES)]
    logits = policy(observations, bits_of(len(observations), 0))
    assert all(
        policy(observations_of(level)[1][:1], bits_of(1, 0)).sort().values.allclose(logits[:1].sort().values, atol=1e-5)
        for level in turned
    )


@pytest.mark.parametrize("network", ["mlp", "symmetric", *READ_MAPS])
def test_every_weight_of_a_network_has_a_gradient(network):
    observe, observations = observations_of(SQUARE)
    bits = bits_of(len(observations), 2)
    context = torch.randn(len(observations), 1, generator=torch.Generator().manual_seed(1))
    policy, critic = perturbed_networks(network, observe, private_bits=2, changed=0.1)
    loss = (policy(observations, bits) * torch.tensor([1.0, -2.0, 3.0, 0.5])).square().sum()
    (loss + critic(observations, bits, context).square().sum()).backward()
    for name, parameter in [*policy.named_parameters(), *critic.named_parameters()]:
        assert parameter.grad.abs().max() > 1e-4, name


def rotated(planes, turn):
    """Return planes [n, P, H, W] after the rotation or reflection that `transform` applies to a level."""
    mirrored = planes.flip(-1) if turn >= 4 else planes
    return mirrored.rot90(-(turn % 4), (-2, -1))


def test_planes_turn_like_levels():
    numbers = torch.arange(9.0).reshape(1, 1, 3, 3)
    for turn, cells in enumerate(rotated_cells(3)):
        assert rotated(numbers, turn).flatten().tolist() == cells.tolist()
    assert torch.equal(rotated(observations_of(SKEW)[1][:1, :4], 1), observations_of(transform(SKEW, 1))[1][:1, :4])


def test_actions_turn_like_levels():
    by_name = [dict(zip(ACTIONS, (ACTIONS[i] for i in row), strict=True)) for row in rotated_actions().tolist()]
    assert by_name[0] == {name: name for name in ACTIONS}
    assert by_name[1] == {"up": "right", "right": "down", "down": "left", "left": "up"}
    assert by_name[4] == {"up": "up", "down": "down", "left": "right", "right": "left"}
    assert len({tuple(row) for row in rotated_actions().tolist()}) == NUM_SYMMETRIES


@pytest.mark.parametrize("private_bits", [0, 2])
@pytest.mark.parametrize(
    ("network", "level", "observation", "depth"),
    [
        ("symmetric", SQUARE, "centred", 1),
        ("symmetric", SQUARE, "grid", 3),
        ("convolutional", SKEW, "grid", 2),
        ("convolutional", LUCKY, "grid", 2),
        ("planning", LUCKY, "grid", 1),
    ],
)
def test_turned_maps_give_turned_outputs(network, level, observation, depth, private_bits):
    """Maps that are not square are included: a quarter turn exchanges their rows and columns."""
    observe, upright = observations_of(level, observation)
    bits, context = bits_of(len(upright), private_bits), torch.randn(len(upright), 1)
    policy, critic = perturbed_networks(network, observe, private_bits=private_bits, width=48, depth=depth)
    logits, value = policy(upright, bits), critic(upright, bits, context)
    for turn in range(NUM_SYMMETRIES):
        turned = rotated(upright, turn) if upright.ndim == 4 else upright[:, observe.rotated[turn]]
        assert torch.allclose(policy(turned, bits)[:, rotated_actions()[turn]], logits, atol=1e-4)
        assert torch.allclose(critic(turned, bits, context), value, atol=1e-4)
    assert (logits - logits.mean(-1, keepdim=True)).abs().max() > 0.1  # the actions differ
    assert value.std() > 0.1


def test_only_square_maps_have_rotated_observations():
    level = parse_level("shutdown: 2\nA C1 .", name="flat")
    assert make_observation("centred", compile_levels([level])).rotated is None
    assert make_observation("centred", compile_levels([level], at_least=(3, 3))).rotated is not None
    assert make_observation("vector", compile_levels([world("example")])).rotated is None


@pytest.mark.parametrize("private_bits", [0, 2])
def test_encoding_each_map_once_changes_no_output(private_bits):
    observe, observations = observations_of(world("last_moment"))
    observations = torch.cat((observations, observations[::3].flip(0)))
    bits, context = bits_of(len(observations), private_bits), torch.ones(len(observations), 1)
    (policy, critic), slow = (perturbed_networks("convolutional", observe, private_bits=private_bits) for _ in range(2))
    for network in slow:
        network.net.read.once = lambda maps, encoder=network.net.read: (encoder(maps), torch.arange(len(maps)))
    assert torch.allclose(policy(observations, bits), slow[0](observations, bits), atol=1e-5)
    assert torch.allclose(critic(observations, bits, context), slow[1](observations, bits, context), atol=1e-5)
    one_by_one = torch.cat([policy(*pair) for pair in zip(observations.split(1), bits.split(1), strict=True)])
    assert torch.allclose(policy(observations, bits), one_by_one, atol=1e-5)


def test_a_critic_does_not_train_the_encoder_that_it_shares():
    observe, observations = observations_of(world("last_moment"))
    policy, critic = perturbed_networks("convolutional", observe, context=0, on_top=True)
    before = critic(observations)
    before.sum().backward()
    encoder = set(policy.net.read.parameters())
    assert encoder < set(critic.parameters())
    assert all((parameter.grad is None) == (parameter in encoder) for parameter in critic.parameters())
    policy.net.read.first.data += 1
    assert not torch.allclose(critic(observations), before)


def test_each_map_is_encoded_once_while_weights_are_unchanged(monkeypatch):
    observe, observations = observations_of(world("last_moment"))
    policy, critic = perturbed_networks("convolutional", observe, context=0, on_top=True)
    expected, value = policy(observations).detach(), critic(observations).detach()
    encoded, read = [], type(policy.net.read)
    forward = read.forward
    monkeypatch.setattr(read, "forward", lambda self, maps: encoded.append(len(maps)) or forward(self, maps))
    order = torch.randperm(len(observations), generator=torch.Generator().manual_seed(0))
    with weights_unchanged(policy, critic):
        with torch.no_grad():
            for part in order.split(7):
                assert torch.allclose(policy(observations[part]), expected[part], atol=1e-6)
        maps = len(map_hashes(observations[:, policy.net.map]).unique())
        assert sum(encoded) == maps
        assert torch.allclose(critic(observations), value, atol=1e-6)
        assert sum(encoded) == maps
        policy(observations[:1]).sum().backward()
        assert sum(encoded) == maps + 1
        assert policy.net.read.first.grad.abs().sum() > 0
        with torch.no_grad():
            assert policy(observations[:0]).shape == (0, NUM_ACTIONS)
    policy.net.read.first.data += 1
    assert not torch.allclose(policy(observations), expected, atol=1e-3)


def test_the_receptive_field_grows_by_a_cell_with_each_layer():
    lines = ("A . . . C1 . . C1", "A . . . . . C1 C1", "A . . . . . . C1")
    views = [observations_of(parse_level(f"shutdown: 9\n{line}", name="line")) for line in lines]
    policy, _ = perturbed_networks("convolutional", views[0][0], depth=3)
    close, distant, nothing = (policy(observations[:1]) for _, observations in views)
    assert torch.equal(distant, nothing)
    assert not torch.allclose(close, nothing)


def of_entries(*entries):
    torch.manual_seed(0)
    numbers = sum(torch.Size(shape).numel() for shape in entries)
    return Policy((numbers,), 3, NetworkSize(8, 2, "tanh", "entries"), scale=torch.ones(numbers), entries=entries)


@pytest.mark.parametrize("shape", [(9, 8, 2), (2, 9, 8)])
def test_an_image_within_a_row_is_convolved(shape):
    net = of_entries((3,), shape).net.body
    numbers, picture = torch.randn(4, 3), torch.randn(4, *shape)
    features = net.images["1"].layers(picture.permute(0, 3, 1, 2) if shape[-1] == 2 else picture)
    expected = net.mlp(torch.cat((numbers, features), -1))
    torch.testing.assert_close(net(torch.cat((numbers, picture.flatten(1)), -1)), expected)


def test_a_large_image_is_convolved_with_a_stride_of_two():
    small, large = (of_entries((side, side, 3)).net.body.mlp[0].in_features for side in (24, 48))
    assert large == small // 4


def test_a_critic_reads_its_context_beside_an_image():
    critic = Critic((75,), NetworkSize(8, 1, "tanh", "entries"), scale=torch.ones(75), context=2, entries=[(5, 5, 3)])
    rows, context = torch.randn(4, 75), torch.randn(4, 2)
    values = critic(rows, None, context)
    assert values.shape == (4,)
    assert not torch.equal(values, critic(rows, None, context + 1))
