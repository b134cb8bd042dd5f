"""Updates: get data to learn from, and let the algorithm learn from it once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from drest_torch.algos import ALGORITHMS, tabular
from drest_torch.algos.base import Learner
from drest_torch.algos.networks.policy import memory_of, weights_unchanged
from drest_torch.algos.objectives.base import Objective
from drest_torch.building.checkpoints import State
from drest_torch.config.schema import Config
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.exact.solver import LevelSet, Optima
from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.splits import Split
from drest_torch.envs.levels import Level
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, transform
from drest_torch.errors import ConfigError
from drest_torch.evaluation.tabular_agents import check_finite, tabulate
from drest_torch.reward import Reward
from drest_torch.tracking.effort import Pace
from drest_torch.training.exact_batch import ExactBatch, every_setting

if TYPE_CHECKING:
    from drest_torch.collector import Environment


class LevelSampler:
    """A set of levels to train on; with ``symmetries`` each sampled level is rotated and reflected at random."""

    def __init__(self, levels: Sequence[Level], rng: torch.Generator, *, symmetries: bool = False) -> None:
        self.levels, self.rng, self.symmetries = list(levels), rng, symmetries
        self.changes = symmetries
        """Whether sampled levels can differ from those in ``levels``."""

    def draw(self, count: int) -> list[Level]:
        """Sample ``count`` levels; a smaller set is repeated, so that all levels occur about equally often."""
        levels = self._next(count)
        if not self.symmetries:
            return levels
        symmetry = torch.randint(NUM_SYMMETRIES, (count,), generator=self.rng, device=self.rng.device)
        return [transform(level, index) for level, index in zip(levels, symmetry.tolist(), strict=True)]

    def _next(self, count: int) -> list[Level]:
        chosen: list[int] = []
        while len(chosen) < count:
            order = torch.randperm(len(self.levels), generator=self.rng, device=self.rng.device)
            chosen += order[: count - len(chosen)].tolist()
        return [self.levels[index] for index in chosen]

    def tensors(self) -> dict[str, Tensor]:
        """Return the state; writing to these tensors restores it."""
        return {}


class FreshLevels(LevelSampler):
    """A stream of new levels: the training levels of a split, then the levels that the generator yields after them.

    None of them is a selection or test level, or the rotation or reflection of one.
    """

    def __init__(self, split: Split, rng: torch.Generator, *, symmetries: bool = False) -> None:
        super().__init__(split.train, rng, symmetries=symmetries)
        self.changes = True
        self.split = split
        self.without = split.held_out()
        self.first = torch.tensor(generator.draft_number(split.train[0]))
        """The number of the level that comes next."""
        self._coming: tuple[int, Iterator[Level]] = (-1, iter(()))

    def _next(self, count: int) -> list[Level]:
        number, coming = self._coming
        if number != self.first:  # at the start, and after it was restored
            coming = generator.stream(
                self.split.config, self.split.seed, first=int(self.first), without=self.without, device=self.rng.device
            )
        levels = list(islice(coming, count))
        self.first.fill_(generator.draft_number(levels[-1]) + 1)
        self._coming = int(self.first), coming
        return levels

    def tensors(self) -> dict[str, Tensor]:
        return {"first": self.first}


class Updater(ABC):
    """A source of updates, with a subclass for each value of `Learner.learns_from`."""

    pace = Pace()
    """What the steps of updates are."""

    @abstractmethod
    def take(self, reward: Reward, state: State) -> dict[str, Any]:
        """Take one update, in which mini-episodes are paid by this reward; count what it took, and return metrics."""

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
        environment: Any,
        rng: torch.Generator,
        *,
        source: LevelSampler | None = None,
        ready: Callable[[Sequence[Level]], Iterable[Any]] = iter,
    ) -> None:
        self.learner, self.environment, self.rng, self.source, self.ready = learner, environment, rng, source, ready
        self.objective = getattr(environment.drest, "objective", None)
        self.collector = environment.collector(learner.actor, learns=True)

    def take(self, reward: Reward, state: State) -> dict[str, Any]:
        learner, environment, drest = self.learner, self.environment, self.environment.drest
        assert drest is not None
        if reward != drest.reward:
            drest.set_reward(reward)
        if self.source is not None and self.source.changes:
            groups = environment.env.batch_size.numel() // (environment.group or 1)
            environment.set_levels(*self.ready(self.source.draw(groups)))
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
        if environment.best is not None:  # m(l) as it is known so far
            found = environment.best.best.mean(0).tolist()
            metrics |= {f"train/best/{name}": each for name, each in zip(environment.lengths, found, strict=True)}
        state.steps += len(steps)
        state.episodes += episodes
        return metrics

    def tensors(self) -> dict[str, Tensor]:
        flatten, best = self.environment.flatten, self.environment.best
        shown = {} if flatten is None else {"centre": flatten.centre, "spread": flatten.spread}
        seen = {} if best is None else dict(best.named_buffers())
        sampled = {} if self.source is None else self.source.tensors()
        return {**shown, **seen, **sampled, **_state(self.objective)}


class ExactUpdater(Updater):
    """Updates on levels whose outcomes are computed in closed form.

    They are the ``whole`` set, or so many levels ``at_once`` that ``source`` samples and ``exact`` unrolls.
    """

    def __init__(
        self,
        learner: Any,
        source: LevelSampler,
        objective: Objective,
        exact: Callable[[Sequence[Level] | LevelSet], ExactBatch],
        *,
        whole: LevelSet | None,
    ) -> None:
        self.learner, self.source, self.objective, self.exact = learner, source, objective, exact
        self.at_once = learner.config.levels_at_once if whole is None else len(whole.levels)
        self.pace = Pace(learner.config.counted_steps, self.at_once)
        self.comes_to = every_setting
        """That of its batches."""
        self._whole = None if whole is None else exact(whole)

    def draw(self) -> ExactBatch:
        """Return the next batch."""
        return self._whole or self.exact(self.source.draw(self.at_once))

    def tensors(self) -> dict[str, Tensor]:
        return self.source.tensors() | _state(self.objective)

    def take(self, reward: Reward, state: State) -> dict[str, Any]:
        learner, batch = self.learner, self.draw()
        batch.reward, batch.comes_to = reward, self.comes_to
        metrics = learner.update(batch)
        state.steps += self.pace.steps_per_update
        state.forward_rows += learner.forward_rows
        state.backward_rows += learner.backward_rows
        return metrics | {"rows/forward": state.forward_rows, "rows/backward": state.backward_rows}


def _state(objective: Objective | None) -> dict[str, Tensor]:
    """Return the state of an objective, if there is one, to be kept with that of an updater."""
    return {} if objective is None else {f"objective.{name}": value for name, value in objective.tensors().items()}


class TabularUpdater(Updater):
    """Updates of an algorithm that plays the mini-episodes itself, in one world, and learns from each of them."""

    def __init__(self, learner: Any, mdp: Mdp, optima: Optima, reward: Reward) -> None:
        divisor = optima.best_return[0] if reward.divide_by_best else torch.ones_like(optima.best_return[0])
        self.learner = learner
        learner.begin(tabulate(mdp, optima), tabular.rules_for(learner.config, reward, divisor.tolist()))

    def take(self, reward: Reward, state: State) -> dict[str, Any]:
        learner, episodes = self.learner, self.learner.config.episodes
        before = int(learner.state.steps[0])
        metrics = learner.update(episodes)
        check_finite(learner.state.logits)
        steps = int(learner.state.steps[0]) - before
        state.steps += steps
        state.episodes += episodes
        return metrics | {"train/mini_episode_steps": steps / episodes}


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
