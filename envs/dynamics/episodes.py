"""Slots of a batch that play mini-episodes side by side, as plain functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from envs.dynamics.mdp import Mdp


class Slots(NamedTuple):
    """Where each slot of a batch stands in its mini-episode; all [B]."""

    level: Tensor
    start: Tensor
    """The spot where the level starts."""
    shutdown: Tensor
    """The time left at the start of the level."""
    spot: Tensor
    taken: Tensor
    time_left: Tensor
    ticks: Tensor
    """Ticks taken in this mini-episode."""


class Played(NamedTuple):
    """What a step gave; all [B]."""

    coin: Tensor
    mini_done: Tensor
    length: Tensor
    """Ticks of the mini-episode so far, this step's included: its trajectory-length where it is done."""


def begin(mdp: Mdp, level: Tensor) -> Slots:
    """Slots at the start of a mini-episode on these levels."""
    start, shutdown = mdp.start[level], mdp.shutdown[level]
    return Slots(level, start, shutdown, start, torch.zeros_like(start), shutdown, torch.zeros_like(start))


def play(mdp: Mdp, slots: Slots, action: Tensor, luck: Tensor | None = None) -> tuple[Slots, Played]:
    """One step of every slot as a plain function of tensors; a mini-episode that ends starts anew."""
    arrival = mdp.advance(slots.spot, slots.taken, action, luck)
    time_left = slots.time_left - arrival.ticks + arrival.delay
    ticks = slots.ticks + arrival.ticks
    ended = time_left == 0
    # Multiplying is cheaper than torch.where for the numbers that start from 0.
    goes_on = ~ended
    after = Slots(
        slots.level,
        slots.start,
        slots.shutdown,
        torch.where(ended, slots.start, arrival.spot),
        arrival.taken * goes_on,
        torch.where(ended, slots.shutdown, time_left),
        ticks * goes_on,
    )
    return after, Played(arrival.coin, ended, ticks)
