"""Collect batches: play mini-episodes with the current policy and pay for them.

A batch consists of whole mini-episodes: no trajectory is cut off, so long trajectories are not underrepresented.
With ``sequential`` counting every slot plays one meta-episode, E mini-episodes on one level. The policy sees nothing of
earlier mini-episodes, so they are played at the same time and then counted and paid in their order.
With ``averaged`` counting a group of slots plays one mini-episode each, side by side on one level.

Movement and observations are those of the environment (`drest_torch.envs.dynamics.episodes.step_episodes`). A
`Collector` skips slots whose mini-episode has ended and runs the network once for each distinct input, which is
fast on a CPU. A `LockstepCollector` (drest_torch/rollout/lockstep.py) plays all slots in every tick, which is fast on
a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.batch import Batch
from drest_torch.algos.generators import Generators
from drest_torch.algos.objectives.base import Objective, Played
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.solver import Optima
from drest_torch.reward import Paymaster, Reward, alike_in_group
from drest_torch.rollout.play import sample_private_bits, ticks


@dataclass
class _Record:
    """The record of all mini-episodes of a batch: one tensor per tick."""

    observation: list[Tensor]
    private_bits: list[Tensor]
    seen: list[Tensor]
    action: list[Tensor]
    log_prob: list[Tensor]
    episode: list[Tensor]
    ended: list[Tensor]


class Collector:
    """Collector of batches on a level set. All its random numbers come from ``draws``.

    ``most_lengths`` is the largest k of the level sets that come later, if it is larger than that of the first set.
    """

    def __init__(
        self,
        mdp: Mdp,
        optima: Optima,
        observe: Observation,
        reward: Reward,
        *,
        slots: int,
        group: int,
        rng: Generators | torch.Generator,
        are_bits: bool = True,
        most_lengths: int | None = None,
        objective: Objective | None = None,
    ) -> None:
        self.slots, self.group, self.rng = slots, group, Generators.of(rng)
        self.are_bits, self.objective = are_bits, objective
        self.most_lengths = most_lengths or optima.lengths.shape[1]
        self.set_levels(mdp, optima, observe)
        self.meta = self._meta_episodes(reward)
        self.context_size = self.most_lengths if self.meta.in_order else 0

    @property
    def reward(self) -> Reward:
        """The reward that mini-episodes are paid by."""
        return self.meta.reward

    def set_reward(self, reward: Reward) -> None:
        """Pay by this reward from now on; its counting must be that of the old reward."""
        if reward != self.reward:
            self.meta = self._meta_episodes(reward)

    def _meta_episodes(self, reward: Reward) -> Paymaster:
        return Paymaster(reward, self.slots, self.most_lengths, group=self.group, device=self.mdp.device)

    def set_levels(self, mdp: Mdp, optima: Optima, observe: Observation) -> None:
        """Collect on this level set from now on."""
        self.mdp = mdp.to(dtype=torch.float32)
        self.optima, self.observe = optima, observe
        self.num_lengths = optima.num_lengths
        missing = self.most_lengths - optima.lengths.shape[1]
        self._best = torch.nn.functional.pad(optima.best_return.float(), (0, missing))

    def collect(self, policy: Any) -> Batch:
        """Play one batch with the current policy."""
        level = self._sample_levels()
        record, length, coins = self._play(policy, level, self.reward.episodes_per_meta if self.meta.in_order else 1)
        k = self.num_lengths[level]
        rewards, contexts, columns = [], [], []
        self.meta.begin()
        for length_now, coins_now in zip(length.split(self.slots), coins.split(self.slots), strict=True):
            column = self._column(level, length_now)
            columns.append(column)
            contexts.append(self.meta.context(k))
            rewards.append(self.meta.pay(coins_now, column, k, self._best[level, column])[0])
        batch = self._batch(record, torch.cat(rewards), torch.cat(contexts))
        return batch if self.objective is None else self._paid(batch, self.objective, level, torch.cat(columns), coins)

    def _paid(self, batch: Batch, objective: Objective, level: Tensor, column: Tensor, coins: Tensor) -> Batch:
        """Return the batch, paid by an objective instead of the reward."""
        rounds = len(column) // self.slots
        live = torch.ones_like(batch.log_prob) if batch.played is None else batch.played.to(batch.log_prob)
        empty = torch.zeros_like(coins)
        played = Played(
            coins,
            self.reward.preliminary(coins, self._best[level.repeat(rounds), column]),
            column,
            alike_in_group(column, self.most_lengths, self.group) - 1,
            self.group - 1,
            self.num_lengths[level].repeat(rounds),
            empty.index_add(0, batch.episode, batch.log_prob * live),
            empty.index_add(0, batch.episode, live),
        )
        return replace(batch, reward=objective.pay(played))

    def _sample_levels(self) -> Tensor:
        """Sample a level for each group, spread evenly over the set for each agent."""
        groups = self.slots // self.group
        per_agent = groups // self.rng.agents
        place = torch.arange(groups, device=self.mdp.device) % per_agent
        spread = (place + self.rng.uniform(groups, dtype=torch.float64)) / per_agent
        level = (spread * self.mdp.num_levels).long().clamp_max(self.mdp.num_levels - 1)
        return level.repeat_interleave(self.group, output_size=self.slots)

    @torch.no_grad()
    def _play(self, policy: Any, level: Tensor, rounds: int) -> tuple[Any, Tensor, Tensor]:
        """Play so many mini-episodes of every slot; return their steps, lengths and discounted coins.

        Mini-episode i of slot s is number i · slots + s.
        """
        record = _Record([], [], [], [], [], [], [])
        level = level.repeat(rounds)
        private_bits = self._sample_private(policy.private_bits, len(level))
        coins = torch.zeros(len(level), device=self.mdp.device)
        length = torch.zeros_like(level)
        for tick in ticks(self.mdp, self.observe, policy, level, private_bits, self.rng, are_bits=self.are_bits):
            coins[tick.slot] += tick.step.coin * self.reward.gamma**tick.before.ticks
            length[tick.slot] = tick.step.length
            record.observation.append(tick.observation)
            if tick.private_bits is not None:
                record.private_bits.append(tick.private_bits)
            record.seen.append(tick.seen)
            record.action.append(tick.action)
            record.log_prob.append(tick.log_probs.gather(-1, tick.action.unsqueeze(-1)).squeeze(-1))
            record.episode.append(tick.slot)
            record.ended.append(tick.step.mini_done)
        return record, length, coins

    def _column(self, level: Tensor, length: Tensor) -> Tensor:
        """Return the index of each length among the lengths of its level."""
        return (self.optima.lengths[level] == length.unsqueeze(-1)).int().argmax(-1)

    def _sample_private(self, count: int, episodes: int) -> Tensor | None:
        return sample_private_bits(self.rng, episodes, count, self.are_bits)

    def _batch(self, record: Any, reward: Tensor, context: Tensor) -> Batch:
        before = accumulate(map(len, record.observation[:-1]), initial=0)
        return Batch(
            observation=torch.cat(record.observation),
            private_bits=torch.cat(record.private_bits) if record.private_bits else None,
            seen=torch.cat([seen + offset for seen, offset in zip(record.seen, before, strict=True)]),
            action=torch.cat(record.action),
            log_prob=torch.cat(record.log_prob),
            episode=torch.cat(record.episode),
            ended=torch.cat(record.ended),
            blocks=[len(action) for action in record.action],
            slots=self.slots,
            group_size=self.group,
            reward=reward,
            context=context,
        )
