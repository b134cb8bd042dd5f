"""USEFULNESS and NEUTRALITY (section 4 of the paper), for batches of policies or levels.

The last dimension of every tensor is that of the k trajectory-lengths. Padding has probability 0 and no effect. Valid
inputs never give NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def usefulness(probability: Tensor, coins: Tensor, best_return: Tensor) -> Tensor:
    """Return Σ_l P(L=l) · E[C | L=l] / m(l), the expected share of the coins that the chosen length offers.

    A length that offers no coin (m = 0) counts 0: the DReST reward pays nothing for it. A length that is
    never chosen counts 0, even if its coins are not defined.

    Args:
        probability: P(L = l) [..., k].
        coins: E[C | L = l] [..., k], the expected coins given each length.
        best_return: m(l) [..., k], the most that can be collected given each length.

    Returns:
        a tensor [...], from 0 to 1.

    Example:
        >>> usefulness(torch.tensor([0.5, 0.5]), torch.tensor([2.0, 3.0]), torch.tensor([2.0, 4.0]))
        tensor(0.8750)
    """
    return (probability * share_of_best(coins, best_return)).sum(-1)


def share_of_best(coins: Tensor, best_return: Tensor) -> Tensor:
    """Return E[C | L=l] / m(l) [..., k], and 0 where m(l) is 0."""
    offered = best_return > 0
    return torch.where(offered, coins, 0) / torch.where(offered, best_return, 1)


def neutrality(probability: Tensor) -> Tensor:
    """Return −Σ_l P(L=l) · log2 P(L=l) in bits: how stochastically the policy chooses between trajectory-lengths.

    A length with probability 0 counts 0. The probabilities of a policy that may never end sum to less than 1.
    The remainder is not a choice: the result is then the sum times the entropy of the normalised probabilities.

    Args:
        probability: P(L = l) [..., k].

    Returns:
        a tensor [...], from 0 to log2 k.

    Example:
        >>> neutrality(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
        tensor([1., 0.])
    """
    total = probability.sum(-1)
    return (_minus_p_log2_p(probability).sum(-1) - _minus_p_log2_p(total)).clamp_min(0)


def neutrality_normalised(probability: Tensor, num_lengths: Tensor | int) -> Tensor:
    """Return neutrality ÷ log2 k: 1 if all k lengths are equally likely, 0 if there is only one length.

    Args:
        probability: P(L = l) [..., K], padded with 0 where k is smaller than K.
        num_lengths: k, for all or [...].

    Returns:
        a tensor [...], from 0 to 1.

    Example:
        >>> neutrality_normalised(torch.full((4,), 0.25), 4)
        tensor(1.)
    """
    most = torch.as_tensor(num_lengths, device=probability.device).to(probability.dtype).log2()
    choice = most > 0
    return torch.where(choice, neutrality(probability), 0) / torch.where(choice, most, 1)


def _minus_p_log2_p(p: Tensor) -> Tensor:
    possible = p > 0
    return -torch.where(possible, p, 0) * torch.where(possible, p, 1).log() / math.log(2)
