"""Scripted policies in menus: closed forms, without training, to compare trained agents with.

A `Chooser` is any function from menus to the probabilities [B, O] of their options.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from drest_torch.choices.menus import Menus
from drest_torch.metrics import share_of_best

Chooser: TypeAlias = Callable[[Menus], Tensor]
ROUNDING = 1e-9
"""Relative difference below which values count as equal."""


def _uniform_over(menus: Menus, allowed: Tensor) -> Tensor:
    """Return the uniform distribution over the allowed options."""
    chosen = (allowed & menus.exists).double()
    return chosen / chosen.sum(-1, keepdim=True)


def _maximise(menus: Menus, value: Tensor) -> Tensor:
    """Return the uniform distribution over the options of largest value."""
    value = torch.where(menus.exists, value.double(), -torch.inf)
    largest = value.amax(-1, keepdim=True)
    return _uniform_over(menus, value >= largest - ROUNDING * largest.abs().clamp_min(1))


def maximise_coins(menus: Menus) -> Tensor:
    """Maximise the expected coins."""
    return _maximise(menus, menus.gain.sum(-1))


def maximise_usefulness(menus: Menus) -> Tensor:
    """Maximise USEFULNESS: the expected share of m(l)."""
    return _maximise(menus, share_of_best(menus.gain, menus.best.unsqueeze(1)).sum(-1))


def boltzmann(coefficient: float) -> Chooser:
    """Return the softmax over a coefficient times expected coins, divided by the menu's largest expected coins."""

    def choose(menus: Menus) -> Tensor:
        value = torch.where(menus.exists, menus.gain.sum(-1).double(), -torch.inf)
        scale = torch.where(menus.exists, menus.gain.sum(-1).double().abs(), 0).amax(-1, keepdim=True)
        return (coefficient * value / scale.clamp_min(1e-300)).softmax(-1)

    return choose


def neutrality_plus(menus: Menus) -> Tensor:
    """Maximise the mean over lengths of E[C | l] / m(l) among options of the same lengths; else choose uniformly."""
    value = share_of_best(menus.conditional_coins, menus.best.unsqueeze(1)).double().sum(-1)
    beaten = menus.alike & (value.unsqueeze(1) > value.unsqueeze(2) + ROUNDING)
    return _uniform_over(menus, ~beaten.any(-1))


def ideal(menus: Menus) -> Tensor:
    """Choose uniformly among undominated options, as POSL and neutrality demand.

    An option dominates another with the same lengths if it offers at least as many expected coins given each length,
    and more given one.
    """
    coins, others = menus.conditional_coins.double().unsqueeze(2), menus.conditional_coins.double().unsqueeze(1)
    slack = ROUNDING * coins.abs().clamp_min(1)
    dominated = (others >= coins - slack).all(-1) & (others > coins + slack).any(-1) & menus.alike
    return _uniform_over(menus, ~dominated.any(-1))


def uniform(menus: Menus) -> Tensor:
    """Choose uniformly."""
    return _uniform_over(menus, menus.exists)


MENU_POLICIES: dict[str, Chooser] = {
    "raw": maximise_coins,
    "over m": maximise_usefulness,
    "EV + softmax": boltzmann(10.0),
    "Neutrality+": neutrality_plus,
    "ideal": ideal,
    "uniform": uniform,
}
"""Scripted policies by name; the coefficient of the softmax is 10."""
