"""Action distributions: densities, entropies and most likely actions, against their formulas."""

import math

import pytest
import torch

from drest_torch.algos.distributions import FIRST_LOG_SPREAD, box, multi_categorical, one_of

LOW, HIGH = torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 2.5])
BOX = box(LOW, HIGH)


def test_the_spread_of_a_box_is_clamped():
    dist = BOX.of(torch.tensor([[0.3, -0.2, 5.0, -9.0]]))
    assert dist.log_spread.tolist() == [[1.0, -4.0]]
    assert dist.deterministic_sample.tolist() == [pytest.approx([0.3, -0.2])]


def test_an_untrained_box_policy_has_a_moderate_spread():
    assert BOX.outputs == 4
    assert FIRST_LOG_SPREAD == -0.5
    assert BOX.offset(None).tolist() == [0, 0, -0.5, -0.5]
    assert one_of(5).offset(None).tolist() == [0] * 5


def test_the_density_in_a_box_is_of_the_squashed_numbers():
    means, spreads = [0.3, -0.2], [0.2, -0.7]
    dist = BOX.of(torch.tensor([[*means, *spreads]]))
    value = torch.tensor([[0.5, -1.1]])
    expected = 0.0
    for place in (0, 1):
        u, mean, spread = value[0, place].item(), means[place], math.exp(spreads[place])
        normal = math.exp(-((u - mean) ** 2) / (2 * spread**2)) / (spread * math.sqrt(2 * math.pi))
        half = (HIGH[place] - LOW[place]).item() / 2
        expected += math.log(normal / (half * (1 - math.tanh(u) ** 2)))
    assert dist.log_prob(value).item() == pytest.approx(expected, rel=1e-5)


def test_the_entropy_of_a_box_is_the_mean_surprise():
    dist = BOX.of(torch.tensor([0.3, -0.2, 0.2, -0.7]).expand(200_000, -1))
    torch.manual_seed(0)
    surprise = -dist.log_prob(dist.sample())
    assert dist.entropy()[0].item() == pytest.approx(surprise.mean().item(), abs=0.02)


def test_categorical_probabilities_follow_from_logits():
    logits = torch.tensor([0.1, -0.5, 1.2, 0.3, -0.9])
    parts = logits[:3].log_softmax(-1), logits[3:].log_softmax(-1)
    dist = multi_categorical([3, 2]).of(logits.unsqueeze(0))
    assert dist.log_prob(torch.tensor([[2, 1]])).item() == pytest.approx((parts[0][2] + parts[1][1]).item())
    entropy = -sum((part.exp() * part).sum().item() for part in parts)
    assert dist.entropy().item() == pytest.approx(entropy)
    assert dist.deterministic_sample.tolist() == [[2, 0]]
    one_hot = one_of(3, one_hot=True).of(logits[:3].unsqueeze(0))
    assert one_hot.deterministic_sample.tolist() == [[False, False, True]]
    assert one_hot.log_prob(torch.tensor([[False, True, False]])).item() == pytest.approx(parts[0][1].item())


def test_actions_are_sampled_with_their_probabilities():
    logits, rng = torch.tensor([0.1, -0.5, 1.2]), torch.Generator().manual_seed(0)
    many = logits.expand(40_000, -1)
    for kind in (one_of(3), one_of(3, one_hot=True)):
        chosen = kind.choose(many, rng)
        chosen = chosen if chosen.ndim == 1 else chosen.long().argmax(-1)
        assert torch.allclose(chosen.bincount() / 40_000, logits.softmax(-1), atol=0.01)
        greedy = kind.choose(many[:2], rng, greedy=True)
        assert (greedy if greedy.ndim == 1 else greedy.long().argmax(-1)).tolist() == [2, 2]
    outputs = torch.tensor([[0.3, -0.2, 0.2, -0.7]])
    greedy = BOX.choose(outputs, rng, greedy=True)
    expected = [1 + 2 * math.tanh(0.3), 2.25 + 0.25 * math.tanh(-0.2)]
    assert greedy[0].tolist() == pytest.approx(expected)
