"""What mini-episodes that were played say of a policy: 95 % intervals from counts, for many levels at once.

They hold for few mini-episodes too, and where all of them came out alike: a share is never taken to be certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

NORMAL_95 = 1.959964
"""The mean of normal numbers lies within so many standard errors in 95 of 100 cases."""
STEEPEST = 1e7
HALVINGS = 60


def bounded_mean(count: Tensor, total: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
    """The interval for the mean of numbers in [0, 1], from their count, sum and sum of squares.

    As after Agresti and Coull (1998), whose interval it is for numbers that are 0 or 1: z²/2 numbers 0 and as many 1
    are added to what was seen, and then it is the mean's plus and minus z standard errors.
    """
    added = NORMAL_95**2 / 2
    n = count + 2 * added
    mean = (total + added) / n
    half = NORMAL_95 * (((squares + added) / n - mean**2).clamp_min(0) / n).sqrt()
    return (mean - half).clamp_min(0), (mean + half).clamp_max(1)


def entropy(counts: Tensor) -> Tensor:
    """[B] entropy in bits of the choice that was made so often [B, K], without the bias of the observed shares.

    Shares that are observed are less even than the true ones, by (k − 1) / (2 M ln 2) bits for k things chosen in M
    times (Miller 1955). With that added the mean is right; so it may be a little more than log2 k.
    """
    n = counts.sum(-1)
    share = counts / n.clamp_min(1).unsqueeze(-1)
    observed = (counts > 0).sum(-1)
    return _bits(share) + (observed - 1).clamp_min(0) / (2 * math.log(2) * n.clamp_min(1))


def entropy_interval(counts: Tensor, num_choices: Tensor) -> tuple[Tensor, Tensor]:
    """The interval for the entropy in bits of a choice among k = ``num_choices`` [B], from counts [B, K].

    It is the range of the entropy over the shares that a χ² test with k − 1 degrees of freedom does not refuse, on the
    line along which the entropy changes fastest: shares to the power of β, from even ones (β = 0) to but one (β = ∞).
    For two choices that is the score interval of Wilson (1927); for more it is a little too wide.
    """
    n = counts.sum(-1, keepdim=True)
    possible = torch.arange(counts.shape[-1], device=counts.device) < num_choices.unsqueeze(-1)
    seen = counts / n.clamp_min(1)
    # The slope decides between shares that are exactly even, where every direction is as good.
    slope = 1e-6 * torch.arange(counts.shape[-1], device=counts.device, dtype=seen.dtype)
    log_share = (counts + 0.5).log() - slope
    accepted = _chi_square(num_choices - 1).to(seen.dtype)

    def shares(power: Tensor) -> Tensor:
        return (power.unsqueeze(-1) * log_share).masked_fill(~possible, -math.inf).softmax(-1)

    def good(power: Tensor) -> Tensor:
        share = shares(power)
        apart = (seen - share).square() / share.clamp_min(torch.finfo(share.dtype).tiny)
        return (n * torch.where(possible, apart, 0)).sum(-1) <= accepted

    one = torch.ones_like(accepted)
    flattest = torch.where(good(0 * one), 0 * one, _edge(good, inside=one, outside=0 * one))
    log_edge = _edge(lambda power: good(power.exp()), inside=0 * one, outside=math.log(STEEPEST) * one)
    steepest = torch.where(good(STEEPEST * one), STEEPEST * one, log_edge.exp())
    return _bits(shares(steepest)), _bits(shares(flattest))


def entropy_spread(counts: Tensor, num_choices: Tensor) -> Tensor:
    """[B] how far the estimate of the entropy may be off where all choices are equally likely.

    There it varies by the squares of what the shares are off, a χ² number with k − 1 degrees of freedom.
    """
    return NORMAL_95 * ((num_choices - 1) / 2).sqrt() / (math.log(2) * counts.sum(-1).clamp_min(1))


def mean_range(estimate: Tensor, low: Tensor, high: Tensor) -> tuple[float, float]:
    """The interval for the mean of independent estimates [B] that follows from theirs.

    Their distances from its ends are added up as standard errors are, each side for itself (Zou and Donner 2008).
    """
    mean = estimate.mean()
    down = (estimate - low).clamp_min(0).square().sum().sqrt() / len(estimate)
    up = (high - estimate).clamp_min(0).square().sum().sqrt() / len(estimate)
    return (mean - down).item(), (mean + up).item()


def _bits(share: Tensor) -> Tensor:
    return -torch.special.xlogy(share, share).sum(-1) / math.log(2)


def _edge(good: Callable[[Tensor], Tensor], *, inside: Tensor, outside: Tensor) -> Tensor:
    """Where ``good`` ends on the way from inside, by halving."""
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        holds = good(middle)
        inside, outside = torch.where(holds, middle, inside), torch.where(holds, outside, middle)
    return inside


def _chi_square(degrees: Tensor) -> Tensor:
    """Below it lie 95 % of a χ² distribution; 0 for no degree of freedom."""
    freedom = degrees.double() / 2
    low, high = torch.zeros_like(freedom), 20 + 4 * degrees.double()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        below = torch.special.gammainc(freedom.clamp_min(0.5), middle / 2) < 0.95
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.where(degrees > 0, high, 0)
