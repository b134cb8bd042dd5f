"""Action distributions as PyTorch distributions: shapes of samples, frequencies and divergences."""

import pytest
import torch
from torch.distributions import Categorical, Normal, kl_divergence

from drest_torch.algos.distributions import MultiCategorical, OneOf, TanhNormal

LOGITS = torch.tensor([[0.3, -1.2, 2.0], [1.0, 0.1, -0.4]])
OTHERS = torch.tensor([[-0.7, 0.2, 0.9], [0.0, 2.0, 0.5]])
HALF = torch.tensor([0.5])
MAKE = {
    "one": lambda outputs: OneOf(outputs),
    "one hot": lambda outputs: OneOf(outputs, one_hot=True),
    "several": lambda outputs: MultiCategorical(outputs, counts=[1, 2]),
    "numbers": lambda outputs: TanhNormal(outputs[:, :2], half=HALF),
}


@pytest.mark.parametrize("kind", MAKE)
def test_samples_have_the_requested_shape(kind):
    dist = MAKE[kind](LOGITS)
    torch.manual_seed(0)
    samples = dist.sample((4000, 2))
    assert samples.shape == (4000, 2, *dist.sample().shape)
    assert dist.log_prob(samples).shape == (4000, 2, 2)
    assert torch.equal(dist.log_prob(samples)[7, 1], dist.log_prob(samples[7, 1]))
    entropy = -dist.log_prob(samples).mean((0, 1))
    torch.testing.assert_close(entropy, dist.entropy(), atol=0.05, rtol=0)  # 8,000 samples: 4 standard errors


def test_samples_occur_with_their_probability():
    torch.manual_seed(0)
    share = torch.nn.functional.one_hot(OneOf(LOGITS).sample((20_000,)), 3).double().mean(0)
    torch.testing.assert_close(share, LOGITS.softmax(-1).double(), atol=0.015, rtol=0)


def test_divergences_agree_with_pytorch():
    first, reference = Categorical(logits=LOGITS), Categorical(logits=OTHERS)
    torch.testing.assert_close(kl_divergence(OneOf(LOGITS), OneOf(OTHERS)), kl_divergence(first, reference))
    second = [Categorical(logits=outputs[:, 1:]) for outputs in (LOGITS, OTHERS)]
    products = [MultiCategorical(outputs, counts=[1, 2]) for outputs in (LOGITS, OTHERS)]
    torch.testing.assert_close(kl_divergence(*products), kl_divergence(*second))
    numbers = [TanhNormal(outputs[:, 1:], half=HALF) for outputs in (LOGITS / 2, OTHERS / 2)]
    normal = [Normal(outputs[:, 1] / 2, (outputs[:, 2] / 2).exp()) for outputs in (LOGITS, OTHERS)]
    torch.testing.assert_close(kl_divergence(*numbers), kl_divergence(*normal))
