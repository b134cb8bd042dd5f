"""Playing mini-episodes with the current policy and paying for them: what `collect` means in the loop.

A batch is whole mini-episodes, so no trajectory is cut off, and the longer ones are not missing from it.
``sequential``: every slot plays one meta-episode, E mini-episodes one after the other on one level.
``averaged``: a group of slots plays one mini-episode each, side by side on one level.

Movement and observations are the environment's own (`envs.dynamics.episodes.play`). A `Collector` leaves out slots that
have finished a round and runs the network once for each distinct input, which is what makes it fast on a processor. A
`LockstepCollector` (drest_torch/rollout/lockstep.py) plays all slots in every tick, which is what a GPU wants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from algos.batch import Batch
from algos.generators import Draws
from drest_torch.reward import (
    COUNTINGS,
    Reward,
    group_discount,
    overall_return,
    sequential_discount,
    sequential_exponent,
)
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
        if reward.counting not in COUNTINGS:
            raise ValueError(f"no counting '{reward.counting}'; expected one of {', '.join(COUNTINGS)}")
        if slots % group:
            raise ValueError(f"{slots} slots cannot be grouped by {group}; expected a group size that divides them")
        if reward.counting == "averaged" and group < 2:
            raise ValueError(f"averaged counting with groups of {group}; expected at least 2 slots on a level")
        self.slots, self.group, self.draws = slots, group, Draws.of(draws)
        self.noise_bits = noise_bits
        self.most_lengths = most_lengths or optima.lengths.shape[1]
        self.context_size = self.most_lengths if reward.counting == "sequential" else 0
        self.play_on(mdp, optima, observe)
        self.pay_by(reward)

    def pay_by(self, reward: Reward) -> None:
        """The reward from now on; how mini-episodes are counted cannot change."""
        self.reward = reward
        self._discounts = _discount_tables(reward, self.group, self.most_lengths).to(self.mdp.device)

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
        rounds = self.reward.episodes_per_meta if self.reward.counting == "sequential" else 1
        counts = torch.zeros(self.slots, self._best.shape[1], device=self.mdp.device)
        played: list[Any] = []
        rewards, contexts = [], []
        for index in range(rounds):
            one, column, coins = self._play_round(policy, level)
            contexts.append(self._context(counts, index, level))
            rewards.append(self._pay(coins, column, level, counts, index))
            counts = counts.scatter_add(1, column.unsqueeze(-1), torch.ones_like(counts[:, :1]))
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

    def _context(self, counts: Tensor, index: int, level: Tensor) -> Tensor:
        """[slots, F] log of the discount that each length would get now; nothing where counts are not known."""
        if self.context_size == 0:
            return counts[:, :0]
        k = self.num_lengths[level].unsqueeze(-1)
        return sequential_exponent(counts, index, k) * math.log(self.reward.lam)

    def _pay(self, coins: Tensor, column: Tensor, level: Tensor, counts: Tensor, index: int) -> Tensor:
        """[slots] the overall reward of each mini-episode of a round."""
        k = self.num_lengths[level]
        if self.reward.counting == "sequential":
            before = counts.gather(1, column.unsqueeze(-1)).squeeze(-1)
            discount = sequential_discount(before, index, k, self.reward.lam)
        else:
            columns = torch.arange(self._best.shape[1], device=column.device)
            same = (column.unsqueeze(-1) == columns).reshape(-1, self.group, len(columns))
            others = same.sum(1, keepdim=True).expand_as(same).reshape(self.slots, -1)
            discount = self._discounts[k, others.gather(1, column.unsqueeze(-1)).squeeze(-1) - 1]
        best = self._best[level, column] if self.reward.divide_by_best else None
        return overall_return(coins, discount, best, self.reward.clip)

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


def _discount_tables(reward: Reward, group: int, max_lengths: int) -> Tensor:
    """[k, n] the averaged discount where n of the group's others have the same length (rows 0 unused)."""
    tables = torch.zeros(max_lengths + 1, group)
    for k in range(1, max_lengths + 1):
        tables[k] = group_discount(k, group, reward.episodes_per_meta, reward.lam)
    return tables
