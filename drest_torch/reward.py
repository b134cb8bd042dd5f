"""The DReST discount, its mean over orders, and the expected return of a meta-episode in closed form.

Section 5 of the paper: in mini-episode i of a meta-episode (i = 1 … E), the reward for a coin of value c
is λ^(N − (i−1)/k) · c/m, where N is how often the chosen trajectory-length has been chosen before in the
meta-episode, k how many lengths there are, and m the most that can be collected given the length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from drest_torch.metrics import share_of_best


def sequential_exponent(chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | int) -> Tensor:
    """N − (i−1)/k, for N = ``chosen_before`` and i − 1 = ``index``, the mini-episodes played before."""
    return chosen_before - index / num_lengths


def overall_return(
    coins: Tensor, discount: Tensor, best_return: Tensor | None = None, clip: float | None = None
) -> Tensor:
    """What a mini-episode is paid: discount · C/m, at most ``clip``; ``best_return=None`` does not divide by m.

    A large E and a small λ can make a discount larger than any float: what is paid stays finite, and no
    coins stay 0.
    """
    paid = coins * discount if best_return is None else coins * discount / best_return
    most = torch.finfo(paid.dtype).max if clip is None else clip
    return torch.where(coins != 0, paid, 0).clamp_max(most)


def sequential_discount(chosen_before: Tensor, index: Tensor | int, num_lengths: Tensor | int, lam: float) -> Tensor:
    """λ^(N − (i−1)/k), the discount of a mini-episode."""
    return lam ** sequential_exponent(chosen_before, index, num_lengths)


def averaged_discount(
    num_lengths: int, episodes_per_meta: int, lam: float, *, dtype: torch.dtype = torch.float64
) -> Tensor:
    """[E] the sequential discount averaged over all orders in which E mini-episodes could have been played.

    Entry n is for a mini-episode whose length n of the E − 1 others have too: the counts leave it out.
    The sum over a meta-episode of these discounts times the preliminary returns is therefore the
    sequential return's mean over orders, with no order in it.

    A random order is that of E independent times, uniform on [0, 1]. For a mini-episode at time u each of
    the others is earlier with probability u, and then multiplies the discount by λ^(1−1/k) if it has the
    same length and by λ^(−1/k) if not:

        d(n) = ∫₀¹ (1 − u + u λ^(1−1/k))^n (1 − u + u λ^(−1/k))^(E−1−n) du,

    a polynomial in u, which Gauss-Legendre quadrature with E nodes integrates exactly.
    """
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(episodes_per_meta))
    earlier = (nodes + 1) / 2
    same = (1 - earlier + earlier * lam ** (1 - 1 / num_lengths)).log()
    other = (1 - earlier + earlier * lam ** (-1 / num_lengths)).log()
    alike = torch.arange(episodes_per_meta, dtype=torch.float64).unsqueeze(-1)
    return (((alike * same + (episodes_per_meta - 1 - alike) * other).exp() @ weights) / 2).to(dtype)


def expected_discount(probability: Tensor, num_lengths: Tensor | int, episodes_per_meta: int, lam: float) -> Tensor:
    """Σ_i E[λ^(N − (i−1)/k)] over the mini-episodes of a meta-episode, for a length chosen with this probability.

    The policy cannot tell mini-episodes apart, so each of the i − 1 before has this length independently
    with probability p, and E[λ^N] = (1 − p(1 − λ))^(i−1).
    """
    k = torch.as_tensor(num_lengths, device=probability.device).to(probability.dtype)
    log_ratio = torch.log1p(-probability * (1 - lam)) - math.log(lam) / k
    before = torch.arange(episodes_per_meta, device=probability.device, dtype=probability.dtype)
    return (log_ratio.unsqueeze(-1) * before).exp().sum(-1)


def expected_return(
    probability: Tensor,
    coins: Tensor,
    best_return: Tensor | None,
    num_lengths: Tensor | int,
    episodes_per_meta: int,
    lam: float,
) -> Tensor:
    """Expected DReST return of a meta-episode (equation 1 of the paper), from P(L=l), E[C | L=l] and m(l) [..., K].

    ``best_return=None`` leaves out the division by m; λ = 1 gives the default reward's return. Exact and
    differentiable.
    """
    preliminary = coins if best_return is None else share_of_best(coins, best_return)
    k = torch.as_tensor(num_lengths, device=probability.device).unsqueeze(-1)
    return (probability * preliminary * expected_discount(probability, k, episodes_per_meta, lam)).sum(-1)


COUNTINGS = ("sequential", "averaged")


@dataclass(frozen=True)
class Reward:
    """How a mini-episode is paid; the names are those of the paper and of `configs/reward`."""

    lam: float
    gamma: float
    episodes_per_meta: int
    counting: str = "averaged"
    divide_by_best: bool = True
    clip: float | None = None
    episodes_at_start: int | None = None
    """E at the start of training, from which it goes to ``episodes_per_meta``; None: it is the same all along."""

    def at(self, progress: float) -> Reward:
        """As it is when training is so far (0 to 1): E changes by equal factors in equal times."""
        if self.episodes_at_start is None:
            return self
        growth = self.episodes_per_meta / self.episodes_at_start
        episodes = round(self.episodes_at_start * growth ** min(max(progress, 0.0), 1.0))
        return replace(self, episodes_per_meta=episodes, episodes_at_start=None)


def group_discount(num_lengths: int, group: int, episodes_per_meta: int, lam: float) -> Tensor:
    """[group] the discount of a mini-episode by how many of the group's g − 1 others have its length.

    With E = g it is the sequential discount's mean over all orders of the group. With any other E it is the
    mean over meta-episodes of E mini-episodes, played in order, in which this one has a uniformly random
    place and each other one is, independently, one of the g − 1 others of the group, all equally likely.
    """
    if episodes_per_meta == group:
        return averaged_discount(num_lengths, episodes_per_meta, lam, dtype=torch.float32)
    share = torch.arange(group, dtype=torch.float64) / (group - 1)
    return (expected_discount(share, num_lengths, episodes_per_meta, lam) / episodes_per_meta).float()
