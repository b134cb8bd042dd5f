"""The network for observations of several entries."""

import pytest
import torch

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy


def policy(network, entries, seed=0, width=8):
    torch.manual_seed(seed)
    numbers = sum(torch.Size(shape).numel() for shape in entries)
    return Policy((numbers,), 3, NetworkSize(width, 2, "tanh", network), scale=torch.ones(numbers), entries=entries)


def test_without_an_image_it_is_the_mlp():
    rows = torch.randn(5, 7)
    assert torch.equal(policy("entries", [(4,), (3,)])(rows), policy("mlp", [(4,), (3,)])(rows))


@pytest.mark.parametrize(("shape", "axes"), [((9, 8, 2), (0, 1)), ((2, 9, 8), (1, 2))])
def test_an_image_is_read_where_it_lies_and_the_same_everywhere_inside(shape, axes):
    """The features of the convolutions move with the picture; the other entries pass unchanged."""
    net = policy("entries", [(3,), shape]).net.body
    picture = torch.zeros(shape)
    corner = [slice(None)] * 3
    corner[axes[0]], corner[axes[1]] = slice(3, 5), slice(3, 5)
    picture[tuple(corner)] = 1.0
    read = net.images["1"].layers[:-1]
    image = net.images["1"]

    def features(one):
        stacked = one.reshape(1, *shape)
        return read(stacked.permute(0, 3, 1, 2) if image.last else stacked)

    moved = features(picture.roll(1, axes[1]))
    torch.testing.assert_close(moved[..., 3:-2], features(picture).roll(1, -1)[..., 3:-2])
    rows = torch.cat((torch.tensor([1.0, 2.0, 3.0]), picture.flatten())).unsqueeze(0)
    assert net._features(rows)[0, :3].tolist() == [1, 2, 3]
    assert not torch.equal(net(rows), net(torch.cat((rows[:, :3], torch.zeros(1, picture.numel())), -1)))


def test_a_large_image_has_fewer_features_and_a_critic_reads_what_is_further():
    small = policy("entries", [(24, 24, 3)]).net.body
    large = policy("entries", [(48, 48, 3)]).net.body
    count = small._features(torch.zeros(1, 24 * 24 * 3)).shape[1]
    assert large._features(torch.zeros(1, 48 * 48 * 3)).shape[1] == count // 4
    critic = Critic((75,), NetworkSize(8, 1, "tanh", "entries"), scale=torch.ones(75), context=2, entries=[(5, 5, 3)])
    rows, context = torch.randn(4, 75), torch.randn(4, 2)
    values = critic(rows, None, context)
    assert values.shape == (4,)
    assert not torch.equal(values, critic(rows, None, context + 1))
