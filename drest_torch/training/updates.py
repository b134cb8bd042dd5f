"""A turn of training: something to learn from is got, and the algorithm learns from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from algos.generators import Draws
from algos.tabular import rules_for
from drest_torch.config.checks import slots_and_group
from drest_torch.config.schema import Config, in_lockstep, learns_from
from drest_torch.evaluation.exact import check_at_once
from drest_torch.evaluation.tabular import check_finite, tabulate
from drest_torch.reward import Reward
from drest_torch.rollout.collector import Collector
from drest_torch.rollout.lockstep import LockstepCollector
from drest_torch.training import levels as data
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import Source, Stream
from envs.dynamics.mdp import Mdp, compile_levels
from envs.dynamics.observations import Observation, make_observation
from envs.exact.solver import Optima, solve
from envs.levels import Level

Ready = tuple[Mdp, Optima, Observation]
"""A level set that can be played on."""


@dataclass(frozen=True)
class Taken:
    """What a turn came to."""

    steps: int
    """Environment steps of each agent."""
    episodes: int
    """Mini-episodes of each agent."""
    metrics: dict[str, float | Tensor]


class Turn(ABC):
    """Where an algorithm's turns come from; a subclass for each of `Learner.learns_from`."""

    context_size = 0
    """Numbers that are known of the meta-episode, for a critic."""

    def begin(self, learner: Any) -> None:  # noqa: B027 (most need nothing)
        """Before the first turn."""

    @abstractmethod
    def take(self, learner: Any, reward: Reward) -> Taken:
        """Take a turn in which mini-episodes are paid by this reward."""

    def tensors(self) -> dict[str, Tensor]:
        """Its own state; writing to them and calling `restored` sets it."""
        return {}

    def restored(self) -> None:  # noqa: B027 (most have no state)
        """After its tensors were written to."""


class SourceTurn(Turn):
    """A turn on levels of a source."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def tensors(self) -> dict[str, Tensor]:
        return self.source.tensors()

    def restored(self) -> None:
        self.source.restored()


class PlayedTurn(SourceTurn):
    """A batch of mini-episodes, played with the policy as it is."""

    def __init__(self, source: Source, collector: Collector, ready: Callable[[list[Level]], Ready]) -> None:
        super().__init__(source)
        self.collector, self.ready = collector, ready
        self.context_size = collector.context_size

    def take(self, learner: Any, reward: Reward) -> Taken:
        self.collector.pay_by(reward)
        if self.source.changes:
            self.collector.play_on(*self.ready(self.source.draw(self.collector.slots // self.collector.group)))
        batch = self.collector.collect(learner.policy)
        metrics = learner.update(batch)
        steps = batch.steps
        played = {"train/return": batch.reward.mean(), "train/mini_episode_steps": steps / batch.episodes}
        return Taken(steps // batch.agents, batch.episodes // batch.agents, metrics | played)


class ExactTurn(SourceTurn):
    """Levels with their outcome in closed form."""

    def __init__(self, levels: ExactLevels, counted_as: int) -> None:
        super().__init__(levels.source)
        self.levels, self.counted_as = levels, counted_as

    def take(self, learner: Any, reward: Reward) -> Taken:
        self.levels.pay_by(reward)
        return Taken(self.counted_as, 0, learner.update(self.levels.draw()))


class WorldTurn(Turn):
    """Mini-episodes that the algorithm itself plays in a world, learning from each."""

    def __init__(self, mdp: Mdp, reward: Reward, config: Any) -> None:
        optima = solve(mdp, reward.gamma)
        divisor = optima.best_return[0] if reward.divide_by_best else torch.ones_like(optima.best_return[0])
        self.worlds = tabulate(mdp, optima)
        self.episodes = config.episodes
        self.rules = rules_for(1, config, reward, num_lengths=int(optima.num_lengths[0]), divisor=divisor.tolist())

    def begin(self, learner: Any) -> None:
        learner.begin(self.worlds, self.rules)

    def take(self, learner: Any, reward: Reward) -> Taken:
        before = int(learner.state.steps[0])
        metrics = learner.update(self.episodes)
        check_finite(learner.state.logits)
        steps = int(learner.state.steps[0]) - before
        return Taken(steps, self.episodes, metrics | {"train/mini_episode_steps": steps / self.episodes})


def turn_of(cfg: Config, reward: Reward, levels: data.Levels, mdp: Mdp, observe: Observation, draws: Draws) -> Turn:
    """The turns of a run's algorithm."""
    if learns_from(cfg) == "world":
        return WorldTurn(mdp, reward, cfg.algo)
    source = _source(cfg, levels, draws.generators[0])
    if learns_from(cfg) == "levels":
        check_at_once(mdp, cfg.algo.levels_at_once, cfg.memory_gib, 1 << cfg.policy.noise)
        exact = ExactLevels(
            source,
            cfg.policy.observation,
            reward=reward,
            at_once=cfg.algo.levels_at_once,
            at_least=(mdp.height, mdp.width),
            features=mdp.features,
            device=mdp.device,
        )
        return ExactTurn(exact, cfg.algo.counted_as)

    def ready(drawn: list[Level]) -> Ready:
        size = mdp.height, mdp.width
        compiled = compile_levels(drawn, mdp.device, at_least=size, features=mdp.features)
        return compiled, solve(compiled, reward.gamma), make_observation(cfg.policy.observation, compiled)

    slots, group = slots_and_group(cfg)
    options: dict[str, Any] = {"compiled": partial(compiled, cfg)} if cfg.compile else {}
    collector = (LockstepCollector if in_lockstep(cfg) else Collector)(
        mdp,
        solve(mdp, reward.gamma),
        observe,
        reward,
        slots=slots * cfg.agents,
        group=group,
        draws=draws,
        **options,
        noise_bits=cfg.policy.noise_kind == "bits",
        most_lengths=levels.split.config.lengths[1] if levels.split is not None else None,
    )
    return PlayedTurn(source, collector, ready)


def compiled(cfg: Config, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled for shapes that never change."""
    if not cfg.graphs:
        made: Callable[..., Any] = torch.compile(function, dynamic=False)
        return made
    replayed = torch.compile(function, dynamic=False, mode="reduce-overhead")

    def replay(*args: Any) -> Any:
        """The next replay writes over what the last one gave."""
        torch.compiler.cudagraph_mark_step_begin()
        return tree_map(lambda value: value.clone() if isinstance(value, Tensor) else value, replayed(*args))

    return replay


def _source(cfg: Config, levels: data.Levels, draws: torch.Generator) -> Source:
    if cfg.levels.fresh:
        assert levels.split is not None  # `data.load` has seen to it
        return Stream(levels.split, draws, symmetries=cfg.levels.symmetries)
    return Source(levels.train, draws, symmetries=cfg.levels.symmetries)
