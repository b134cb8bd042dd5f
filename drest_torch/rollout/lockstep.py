"""Collect batches in lockstep: every slot acts in every tick, so the shapes of tensors never change.

A slot whose mini-episode has ended continues to act, and its further actions do not count. This is more work than
`drest_torch.rollout.collector.Collector` does. In return no operation waits for a number from the device: a GPU is kept
busy, the program can be compiled, and several agents can share one program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drest_torch.algos.batch import LockstepBatch, sample
from drest_torch.envs.dynamics.episodes import EpisodeState, StepResult, start_episodes, step_episodes
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.solver import Optima
from drest_torch.rollout.collector import Collector


class _Tick(NamedTuple):
    """The observations and actions of all slots in one tick."""

    observation: Tensor
    action: Tensor
    log_prob: Tensor
    after: EpisodeState
    step: StepResult


class _Round(NamedTuple):
    """The record of one round, a mini-episode of every slot: [ticks · slots, …]; the private bits are per slot."""

    observation: Tensor
    private_bits: Tensor | None
    action: Tensor
    log_prob: Tensor
    ended: Tensor
    played: Tensor


class LockstepCollector(Collector):
    """Collector in lockstep; ``compiled`` compiles a function (`torch.compile` with its options), or is None."""

    def __init__(self, *args: Any, compiled: Callable[..., Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._act = _act if compiled is None else compiled(_act)

    def set_levels(self, mdp: Mdp, optima: Optima, observe: Observation) -> None:
        super().set_levels(mdp, optima, observe)
        if mdp.any_free_bumps:
            raise ValueError("lockstep on the clock of moves, where a mini-episode has no last tick; use clock=steps")
        self.ticks = int(optima.lengths.max())

    def _play(self, policy: Any, level: Tensor, rounds: int) -> tuple[Any, Tensor, Tensor]:
        """Play the mini-episodes of a slot one after the other, so that each agent gets the numbers it gets alone."""
        records, lengths, coins = zip(*(self._play_round(policy, level) for _ in range(rounds)), strict=True)
        return records, torch.cat(lengths), torch.cat(coins)

    @torch.no_grad()
    def _play_round(self, policy: Any, level: Tensor) -> tuple[_Round, Tensor, Tensor]:
        """Play one mini-episode of every slot; return its steps, lengths and discounted coins."""
        slots = start_episodes(self.mdp, level)
        private_bits = self._sample_private(policy.private_bits, self.slots)
        live = torch.ones_like(level, dtype=torch.bool)
        coins = torch.zeros(self.slots, device=self.mdp.device)
        length = torch.zeros_like(level)
        ticks, live_in = [], []
        for _ in range(self.ticks):
            uniform = self.rng.uniform(self.slots, 4)
            luck = self.rng.uniform(self.slots) if self.mdp.any_chance else None
            tick = self._act(self.mdp, self.observe, policy, slots, private_bits, uniform, luck)
            coins += tick.step.coin * self.reward.gamma**slots.ticks * live
            length = torch.where(live, tick.step.length, length)
            ticks.append(tick)
            live_in.append(live)
            live = live & ~tick.step.mini_done
            slots = tick.after
        played = torch.cat(live_in)
        record = _Round(
            torch.cat([tick.observation for tick in ticks]),
            private_bits,
            torch.cat([tick.action for tick in ticks]),
            torch.cat([tick.log_prob for tick in ticks]),
            torch.cat([tick.step.mini_done for tick in ticks]) & played,
            played,
        )
        return record, length, coins

    def _batch(self, rounds: Sequence[_Round], reward: Tensor, context: Tensor) -> LockstepBatch:
        action = torch.cat([record.action for record in rounds])
        private_bits = [
            record.private_bits.repeat(self.ticks, 1) for record in rounds if record.private_bits is not None
        ]
        episode = torch.arange(len(rounds) * self.slots, device=action.device).reshape(len(rounds), 1, self.slots)
        return LockstepBatch(
            observation=torch.cat([record.observation for record in rounds]),
            private_bits=torch.cat(private_bits) if private_bits else None,
            seen=torch.arange(len(action), device=action.device),
            action=action,
            log_prob=torch.cat([record.log_prob for record in rounds]),
            episode=episode.expand(-1, self.ticks, -1).flatten(),
            ended=torch.cat([record.ended for record in rounds]),
            blocks=[self.slots] * (self.ticks * len(rounds)),
            slots=self.slots,
            group_size=self.group,
            reward=reward,
            context=context,
            played=torch.cat([record.played for record in rounds]),
            agents=self.rng.agents,
        )


def _act(
    mdp: Mdp,
    observe: Observation,
    policy: Any,
    slots: EpisodeState,
    private_bits: Tensor | None,
    uniform: Tensor,
    luck: Tensor | None,
) -> _Tick:
    """Let every slot act once."""
    observation = observe(slots.spot, slots.taken, slots.time_left)
    log_probs = policy(observation, private_bits).log_softmax(-1)
    action = sample(log_probs, uniform)
    after, step = step_episodes(mdp, slots, action, luck)
    return _Tick(observation, action, log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1), after, step)
