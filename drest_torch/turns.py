"""A turn of training: something to learn from is got, and the algorithm learns from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algos.tabular import rules_for
from drest_torch import data
from drest_torch.collection import Collector, Reward
from drest_torch.config import Config, learns_from
from drest_torch.evaluation import ExactLevels
from drest_torch.tables import check_finite, tabulate
from envs.mdp import Mdp
from envs.observations import Observation
from envs.solver import solve


@dataclass(frozen=True)
class Taken:
    """What a turn came to."""

    steps: int
    """Environment steps."""
    episodes: int
    """Mini-episodes."""
    metrics: dict[str, float | Tensor]


class Turn(ABC):
    """Where an algorithm's turns come from; a subclass for each of `Learner.learns_from`."""

    context_size = 0
    """Numbers that are known of the meta-episode, for a critic."""

    def begin(self, learner: Any) -> None:  # noqa: B027 (most need nothing)
        """Before the first turn."""

    @abstractmethod
    def take(self, learner: Any) -> Taken: ...


class PlayedTurn(Turn):
    """A batch of mini-episodes, played with the policy as it is."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.context_size = collector.context_size

    def take(self, learner: Any) -> Taken:
        batch = self.collector.collect(learner.policy)
        metrics = learner.update(batch)
        played = {"train/return": batch.reward.mean(), "train/mini_episode_steps": batch.steps / batch.episodes}
        return Taken(batch.steps, batch.episodes, metrics | played)


class ExactTurn(Turn):
    """Levels with their outcome in closed form."""

    def __init__(self, levels: ExactLevels, counted_as: int, generator: torch.Generator) -> None:
        self.levels, self.counted_as, self.generator = levels, counted_as, generator

    def take(self, learner: Any) -> Taken:
        return Taken(self.counted_as, 0, learner.update(self.levels.draw(self.generator)))


class WorldTurn(Turn):
    """Mini-episodes that the algorithm itself plays in a world, learning from each."""

    def __init__(self, mdp: Mdp, reward: Reward, config: Any) -> None:
        optima = solve(mdp, reward.gamma)
        divisor = optima.best_return[0] if reward.divide_by_best else torch.ones_like(optima.best_return[0])
        self.worlds = tabulate(mdp, optima)
        self.episodes = config.episodes
        self.rules = rules_for(
            1,
            config,
            divisor.tolist(),
            lam=reward.lam,
            gamma=reward.gamma,
            episodes_per_meta=reward.episodes_per_meta,
            clip=reward.clip,
        )

    def begin(self, learner: Any) -> None:
        learner.begin(self.worlds, self.rules)

    def take(self, learner: Any) -> Taken:
        before = int(learner.state.steps[0])
        metrics = learner.update(self.episodes)
        check_finite(learner.state.logits)
        steps = int(learner.state.steps[0]) - before
        return Taken(steps, self.episodes, metrics | {"train/mini_episode_steps": steps / self.episodes})


def turn_of(cfg: Config, levels: data.Levels, mdp: Mdp, observe: Observation, generator: torch.Generator) -> Turn:
    """The turns of a run's algorithm."""
    reward = reward_of(cfg)
    if learns_from(cfg) == "world":
        return WorldTurn(mdp, reward, cfg.algo)
    if learns_from(cfg) == "levels":
        exact = ExactLevels(
            levels.train,
            cfg.policy.observation,
            gamma=reward.gamma,
            at_once=cfg.algo.levels_at_once,
            at_least=(mdp.height, mdp.width),
            device=mdp.device,
        )
        return ExactTurn(exact, cfg.algo.counted_as, generator)
    slots, group = data.slots_and_group(cfg)
    noise_bits = cfg.policy.noise_kind == "bits"
    optima = solve(mdp, reward.gamma)
    return PlayedTurn(
        Collector(mdp, optima, observe, reward, slots=slots, group=group, generator=generator, noise_bits=noise_bits)
    )


def reward_of(cfg: Config) -> Reward:
    reward = cfg.reward
    return Reward(
        lam=reward.lam,
        gamma=reward.gamma,
        episodes_per_meta=reward.episodes_per_meta,
        counting=reward.counting,
        divide_by_best=reward.divide_by_best,
        clip=reward.clip,
    )
