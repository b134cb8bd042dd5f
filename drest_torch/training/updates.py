"""Updates: get data to learn from, and let the algorithm learn from it once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor
from torch.utils._pytree import tree_map

from drest_torch.algos import tabular
from drest_torch.algos.generators import Generators
from drest_torch.algos.networks.convolutional import weights_unchanged
from drest_torch.algos.objectives.base import Objective
from drest_torch.algos.tabular import rules_for
from drest_torch.building import levels as data
from drest_torch.building.parts import observation, time_steps
from drest_torch.config.checks import slots_and_group
from drest_torch.config.schema import Config, in_lockstep, is_plain, learns_from, objective_of
from drest_torch.effort import Pace
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.paid_coins import PaidCoins
from drest_torch.envs.exact.solver import Optima
from drest_torch.envs.levels import Level
from drest_torch.evaluation.memory import check_at_once
from drest_torch.evaluation.tabular import check_finite, tabulate
from drest_torch.reward import Reward
from drest_torch.rollout.collector import Collector
from drest_torch.rollout.lockstep import LockstepCollector
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import FreshLevels, LevelSampler

Ready = tuple[Mdp, Optima, Observation]
"""A compiled level set, with its solution and its observation."""


@dataclass(frozen=True)
class UpdateResult:
    """The result of one update: environment steps, mini-episodes and metrics."""

    steps: int
    """Environment steps per agent; of exact gradients, which play none, counted steps: the unit of schedules."""
    episodes: int
    """Mini-episodes per agent."""
    metrics: dict[str, float | Tensor]
    forward_rows: int = 0
    """Rows on which exact gradients ran the network."""
    backward_rows: int = 0
    """Rows that they backpropagated."""


class Updater(ABC):
    """A source of updates, with a subclass for each value of `Learner.learns_from`."""

    context_size = 0
    """The number of inputs that describe the meta-episode to a critic."""
    pace = Pace()
    """What the steps of updates are."""

    def begin(self, learner: Any) -> None:  # noqa: B027 (most need nothing)
        """Prepare the learner for the first update."""

    @abstractmethod
    def take(self, learner: Any, reward: Reward) -> UpdateResult:
        """Take one update, in which mini-episodes are paid by this reward."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state. To restore it, write to these tensors and call `restored`."""
        return {}

    def restored(self) -> None:  # noqa: B027 (most have no state)
        """Adopt the state that was written to the tensors."""


class LevelSetUpdater(Updater):
    """Updates on levels from a source."""

    def __init__(self, source: LevelSampler) -> None:
        self.source = source

    def tensors(self) -> dict[str, Tensor]:
        return self.source.tensors()

    def restored(self) -> None:
        self.source.restored()


class BatchUpdater(LevelSetUpdater):
    """Updates on batches of mini-episodes that are played with the current policy."""

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | _state(self.collector.objective)

    def __init__(self, source: LevelSampler, collector: Collector, ready: Callable[[list[Level]], Ready]) -> None:
        super().__init__(source)
        self.collector, self.ready = collector, ready
        self.context_size = collector.context_size

    def take(self, learner: Any, reward: Reward) -> UpdateResult:
        self.collector.set_reward(reward)
        if self.source.changes:
            self.collector.set_levels(*self.ready(self.source.draw(self.collector.slots // self.collector.group)))
        with weights_unchanged(learner.policy, learner.critic):
            batch = self.collector.collect(learner.policy)
            weighed = learner.weigh(batch)
        metrics = learner.improve(batch, *weighed)
        steps = batch.steps
        averages = {"train/return": batch.reward.mean(), "train/mini_episode_steps": steps / batch.episodes}
        if self.collector.objective is not None:
            metrics = metrics | self.collector.objective.metrics()
        return UpdateResult(steps // batch.agents, batch.episodes // batch.agents, metrics | averages)


class ExactUpdater(LevelSetUpdater):
    """Updates on levels whose outcomes are computed in closed form."""

    def __init__(self, levels: ExactLevels, counted_steps: int) -> None:
        super().__init__(levels.source)
        self.levels, self.pace = levels, Pace(counted_steps, levels.per_update)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | _state(self.levels.objective)

    def take(self, learner: Any, reward: Reward) -> UpdateResult:
        self.levels.set_reward(reward)
        metrics = learner.update(self.levels.draw())
        return UpdateResult(self.pace.steps_per_update, 0, metrics, learner.forward_rows, learner.backward_rows)


def _state(objective: Objective | None) -> dict[str, Tensor]:
    """Return the state of an objective, if there is one, to be kept with that of an updater."""
    return {} if objective is None else {f"objective.{name}": value for name, value in objective.tensors().items()}


class TabularUpdater(Updater):
    """Updates of an algorithm that plays the mini-episodes itself, in one world, and learns from each of them."""

    def __init__(self, mdp: Mdp, reward: Reward, coins: PaidCoins, config: tabular.Config) -> None:
        optima = coins.optima(mdp, reward.gamma, committed=reward.committed)
        divisor = optima.best_return[0] if reward.divide_by_best else torch.ones_like(optima.best_return[0])
        self.worlds = tabulate(coins.paid(mdp), optima)
        self.episodes = config.episodes
        self.rules = rules_for(1, config, reward, num_lengths=int(optima.num_lengths[0]), divisor=divisor.tolist())

    def begin(self, learner: Any) -> None:
        learner.begin(self.worlds, self.rules)

    def take(self, learner: Any, reward: Reward) -> UpdateResult:
        before = int(learner.state.steps[0])
        metrics = learner.update(self.episodes)
        check_finite(learner.state.logits)
        steps = int(learner.state.steps[0]) - before
        return UpdateResult(steps, self.episodes, metrics | {"train/mini_episode_steps": steps / self.episodes})


def updater_of(
    cfg: Config, reward: Reward, levels: data.Levels, mdp: Mdp, observe: Observation, rng: Generators
) -> Updater:
    """Return the source of updates for a run's algorithm."""
    coins = paid_coins(cfg)
    if learns_from(cfg) == "world":
        return TabularUpdater(mdp, reward, coins, cfg.algo)
    source = _source(cfg, levels, rng.generators[0])
    if learns_from(cfg) == "levels":
        check_at_once(mdp, cfg.algo.levels_at_once, cfg.memory_gib, 1 << cfg.policy.private_bits)
        exact = ExactLevels(
            source,
            cfg.policy.observation,
            reward=reward,
            coins=coins,
            objective=objective_of(cfg),
            at_once=cfg.algo.levels_at_once,
            at_least=(mdp.height, mdp.width),
            features=mdp.features,
            time_steps=time_steps(cfg),
            device=mdp.device,
        )
        return ExactUpdater(exact, cfg.algo.counted_steps)

    def ready(sample: list[Level]) -> Ready:
        size = mdp.height, mdp.width
        compiled = compile_levels(sample, mdp.device, at_least=size, features=mdp.features)
        optima = coins.optima(compiled, reward.gamma, committed=reward.committed)
        return coins.paid(compiled), optima, observation(cfg, compiled)

    slots, group = slots_and_group(cfg)
    options: dict[str, Any] = {"compiled": partial(compiled, cfg)} if cfg.compile else {}
    collector = (LockstepCollector if in_lockstep(cfg) else Collector)(
        coins.paid(mdp),
        coins.optima(mdp, reward.gamma, committed=reward.committed),
        observe,
        reward,
        slots=slots * cfg.agents,
        group=group,
        rng=rng,
        **options,
        are_bits=cfg.policy.private_kind == "bits",
        most_lengths=levels.split.config.lengths[1] if levels.split is not None else None,
        objective=None if is_plain(cfg) else objective_of(cfg),
    )
    return BatchUpdater(source, collector, ready)


def paid_coins(cfg: Config) -> PaidCoins:
    """Return what a run pays for coins; older runs do not say, and paid what they are worth."""
    if OmegaConf.is_missing(cfg.reward, "pays"):
        return PaidCoins()
    return PaidCoins(cfg.reward.pays, cfg.reward.best_of)


def compiled(cfg: Config, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function for shapes that never change."""
    if not cfg.cuda_graphs:
        result: Callable[..., Any] = torch.compile(function, dynamic=False)
        return result
    graph = torch.compile(function, dynamic=False, mode="reduce-overhead")

    def replay(*args: Any) -> Any:
        """Replay the graph and copy its output, which the next replay overwrites."""
        torch.compiler.cudagraph_mark_step_begin()
        return tree_map(lambda value: value.clone() if isinstance(value, Tensor) else value, graph(*args))

    return replay


def _source(cfg: Config, levels: data.Levels, rng: torch.Generator) -> LevelSampler:
    if cfg.levels.fresh:
        assert levels.split is not None  # `data.load` guarantees it
        return FreshLevels(levels.split, rng, symmetries=cfg.levels.symmetries)
    return LevelSampler(levels.train, rng, symmetries=cfg.levels.symmetries)
