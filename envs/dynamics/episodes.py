"""The stepping of a batch of slots that play mini-episodes side by side, as plain functions of tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import Mdp


class EpisodeState(NamedTuple):
    """The state of each slot of a batch in its mini-episode; all [B]."""

    level: Tensor
    start: Tensor
    """The spot where the agent starts."""
    shutdown: Tensor
    """The time left at the start."""
    spot: Tensor
    taken: Tensor
    time_left: Tensor
    ticks: Tensor
    """Ticks taken in this mini-episode."""


class StepResult(NamedTuple):
    """The result of a step; all [B]."""

    coin: Tensor
    mini_done: Tensor
    length: Tensor
    """Ticks of the mini-episode up to and including this step: its trajectory-length if it is done."""


def start_episodes(mdp: Mdp, level: Tensor) -> EpisodeState:
    """Return slots at the start of a mini-episode on these levels."""
    start, shutdown = mdp.start[level], mdp.shutdown[level]
    return EpisodeState(level, start, shutdown, start, torch.zeros_like(start), shutdown, torch.zeros_like(start))


def step_episodes(
    mdp: Mdp, slots: EpisodeState, action: Tensor, luck: Tensor | None = None
) -> tuple[EpisodeState, StepResult]:
    """Play one step in every slot, and start the next mini-episode where one ends."""
    arrival = mdp.advance(slots.spot, slots.taken, action, luck)
    time_left = mdp.time_after(slots.time_left, arrival)
    ticks = slots.ticks + arrival.ticks
    ended = time_left == 0
    # Multiplying is cheaper than torch.where for the numbers that start from 0.
    continues = ~ended
    after = EpisodeState(
        slots.level,
        slots.start,
        slots.shutdown,
        torch.where(ended, slots.start, arrival.spot),
        arrival.taken * continues,
        torch.where(ended, slots.shutdown, time_left),
        ticks * continues,
    )
    return after, StepResult(arrival.coin, ended, ticks)
