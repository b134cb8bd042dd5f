"""Updates: get data to learn from, and let the algorithm learn from it once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from drest_torch.algos import ALGORITHMS, tabular
from drest_torch.algos.base import Learner
from drest_torch.algos.networks.policy import memory_of, weights_unchanged
from drest_torch.algos.objectives.base import Objective
from drest_torch.algos.tabular import rules_for
from drest_torch.config.schema import Config
from drest_torch.effort import Pace
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.solver import Optima
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError
from drest_torch.evaluation.tabular import check_finite, tabulate
from drest_torch.reward import Reward
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import LevelSampler

if TYPE_CHECKING:
    from drest_torch.collector import Environment
    from drest_torch.gridworlds import Gridworlds

Ready = tuple[Mdp, Optima, Observation]
"""A compiled level set, with its solution and its observation."""


@dataclass(frozen=True)
class UpdateResult:
    """The result of one update: environment steps, mini-episodes and metrics."""

    steps: int
    """Environment steps; of exact gradients, which play none, counted steps: the unit of schedules."""
    episodes: int
    """Mini-episodes."""
    metrics: dict[str, float | Tensor]
    forward_rows: int = 0
    """Rows on which exact gradients ran the network."""
    backward_rows: int = 0
    """Rows that they backpropagated."""


class Updater(ABC):
    """A source of updates, with a subclass for each value of `Learner.learns_from`."""

    pace = Pace()
    """What the steps of updates are."""

    @abstractmethod
    def take(self, reward: Reward) -> UpdateResult:
        """Take one update, in which mini-episodes are paid by this reward."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}


class SampledUpdater(Updater):
    """Updates on batches that are collected in an environment with the current policy.

    In gridworlds whose levels change, ``source`` samples them, and ``ready`` compiles, solves and shows them.
    """

    def __init__(
        self,
        learner: Any,
        environment: Environment,
        rng: torch.Generator,
        *,
        source: LevelSampler | None = None,
        ready: Callable[[Sequence[Level]], Ready] | None = None,
    ) -> None:
        self.learner, self.environment, self.rng, self.source, self.ready = learner, environment, rng, source, ready
        self.objective = getattr(environment.drest, "objective", None)
        self.collector = environment.collector(learner.actor, learns=True)

    def take(self, reward: Reward) -> UpdateResult:
        learner, environment, drest = self.learner, self.environment, self.environment.drest
        assert drest is not None
        if reward != drest.reward:
            drest.set_reward(reward)
        if self.source is not None and self.source.changes:
            assert self.ready is not None
            groups = environment.env.batch_size.numel() // (environment.group or 1)
            cast("Gridworlds", environment).set_levels(*self.ready(self.source.draw(groups)))
        with weights_unchanged(learner.policy, learner.critic):
            batch = self.collector.collect(self.rng)
            episodes = int(batch.get(("next", "mini_done")).sum())
            if episodes == 0:
                raise ConfigError(f"no mini-episode ended within {batch.shape[1]} steps; train with levels.clock=steps")
            steps, metrics = learner.weigh(batch)
        metrics = learner.improve(steps, metrics)
        paid = batch.get(("next", "reward")).sum() / episodes
        metrics |= {"train/return": paid, "train/mini_episode_steps": len(steps) / episodes}
        if self.objective is not None:
            metrics |= self.objective.metrics()
        return UpdateResult(len(steps), episodes, metrics | self._best())

    def _best(self) -> dict[str, float]:
        """Return m(l) as it is known so far, where it is estimated."""
        if (best := self.environment.best) is None:
            return {}
        found = best.best.mean(0).tolist()
        return {f"train/best/{name}": value for name, value in zip(self.environment.lengths, found, strict=True)}

    def tensors(self) -> dict[str, Tensor]:
        flatten, best = self.environment.flatten, self.environment.best
        shown = {} if flatten is None else {"centre": flatten.centre, "spread": flatten.spread}
        seen = {} if best is None else dict(best.named_buffers())
        sampled = {} if self.source is None else self.source.tensors()
        return {**shown, **seen, **sampled, **_state(self.objective)}


class ExactUpdater(Updater):
    """Updates on levels whose outcomes are computed in closed form."""

    def __init__(self, learner: Any, levels: ExactLevels, counted_steps: int) -> None:
        self.learner, self.levels, self.pace = learner, levels, Pace(counted_steps, levels.per_update)

    def tensors(self) -> dict[str, Tensor]:
        return self.levels.source.tensors() | _state(self.levels.objective)

    def take(self, reward: Reward) -> UpdateResult:
        self.levels.reward, learner = reward, self.learner
        metrics = learner.update(self.levels.draw())
        return UpdateResult(self.pace.steps_per_update, 0, metrics, learner.forward_rows, learner.backward_rows)


def _state(objective: Objective | None) -> dict[str, Tensor]:
    """Return the state of an objective, if there is one, to be kept with that of an updater."""
    return {} if objective is None else {f"objective.{name}": value for name, value in objective.tensors().items()}


class TabularUpdater(Updater):
    """Updates of an algorithm that plays the mini-episodes itself, in one world, and learns from each of them."""

    def __init__(self, learner: Any, mdp: Mdp, optima: Optima, reward: Reward, config: tabular.Config) -> None:
        divisor = optima.best_return[0] if reward.divide_by_best else torch.ones_like(optima.best_return[0])
        self.learner, self.episodes = learner, config.episodes
        learner.begin(tabulate(mdp, optima), rules_for(config, reward, divisor.tolist()))

    def take(self, reward: Reward) -> UpdateResult:
        learner = self.learner
        before = int(learner.state.steps[0])
        metrics = learner.update(self.episodes)
        check_finite(learner.state.logits)
        steps = int(learner.state.steps[0]) - before
        return UpdateResult(steps, self.episodes, metrics | {"train/mini_episode_steps": steps / self.episodes})


def sampled_learner(
    cfg: Config,
    environment: Environment,
    policy: nn.Module,
    critic: nn.Module | None,
    rng: torch.Generator,
    **levels: Any,
) -> tuple[Learner, SampledUpdater]:
    """Return an algorithm that learns from mini-episodes of an environment, and its source of updates."""
    policy, critic = policy.to(rng.device), critic if critic is None else critic.to(rng.device)
    learner: Learner = ALGORITHMS[cfg.algo.name].Algorithm(
        policy,
        critic,
        cfg.algo,
        rng,
        actor=environment.actor(policy),
        value=environment.value(critic),
        view=environment.view,
        group=environment.group or (1 if memory_of(policy) else None),
    )
    return learner, SampledUpdater(learner, environment, rng, **levels)
