"""Playing mini-episodes with the current policy and paying for them: what `collect` means in the loop.

A batch is whole mini-episodes, so no trajectory is cut off, and the longer ones are not missing from it.
``sequential``: every slot plays one meta-episode, E mini-episodes one after the other on one level.
``averaged``: a group of slots plays one mini-episode each, side by side on one level.

Movement and observations are the environment's own (`envs.dynamics.episodes.play`). A `Collector` leaves out slots that
have finished a round and runs the network once for each distinct input, which is what makes it fast on a processor. A
`LockstepCollector` (drest_torch/rollout/lockstep.py) plays all slots in every tick, which is what a GPU wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from algos.batch import Batch
from algos.generators import Draws
from drest_torch.reward import MetaEpisodes, Reward
from drest_torch.rollout.play import draw_noise, ticks
from envs.dynamics.mdp import Mdp
from envs.dynamics.observations import Observation
from envs.exact.solver import Optima


@dataclass
class _Round:
    """What one round of mini-episodes left behind, tick by tick."""

    observation: list[Tensor]
    noise: list[Tensor]
    seen: list[Tensor]
    action: list[Tensor]
    log_prob: list[Tensor]
    slot: list[Tensor]
    ended: list[Tensor]


class Collector:
    """Collects batches on a level set; all that it draws comes from ``draws``.

    ``most_lengths`` is the k of levels that are still to come, where it is larger.
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
        draws: Draws | torch.Generator,
        noise_bits: bool = True,
        most_lengths: int | None = None,
    ) -> None:
        self.slots, self.group, self.draws = slots, group, Draws.of(draws)
        self.noise_bits = noise_bits
        self.most_lengths = most_lengths or optima.lengths.shape[1]
        self.play_on(mdp, optima, observe)
        self.meta = self._meta_episodes(reward)
        self.context_size = self.most_lengths if self.meta.in_order else 0

    @property
    def reward(self) -> Reward:
        """How mini-episodes are paid."""
        return self.meta.reward

    def pay_by(self, reward: Reward) -> None:
        """Pay by this reward from now on; how mini-episodes are counted cannot change."""
        if reward != self.reward:
            self.meta = self._meta_episodes(reward)

    def _meta_episodes(self, reward: Reward) -> MetaEpisodes:
        return MetaEpisodes(reward, self.slots, self.most_lengths, group=self.group, device=self.mdp.device)

    def play_on(self, mdp: Mdp, optima: Optima, observe: Observation) -> None:
        """The level set of the batches from now on."""
        self.mdp = mdp.to(dtype=torch.float32)
        self.optima, self.observe = optima, observe
        self.num_lengths = optima.num_lengths
        missing = self.most_lengths - optima.lengths.shape[1]
        self._best = torch.nn.functional.pad(optima.best_return.float(), (0, missing))

    def collect(self, policy: Any) -> Batch:
        """Play one batch with the policy as it is."""
        level = self._draw_levels()
        k = self.num_lengths[level]
        played: list[Any] = []
        rewards, contexts = [], []
        self.meta.begin()
        for _ in range(self.reward.episodes_per_meta if self.meta.in_order else 1):
            one, column, coins = self._play_round(policy, level)
            contexts.append(self.meta.context(k))
            paid, _ = self.meta.pay(coins, column, k, self._best[level, column])
            rewards.append(paid)
            played.append(one)
        return self._batch(played, torch.cat(rewards), torch.cat(contexts))

    def _draw_levels(self) -> Tensor:
        """A level for each group, spread evenly over the set for each agent."""
        groups = self.slots // self.group
        each = groups // self.draws.agents
        place = torch.arange(groups, device=self.mdp.device) % each
        spread = (place + self.draws.uniform(groups, dtype=torch.float64)) / each
        level = (spread * self.mdp.num_levels).long().clamp_max(self.mdp.num_levels - 1)
        return level.repeat_interleave(self.group, output_size=self.slots)

    @torch.no_grad()
    def _play_round(self, policy: Any, level: Tensor) -> tuple[_Round, Tensor, Tensor]:
        """One mini-episode of every slot: its steps, the column of its length, its discounted coins."""
        one = _Round([], [], [], [], [], [], [])
        noise = self._draw_noise(policy.noise)
        coins = torch.zeros(self.slots, device=self.mdp.device)
        length = torch.zeros_like(level)
        for tick in ticks(self.mdp, self.observe, policy, level, noise, self.draws, noise_bits=self.noise_bits):
            coins[tick.slot] += tick.step.coin * self.reward.gamma**tick.before.ticks
            length[tick.slot] = tick.step.length
            one.observation.append(tick.observation)
            if tick.noise is not None:
                one.noise.append(tick.noise)
            one.seen.append(tick.seen)
            one.action.append(tick.action)
            one.log_prob.append(tick.log_probs.gather(-1, tick.action.unsqueeze(-1)).squeeze(-1))
            one.slot.append(tick.slot)
            one.ended.append(tick.step.mini_done)
        return one, self._column(level, length), coins

    def _column(self, level: Tensor, length: Tensor) -> Tensor:
        return (self.optima.lengths[level] == length.unsqueeze(-1)).int().argmax(-1)

    def _draw_noise(self, count: int) -> Tensor | None:
        return draw_noise(self.draws, self.slots, count, self.noise_bits)

    def _batch(self, played: list[_Round], reward: Tensor, context: Tensor) -> Batch:
        ticks = [(one, t) for one in played for t in range(len(one.action))]
        sizes = [len(one.observation[t]) for one, t in ticks]
        before = accumulate(sizes[:-1], initial=0)
        return Batch(
            observation=torch.cat([one.observation[t] for one, t in ticks]),
            noise=torch.cat([one.noise[t] for one, t in ticks]) if played[0].noise else None,
            seen=torch.cat([one.seen[t] + offset for (one, t), offset in zip(ticks, before, strict=True)]),
            action=torch.cat([one.action[t] for one, t in ticks]),
            log_prob=torch.cat([one.log_prob[t] for one, t in ticks]),
            episode=torch.cat(
                [one.slot[t] + i * self.slots for i, one in enumerate(played) for t in range(len(one.slot))]
            ),
            ended=torch.cat([one.ended[t] for one, t in ticks]),
            blocks=[len(one.action[t]) for one, t in ticks],
            slots=self.slots,
            group_size=self.group,
            reward=reward,
            context=context,
        )
