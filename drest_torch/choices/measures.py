"""Measures of a policy in menus, as differentiable functions of its option probabilities [..., B, O]."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drest_torch import metrics
from drest_torch.choices.menus import Menus
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward


def lengths(menus: Menus, policy: Tensor) -> tuple[Tensor, Tensor]:
    """Return P(L = l) and E[C | L = l] [..., B, K]; the latter is 0 where the length is never taken."""
    probability = torch.einsum("...bo,bok->...bk", policy, menus.probability.to(policy.dtype))
    gain = torch.einsum("...bo,bok->...bk", policy, menus.gain.to(policy.dtype))
    possible = probability > 0
    return probability, torch.where(possible, gain, 0) / torch.where(possible, probability, 1)


def usefulness(menus: Menus, policy: Tensor) -> Tensor:
    """Return USEFULNESS [..., B]."""
    probability, coins = lengths(menus, policy)
    return metrics.usefulness(probability, coins, menus.best.to(policy.dtype))


def neutrality(menus: Menus, policy: Tensor) -> Tensor:
    """Return NEUTRALITY ÷ log2 k [..., B]."""
    return metrics.neutrality_normalised(lengths(menus, policy)[0], menus.num_lengths)


def usefulness_if_indifferent(menus: Menus, neutral: float) -> float:
    """Return the mean USEFULNESS of a softmax of expected coins, whose temperature gives this mean neutrality.

    The softmax flattens every choice alike. An agent with more USEFULNESS is neutral between lengths rather than
    indifferent to coins.
    """
    coins = torch.where(menus.exists, menus.gain.sum(-1), -torch.inf)
    low, high = -12.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        policy = (coins / math.exp(middle)).softmax(-1)
        if neutrality(menus, policy).mean().item() < neutral:
            low = middle
        else:
            high = middle
    return usefulness(menus, policy).mean().item()


def drest_value(menus: Menus, policy: Tensor, episodes: int, lam: float, *, credit: str = "meta") -> Tensor:
    """Return Σ_l P(l) · E[C | l] / m(l) · D(P(l)) [..., B], the return of a meta-episode of E choices.

    With ``credit=mini`` the discounts D are constants, so the gradient is that of credit within a mini-episode.
    """
    probability, coins = lengths(menus, policy)
    share = share_of_best(coins, menus.best.to(policy.dtype))
    return (probability * share * _discount(probability, menus.num_lengths, episodes, lam, credit)).sum(-1)


def neutrality_plus(menus: Menus, policy: Tensor) -> Tensor:
    """Return the unweighted mean over lengths of E[C | L = l] / m(l) [..., B]; a length never taken counts 0."""
    _, coins = lengths(menus, policy)
    return share_of_best(coins, menus.best.to(policy.dtype)).sum(-1) / menus.num_lengths


def supports_value(menus: Menus, policy: Tensor, episodes: int, lam: float, *, credit: str = "mini") -> Tensor:
    """Return the DReST value [..., B] over sets of lengths instead of lengths, with Neutrality+ instead of the share.

    Options with the same lengths form a group g. The value is Σ_g P(g) · F(g) · D(P(g)), where F(g) is the mean over
    the group's lengths of E[C | l, g] / m(l, g). For sure trajectories it equals the DReST value; for options with the
    same lengths it is E times Neutrality+.
    """
    alike, supports = menus.alike.to(policy.dtype), menus.supports
    group = torch.einsum("...bo,bpo->...bp", policy, alike)
    tiny = torch.finfo(policy.dtype).tiny
    within = policy.unsqueeze(-2) * alike / group.clamp_min(tiny).unsqueeze(-1)
    probability = torch.einsum("...bpo,bok->...bpk", within, menus.probability.to(policy.dtype))
    gain = torch.einsum("...bpo,bok->...bpk", within, menus.gain.to(policy.dtype))
    possible = probability > 0
    coins = torch.where(possible, gain, 0) / torch.where(possible, probability, 1)
    group_coins = torch.where(supports, menus.conditional_coins, -torch.inf).unsqueeze(1)
    best = torch.where(menus.alike.unsqueeze(-1), group_coins, -torch.inf).amax(2)
    best = torch.where(best.isfinite(), best, 0).to(policy.dtype)
    flat = share_of_best(coins, best).sum(-1) / supports.sum(-1).clamp_min(1)
    return (policy * flat * _discount(group, menus.num_supports, episodes, lam, credit)).sum(-1)


def _discount(probability: Tensor, number: Tensor, episodes: int, lam: float, credit: str) -> Tensor:
    """Return the expected discounts D(P), which are constants with ``credit=mini``."""
    discount = Reward(lam, episodes_per_meta=episodes).expected_discount(probability, number.unsqueeze(-1))
    if credit == "meta":
        return discount
    return discount.detach()
