"""The slots of a batched environment: their states, their random streams, and the lengths of their levels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from drest_torch.envs import counter_rng as streams
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.solver import Optima


class EpisodeState(NamedTuple):
    """The states of the slots of a batch in their mini-episodes; all [B]."""

    level: Tensor
    start: Tensor
    """The start of the agent."""
    shutdown: Tensor
    """The time left at the start."""
    spot: Tensor
    taken: Tensor
    time_left: Tensor
    ticks: Tensor
    """The ticks of the mini-episode so far."""


class StepResult(NamedTuple):
    """The result of a step; all [B]."""

    coin: Tensor
    mini_done: Tensor
    length: Tensor
    """The ticks of the mini-episode, including this step: its trajectory-length at its end."""


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
    # Numbers that start from 0 are multiplied, which is cheaper than torch.where.
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


class Slots:
    """B slots that play mini-episodes on a level set, each with its own random streams of levels and of luck.

    ``now`` is their state, ``metas`` [B] the number of meta-episodes that each slot has started, and ``num_lengths``
    [B] the k of their levels. No tensor is changed in place.
    """

    now: EpisodeState

    def __init__(self, mdp: Mdp, optima: Optima, count: int) -> None:
        zero = torch.zeros(count, dtype=torch.int64, device=mdp.device)
        self.level_key = self.luck_key = self.metas = self._lucks = zero
        self.set_levels(mdp, optima)
        self._move(start_episodes(self.mdp, zero))

    def set_levels(self, mdp: Mdp, optima: Optima) -> None:
        """Set the level set for all following mini-episodes; every slot must start next."""
        self.mdp, self.optima = mdp.to(dtype=torch.float32), optima
        # For each level and tick, store the column of the length that ends there, and its m.
        lengths, best_return = optima.lengths, optima.best_return.float()
        shape = (mdp.num_levels, mdp.max_time + 1)
        columns = torch.arange(lengths.shape[1], device=mdp.device).expand_as(lengths)
        # Padding has length 0 and writes to tick 0, where no mini-episode ends.
        column = lengths.new_zeros(shape).scatter_(1, lengths, columns)
        column[:, 0] = 0
        self._column = column.reshape(-1)
        self._best_return = best_return.new_zeros(shape).scatter_(1, lengths, best_return).reshape(-1)
        self._ticks = shape[1]

    def seed(self, level_key: Tensor, luck_key: Tensor, slot: Tensor) -> None:
        """Restart the random streams of these slots [n], each of which must start next."""
        self.level_key = self.level_key.index_put((slot,), level_key)
        self.luck_key = self.luck_key.index_put((slot,), luck_key)
        self.metas, self._lucks = (count.index_fill(0, slot, 0) for count in (self.metas, self._lucks))

    def sample_levels(self, spread: int | None = None) -> Tensor:
        """Sample the level of each slot's next meta-episode [B].

        With ``spread`` this number of neighbouring slots share a level, and slots that start together cover the set
        evenly.
        """
        number = streams.uniform(self.level_key, self.metas)
        if spread is not None:
            place = torch.arange(len(number), device=number.device) // spread
            number = (place + number) / (len(number) // spread)
        return (number * self.mdp.num_levels).long().clamp_max(self.mdp.num_levels - 1)

    def start(self, level: Tensor, where: Tensor) -> None:
        """Start a mini-episode on these levels [B] in the slots of the mask ``where`` [B]."""
        fresh = start_episodes(self.mdp, level)
        self._move(EpisodeState(*(torch.where(where, new, old) for new, old in zip(fresh, self.now, strict=True))))

    def step(self, action: Tensor) -> StepResult:
        """Play one step in every slot; where a mini-episode ends, the next one starts on the same level."""
        luck = None
        if self.mdp.any_chance:
            luck = streams.uniform(self.luck_key, self._lucks)
            self._lucks = self._lucks + 1
        self.now, played = step_episodes(self.mdp, self.now, action, luck)
        return played

    def look_up(self, length: Tensor) -> tuple[Tensor, Tensor]:
        """Return the column and the m of a length of each slot's level [B]; other numbers give undefined values."""
        place = self.now.level * self._ticks + length
        return self._column.index_select(0, place), self._best_return.index_select(0, place)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the mutable state."""
        streams_state = {
            "level_key": self.level_key,
            "luck_key": self.luck_key,
            "meta": self.metas,
            "draws": self._lucks,
        }
        return streams_state | self.now._asdict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a state of `state_dict`."""
        self.level_key, self.luck_key = state["level_key"], state["luck_key"]
        self.metas, self._lucks = state["meta"], state["draws"]
        self._move(EpisodeState(*(state[name] for name in EpisodeState._fields)))

    def _move(self, now: EpisodeState) -> None:
        self.now = now
        self.num_lengths = self.optima.num_lengths[now.level]
