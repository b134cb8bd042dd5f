"""Gridworlds as a policy plays them, and how their mini-episodes are paid."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import Compose, EnvBase, TransformedEnv

from drest_torch.algos.actor import StateView
from drest_torch.algos.distributions import one_of
from drest_torch.algos.objectives.base import Objective, Played
from drest_torch.collector import Environment
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.solver import Optima
from drest_torch.envs.interfaces.torchrl_env import STATE, GridworldEnv
from drest_torch.reward import Reward
from drest_torch.transforms import DReSTReward, PrivateBits
from drest_torch.transforms.drest_reward import MiniEpisodes
from drest_torch.transforms.on_batches import LogDiscounts

UNREAD = (
    *("best_return", "mini_len", "mini_done", "mini_idx", "done", "terminated"),
    *(("next", key) for key in (STATE, "tick", "mini_idx", "terminated")),
)
"""What is read of a step is what it comes to, and not what it begins with, or the other way round."""
PATIENCE = 100
"""On a clock that counts moves a mini-episode may never end. It is given up after this many actions per tick."""


class Gridworlds(Environment):
    """Slots that play on a level set, and show policies the numbers of their states."""

    base: GridworldEnv

    @classmethod
    def on(
        cls,
        mdp: Mdp,
        optima: Optima,
        observe: Observation,
        *,
        slots: int,
        rounds: int = 1,
        group: int = 1,
        private_bits: int = 0,
        private_kind: str = "bits",
        most_lengths: int | None = None,
    ) -> Gridworlds:
        """Return slots that play so many mini-episodes each, neighbours of a group on the same level."""
        base = GridworldEnv(
            mdp, slots, episodes_per_meta=rounds, observation=STATE, group=group, together=True, optima=optima
        )
        env: EnvBase = base
        if private_bits:
            env = TransformedEnv(env, PrivateBits(private_bits, kind=private_kind))
        worlds = cls(
            env=env,
            ends=base,
            sees=STATE,
            actions=one_of(NUM_ACTIONS, normalised=True),
            num_lengths=most_lengths or optima.lengths.shape[1],
            private_bits=private_bits,
            private_kind=private_kind,
            group=group,
            view=StateView(lambda number: observe(*mdp.states.of(number))),
            unread=UNREAD,
        )
        worlds.base = base
        worlds.set_levels(mdp, optima, observe)
        return worlds

    def set_levels(self, mdp: Mdp, optima: Optima, observe: Observation) -> None:
        """Play on this level set from the next batch on."""
        self.base.set_levels(mdp, optima)
        assert self.view is not None
        self.view.set(lambda number: observe(*mdp.states.of(number)))
        patience = PATIENCE if mdp.any_free_bumps else 1
        self.most_steps = self.base.episodes_per_meta * mdp.max_time * patience

    def pay(self, reward: Reward, *, shows_counts: bool = False, objective: Objective | None = None) -> None:
        """Pay for mini-episodes: in the environment where a slot plays a whole meta-episode, else for groups of slots.

        With ``shows_counts`` a critic sees the counts. An objective that is no reward pays in its place.
        """
        if objective is not None:
            kind: type[DReSTReward] = ObjectiveReward
        else:
            kind = DReSTReward
        group = self.group or 1
        self.drest = drest = kind.of(reward, num_lengths=self.num_lengths, group=group)
        if objective is not None:
            assert isinstance(drest, ObjectiveReward)
            drest.objective = objective
        on_batches: list[Any] = [drest]
        if group == 1:
            on_batches = []
            self.env = (
                self.env.append_transform(drest)
                if isinstance(self.env, TransformedEnv)
                else TransformedEnv(self.env, drest)
            )
        self.shows_counts = shows_counts
        if shows_counts:
            on_batches.append(LogDiscounts(drest))
        self.postproc = Compose(*on_batches) if on_batches else None


class ObjectiveReward(DReSTReward):
    """Pays mini-episodes by an objective instead of the reward; the mini-episodes of a group are compared."""

    objective: Objective

    def paid(self, episodes: MiniEpisodes, batch: TensorDictBase) -> Tensor:
        """Return what the objective pays [slots, rounds]."""
        slots, rounds = episodes.length.shape
        one_hot = self.counted(episodes.length)
        alike = self.of_length(one_hot.sum(1, keepdim=True).expand_as(one_hot), episodes.length).long()
        log_prob = batch.get("action_log_prob")
        live = (episodes.round < rounds).to(log_prob.dtype)
        sums = torch.zeros(2, slots, rounds + 1, device=log_prob.device)
        place = episodes.round.clamp_max(rounds)
        for total, value in zip(sums, (log_prob * live, live), strict=True):
            total.scatter_add_(1, place, value)
        best = episodes.best_return
        taken, played_steps = (total[:, :rounds].T.flatten() for total in sums)
        played = Played(
            episodes.coins.T.flatten(),
            self.reward.preliminary(episodes.coins, best).T.flatten(),
            episodes.length.clamp_min(0).T.flatten(),
            (alike - 1).clamp_min(0).T.flatten(),
            self.group - 1,
            episodes.num_lengths.T.flatten(),
            taken,
            played_steps,
        )
        paid = self.objective.pay(played).reshape(rounds, slots).T
        return torch.where(episodes.length >= 0, paid, 0)
