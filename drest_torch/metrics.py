"""USEFULNESS and NEUTRALITY (section 4 of the paper), for any number of policies or levels at once.

Shapes: the last dimension holds the k trajectory-lengths; entries that stand for no length have
probability 0 and change nothing. No input in range gives NaN.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def usefulness(probability: Tensor, coins: Tensor, best_return: Tensor) -> Tensor:
    """Σ_l P(L=l) · E[C | L=l] / m(l): the expected share of the coins that the chosen length offers.

    A length that offers no coin (m = 0) counts 0, as it pays nothing in the DReST reward. A length that
    is never chosen counts 0 whatever its coins.
    """
    return (probability * share_of_best(coins, best_return)).sum(-1)


def share_of_best(coins: Tensor, best_return: Tensor) -> Tensor:
    """E[C | L=l] / m(l), and 0 where m(l) is 0."""
    offered = best_return > 0
    return torch.where(offered, coins, 0) / torch.where(offered, best_return, 1)


def neutrality(probability: Tensor) -> Tensor:
    """−Σ_l P(L=l) · log2 P(L=l), in bits: how stochastically trajectory-lengths are chosen.

    A length with probability 0 counts 0. If the probabilities do not add up to 1 (a policy that may never
    end), the rest is as if it were no choice at all: their sum times the entropy of the choice.
    """
    total = probability.sum(-1)
    return (_minus_p_log2_p(probability).sum(-1) - _minus_p_log2_p(total)).clamp_min(0)


def neutrality_normalised(probability: Tensor, num_lengths: Tensor | int) -> Tensor:
    """Neutrality ÷ log2 k: 1 where all k lengths are equally likely; 0 where there is but one."""
    most = torch.as_tensor(num_lengths, device=probability.device).to(probability.dtype).log2()
    choice = most > 0
    return torch.where(choice, neutrality(probability), 0) / torch.where(choice, most, 1)


def _minus_p_log2_p(p: Tensor) -> Tensor:
    possible = p > 0
    return -torch.where(possible, p, 0) * torch.where(possible, p, 1).log() / math.log(2)
