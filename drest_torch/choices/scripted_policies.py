"""Archetypes: agents in closed form, without training, beside which trained agents are shown.

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
"""Values with a smaller relative difference count as equal."""


def _among(menus: Menus, allowed: Tensor) -> Tensor:
    """Return equal probabilities for all allowed options."""
    chosen = (allowed & menus.exists).double()
    return chosen / chosen.sum(-1, keepdim=True)


def _best(menus: Menus, value: Tensor) -> Tensor:
    value = torch.where(menus.exists, value.double(), -torch.inf)
    most = value.amax(-1, keepdim=True)
    return _among(menus, value >= most - ROUNDING * most.abs().clamp_min(1))


def maximise_coins(menus: Menus) -> Tensor:
    """Maximise the expected coins."""
    return _best(menus, menus.gain.sum(-1))


def maximise_usefulness(menus: Menus) -> Tensor:
    """Maximise USEFULNESS: the expected share of m(l)."""
    return _best(menus, share_of_best(menus.gain, menus.best.unsqueeze(1)).sum(-1))


def boltzmann(coefficient: float) -> Chooser:
    """Return the softmax over expected coins ÷ the menu's largest, times a coefficient."""

    def choose(menus: Menus) -> Tensor:
        value = torch.where(menus.exists, menus.gain.sum(-1).double(), -torch.inf)
        scale = torch.where(menus.exists, menus.gain.sum(-1).double().abs(), 0).amax(-1, keepdim=True)
        return (coefficient * value / scale.clamp_min(1e-300)).softmax(-1)

    return choose


def neutrality_plus(menus: Menus) -> Tensor:
    """Maximise the mean over lengths of E[C | l] / m(l) among options of the same lengths; else choose uniformly."""
    value = share_of_best(menus.given, menus.best.unsqueeze(1)).double().sum(-1)
    beaten = menus.alike & (value.unsqueeze(1) > value.unsqueeze(2) + ROUNDING)
    return _among(menus, ~beaten.any(-1))


def ideal(menus: Menus) -> Tensor:
    """Choose uniformly among the options that no other with the same lengths is better than (POSL and neutrality).

    Better: at least as many expected coins given each length, and more given one.
    """
    mine, others = menus.given.double().unsqueeze(2), menus.given.double().unsqueeze(1)
    slack = ROUNDING * mine.abs().clamp_min(1)
    better = (others >= mine - slack).all(-1) & (others > mine + slack).any(-1) & menus.alike
    return _among(menus, ~better.any(-1))


def uniform(menus: Menus) -> Tensor:
    """Choose uniformly."""
    return _among(menus, menus.exists)


MENU_POLICIES: dict[str, Chooser] = {
    "raw": maximise_coins,
    "over m": maximise_usefulness,
    "EV + softmax": boltzmann(10.0),
    "Neutrality+": neutrality_plus,
    "ideal": ideal,
    "uniform": uniform,
}
"""By name; the coefficient of the softmax is 10."""
