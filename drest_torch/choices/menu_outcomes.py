"""The outcome of a policy in menus, as objectives of training expect it (`drest_torch.algos.objectives`).

So every objective of gridworlds is one of menus as well, and of language models that read them. A menu is a level with
a single step. A measure of steps that has no meaning there is an error that names the key.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from drest_torch.algos.objectives.base import PolicyOutcome
from drest_torch.choices.measures import lengths
from drest_torch.choices.menus import Menus
from drest_torch.envs.exact.soft import UNIFORM_SHARE
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward


def policy_outcome(
    menus: Menus, policy: Tensor, reward: Reward, credit: str = "mini", *, unit: float = 1.0
) -> PolicyOutcome:
    """Return the outcome of a policy, from the probabilities [B, O] of the options; coins are counted in ``unit``."""
    if reward.gamma != 1:
        raise ConfigError(f"reward.gamma={reward.gamma:g} in menus, which have no steps to discount; expected 1")
    probability, coins = lengths(menus, policy)
    return PolicyOutcome(
        probability,
        probability * coins / unit,
        menus.best / unit,
        menus.num_lengths,
        with_luck(menus),
        reward,
        credit,
        partial(_by_option, menus, policy, unit),
        partial(_divergence, menus, policy),
        _without_steps,
    )


def with_luck(menus: Menus) -> Tensor:
    """Return [B] True for menus in which an option has several outcomes."""
    return ((menus.chance > 0).sum(-1) > 1).any(-1)


def _without_steps(goals: str) -> Tensor:
    raise ConfigError(
        "objective=attainable_utility in menus, in which nothing is attainable after the choice; use it in gridworlds"
    )


def _by_option(menus: Menus, policy: Tensor, unit: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the probability of each option [1, O, B], and its P(L = l) and E[C | L = l] [O, B, K]."""
    chance, coins = menus.probability.transpose(0, 1), menus.conditional_coins.transpose(0, 1) / unit
    return policy.t().unsqueeze(0), chance, coins


def _divergence(menus: Menus, policy: Tensor, reference: str) -> Tensor:
    """Return the divergence of the choice from a reference policy [B]."""
    share = torch.where(menus.exists, policy, 1)  # the gradient of 0 log 0 is infinite
    ratio = share.log() - _reference(menus, reference).log().to(policy)
    return torch.where(menus.exists, share * ratio, 0).sum(-1)


def _reference(menus: Menus, reference: str) -> Tensor:
    """Return the probability of each option [B, O] under a reference (`drest_torch.envs.exact.soft`)."""
    exists = menus.exists.double()
    uniform = exists / exists.sum(-1, keepdim=True)
    if reference == "entropy":
        return torch.ones_like(uniform)
    if reference == "uniform":
        return torch.where(menus.exists, uniform, 1)
    if bool(with_luck(menus).any()):
        raise ConfigError(
            f"objective.reference={reference} in menus with luck, where an option has no length of its own; expected "
            "uniform or entropy"
        )
    counted = menus.supports
    if reference == "best":
        counted = counted & (menus.conditional_coins >= menus.best.unsqueeze(1))
    of_length = counted / counted.sum(1, keepdim=True).clamp_min(1)  # [B, O, K]
    share = of_length.sum(-1) / menus.num_lengths.unsqueeze(-1)
    return torch.where(menus.exists, (1 - UNIFORM_SHARE) * share + UNIFORM_SHARE * uniform, 1)
