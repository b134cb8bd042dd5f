"""Gridworld environments for training: slots on a level set, and the reward of their mini-episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from drest_torch.algos.actor import StateView
from drest_torch.algos.distributions import one_of
from drest_torch.algos.objectives.base import EpisodeBatch, Objective
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.solver import Optima
from drest_torch.envs.interfaces.torchrl_env import STATE, GridworldEnv
from drest_torch.play.collector import Environment
from drest_torch.reward import Reward
from drest_torch.transforms import DReSTReward, PrivateBits
from drest_torch.transforms.base import appended
from drest_torch.transforms.mini_episodes import MiniEpisodes

FREE_BUMPS = 2
"""An estimate of the actions per tick of an untrained policy, if bumps take no time."""
Compiled = tuple[Mdp, Optima, Observation]
"""A compiled level set, with its solution and its observation."""
PATIENCE = 100
"""The maximum number of actions per tick: on the clock moves a mini-episode might otherwise never end."""


class Gridworlds(Environment):
    """An environment of slots on a level set, which shows policies the numbers of states."""

    base: GridworldEnv
    sample: Callable[[int], Compiled] | None = None
    """A sampler of this many levels for the next batch; None: all batches have the same levels."""

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
        most_lengths: int | None = None,
    ) -> Gridworlds:
        """Return an environment whose slots play ``rounds`` mini-episodes each; the slots of a group share a level."""
        base = GridworldEnv(
            mdp, slots, episodes_per_meta=rounds, observation=STATE, group=group, together=True, optima=optima
        )
        env: EnvBase = base
        if private_bits:
            env = appended(env, PrivateBits(private_bits))
        worlds = cls(
            env=env,
            ends=base,
            sees=STATE,
            actions=one_of(NUM_ACTIONS, normalised=True),
            num_lengths=most_lengths or optima.lengths.shape[1],
            private_bits=private_bits,
            group=group,
            view=StateView(),
            rounds=rounds,
        )
        worlds.base = base
        worlds._look_at(mdp, optima, observe)
        return worlds

    def renew_levels(self) -> None:
        if self.sample is not None:
            groups = self.env.batch_size.numel() // (self.group or 1)
            self.set_levels(*self.sample(groups))

    def set_levels(self, mdp: Mdp, optima: Optima, observe: Observation) -> None:
        """Set the level set of the next batches."""
        self.base.set_levels(mdp, optima)
        self._look_at(mdp, optima, observe)

    def metrics(self) -> dict[str, Any]:
        return self.drest.objective.metrics() if isinstance(self.drest, ObjectiveReward) else {}

    def _look_at(self, mdp: Mdp, optima: Optima, observe: Observation) -> None:
        assert self.view is not None
        self.view.observe = lambda number: observe(*mdp.states.decode(number))
        patience = bumps = 1
        if mdp.any_free_bumps:
            patience, bumps = PATIENCE, FREE_BUMPS
        self.most_steps = self.base.episodes_per_meta * mdp.max_time * patience
        longest = optima.lengths.max(1).values.float().mean()
        self.expected_turn = bumps * float(longest)

    def pay(self, reward: Reward, *, shows_counts: bool = False, objective: Objective | None = None) -> None:
        """Set the reward of mini-episodes, or an ``objective`` in its place."""
        kind = DReSTReward if objective is None else ObjectiveReward
        drest = kind.from_reward(reward, num_lengths=self.num_lengths, group=self.group or 1)
        drest.zero_best = True
        if objective is not None:
            assert isinstance(drest, ObjectiveReward)
            drest.objective = objective
        self.pay_by(drest, shows_counts=shows_counts)


class ObjectiveReward(DReSTReward):
    """The reward of mini-episodes under an objective, which compares the mini-episodes of a group."""

    objective: Objective

    def paid(self, episodes: MiniEpisodes, batch: TensorDictBase) -> Tensor:
        """Return the reward of the objective [slots, rounds]."""
        slots, rounds = episodes.length.shape
        log_prob, best = batch.get("action_log_prob"), episodes.best_return
        played = EpisodeBatch(
            coins=episodes.coins.T.flatten(),
            share=self.reward.preliminary(episodes.coins, best).T.flatten(),
            column=episodes.length.clamp_min(0).T.flatten(),
            alike=self.alike(episodes.length).T.flatten(),
            others=self.group - 1,
            num_lengths=episodes.num_lengths.T.flatten(),
            log_prob=episodes.total(log_prob).T.flatten(),
            steps=episodes.total(torch.ones_like(log_prob)).T.flatten(),
            returns=super().paid(episodes, batch).T.flatten(),
        )
        paid = self.objective.pay(played).reshape(rounds, slots).T
        return torch.where(episodes.length >= 0, paid, 0)
