"""Train in gridworlds: the levels of a run, its algorithm, its source of updates and its evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from drest_torch.algos import ALGORITHMS
from drest_torch.algos.base import Learner
from drest_torch.algos.objectives.base import Objective
from drest_torch.building import levels as data
from drest_torch.building.agents import AgentSpec, evaluator
from drest_torch.building.policies import build_networks, map_size, observation, spec_on_levels
from drest_torch.config.checks import batch_shape, check_levels
from drest_torch.config.schema import Config, learns_from, objective_of, shown_features
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.dynamics.observations import Observation
from drest_torch.envs.exact.solver import LevelSet, Optima, PaidCoins
from drest_torch.envs.generation import splits
from drest_torch.envs.levels import Level, features_of
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.memory_guard import MemoryGuard, check_at_once, check_batch, check_size
from drest_torch.evaluation.results import Results
from drest_torch.reward import Reward
from drest_torch.tracking.stages import stage
from drest_torch.training.exact_batch import ExactBatch
from drest_torch.training.folder import SPLIT
from drest_torch.training.task import Task, count, origin_of
from drest_torch.training.updates import (
    ExactUpdater,
    FreshLevels,
    LevelSampler,
    TabularUpdater,
    Updater,
    sampled_learner,
)

Ready = tuple[Mdp, Optima, Observation]
"""A compiled level set, with its solution and its observation."""

_SPLITS = {"train": "training level", "test": "test level", "paper": "paper world"}
SELECTION = "selection"
"""The split that the best checkpoint is chosen by."""


def trained_levels_reported(cfg: Config) -> int:
    """Return how many training levels the final evaluation uses, at most; it uses all test levels.

    There are fewer where mini-episodes are sampled: of huge levels a thousand would take ten minutes.
    """
    return 1000 if cfg.sampled is None else 200


class GridworldTask(Task):
    """The levels of a run, and the level sets that its policy is evaluated on."""

    def __init__(self, cfg: Config, reward: Reward, rng: torch.Generator, device: torch.device) -> None:
        self.cfg, self.reward, self.device = cfg, reward, device
        stage(f"loading the levels of {cfg.levels.path or cfg.levels.name} …", shown=cfg.progress)
        self.levels = data.load(cfg)
        check_levels(cfg, self.levels.train, self.levels.evaluated())
        self._digest = data.digest(self.levels)
        self.map_size = map_size(cfg, self.levels)
        at_once = cfg.algo.levels_at_once if learns_from(cfg) == "levels" else len(self.levels.train)
        split, symmetries = self.levels.split, cfg.levels.symmetries
        if cfg.levels.fresh and split is not None:
            self.source: LevelSampler = FreshLevels(split, rng, symmetries=symmetries)
        else:
            self.source = LevelSampler(self.levels.train, rng, symmetries=symmetries)
        self.compiles_once = not self.source.changes and at_once >= len(self.levels.train)
        """Whether training levels are not compiled batch by batch."""
        whole = self._compiled()
        sets = whole | {"train": whole["train"].first(trained_levels_reported(cfg))}
        for levels in sets.values():
            check_size(levels.mdp, levels.sizes, cfg.memory_gib if cfg.sampled is None else None)
        self.reported = {split: levels for split, levels in sets.items() if split != SELECTION}
        """The level sets of the last evaluation, by split."""
        self.spec = self._specification(whole["train"].mdp)
        self.watched = {"train": self.evaluator(sets["train"].first(cfg.evaluated_levels))}
        """Evaluators during training. Test levels are evaluated once, at its end."""
        if SELECTION in sets:
            self.selection = self.watched[SELECTION] = self.evaluator(sets[SELECTION])
        self.learner, self.updater = self._learner(whole["train"], rng)

    def _specification(self, mdp: Mdp) -> AgentSpec:
        """Return the specification of the agent that is trained on this level set."""
        cfg = self.cfg
        policy = spec_on_levels(cfg, observation(cfg, mdp), self.map_size, mdp.features)
        return AgentSpec(policy, self.reward, origin_of(cfg, str(cfg.levels.path or cfg.levels.name)))

    def _compiled(self) -> dict[str, LevelSet]:
        """Compile the levels of each split, once for all who use them.

        Training levels that are compiled batch by batch are needed for the evaluation alone.
        """
        train, features = self.levels.train, shown_features(self.cfg)
        first = train if self.compiles_once else train[: trained_levels_reported(self.cfg)]
        return {
            split: self._compile(levels, features | features_of(train) if split == "train" else features)
            for split, levels in {**self.levels.evaluated(), "train": first}.items()
            if levels
        }

    def _compile(self, levels: Sequence[Level], features: Collection[str]) -> LevelSet:
        return LevelSet(compile_levels(levels, self.device, at_least=self.map_size, features=features))

    def evaluator(self, levels: Sequence[Level] | LevelSet) -> ExactEvaluator:
        """Return an evaluator of these levels, exact or by sampling as the configuration says."""
        cfg = self.cfg
        return evaluator(self.spec, levels, self.device, sampled=cfg.sampled, memory_gib=cfg.memory_gib)

    def judges(self) -> Iterator[tuple[str, ExactEvaluator]]:
        for split, levels in self.reported.items():
            watched = self.watched.get(split)
            yield split, watched if watched and watched.level_set is levels else self.evaluator(levels)

    def pictures(self, split: str, evaluator: Any, evaluation: Any, folder: Path) -> list[Path]:
        results = Results(evaluator, self.learner.policy, evaluation, False, folder.absolute().parent.name)
        return results.plotted(folder / split, self.cfg.pictures)

    # ------------------------------------------------------------------------------------ the algorithm

    def _learner(self, train: LevelSet, rng: torch.Generator) -> tuple[Learner, Updater]:
        """Return the algorithm of a run, with its networks, and its source of updates.

        ``train`` are the training levels, or, if they are compiled batch by batch, the first of them.
        """
        cfg, reward, source = self.cfg, self.reward, self.source
        kind, objective = ALGORITHMS[cfg.algo.name].Algorithm, objective_of(cfg)
        coins = PaidCoins(cfg.reward.pays, cfg.reward.best_of)

        def compiled(levels: Sequence[Level] | LevelSet) -> LevelSet:
            return levels if isinstance(levels, LevelSet) else self._compile(levels, train.mdp.features)

        def ready(levels: Sequence[Level] | LevelSet) -> Ready:
            some = compiled(levels)
            optima = coins.optima(some, reward.gamma)
            return coins.paid(some.mdp), optima, observation(cfg, some.mdp)

        def exact(levels: Sequence[Level] | LevelSet) -> ExactBatch:
            some, seen, steps = compiled(levels), cfg.policy.observation, cfg.policy.time_steps
            return ExactBatch(some, seen, reward, coins=coins, objective=objective, time_steps=steps)

        # Of levels that are compiled batch by batch, one is enough to begin with.
        one = kind.learns_from == "levels" or source.changes
        begins_with = ready(train.first(1) if one else train)
        mdp, optima, _ = begins_with
        if kind.learns_from == "mini-episodes":
            environment = self._environment(begins_with, None if cfg.objective.name == "drest" else objective)
            context = environment.critic_context if kind.needs_critic else None
            width = getattr(cfg.algo, "critic_width", None)
            with MemoryGuard():
                policy, critic = build_networks(self.spec.policy, cfg.seed, critic_width=width, context=context)
            return sampled_learner(cfg, environment, policy, critic, rng, source=source, ready=ready)
        with MemoryGuard():
            policy, _ = build_networks(self.spec.policy, cfg.seed)
        learner: Learner = kind(policy.to(self.device), None, cfg.algo, rng)
        if kind.learns_from == "world":
            check_batch(cfg.algo.episodes)
            return learner, TabularUpdater(learner, mdp, optima, reward)
        check_at_once(mdp, cfg.algo.levels_at_once, cfg.memory_gib, 1 << cfg.policy.private_bits)
        return learner, ExactUpdater(learner, source, objective, exact, whole=train if self.compiles_once else None)

    def _environment(self, begins_with: Ready, objective: Objective | None) -> Any:
        """Return the slots that play mini-episodes, at first on this level set."""
        from drest_torch.gridworlds import Gridworlds  # TorchRL takes seconds to import

        cfg, split = self.cfg, self.levels.split
        slots, rounds, group = batch_shape(cfg)
        check_batch(cfg.algo.episodes)
        environment = Gridworlds.on(
            *begins_with,
            slots=slots,
            rounds=rounds,
            group=group,
            private_bits=cfg.policy.private_bits,
            most_lengths=split.config.lengths[1] if split is not None else None,
        )
        counts = ALGORITHMS[cfg.algo.name].Algorithm.needs_critic and self.reward.counting == "sequential"
        environment.pay(self.reward, shows_counts=counts, objective=objective)
        return environment

    # ------------------------------------------------------------------------------------ its folder

    def origin(self) -> dict[str, str]:
        return super().origin() | {data.SET_OF_LEVELS: self._digest}

    def saved_with(self) -> dict[str, str]:
        return super().saved_with() | {data.TEST_LEVELS: data.digest_of_tests(self.levels)}

    def keep(self, folder: Path, *, anew: bool) -> None:
        split, path = self.levels.split, folder / SPLIT
        if split is not None and (anew or not path.is_file()):  # a kill may have come before it was written
            splits.write_split(path, split, preset=self.cfg.levels.name)
        elif split is not None:
            splits.check_split(path, split)

    def lines(self) -> list[str]:
        cfg, levels = self.cfg, self.levels
        sets = {_SPLITS.get(split, split): len(members.levels) for split, members in self.reported.items()}
        how = "exactly" if cfg.sampled is None else f"by {count(cfg.sampled, 'mini-episode')} on each level"
        watched = f"\nduring training: on {cfg.evaluated_levels:,} of those trained on"
        few = watched if len(self.reported["train"].levels) > cfg.evaluated_levels else ""
        fresh = ", and as many new ones as are needed" if cfg.levels.fresh else ""
        lines = [
            f"trained on: {count(len(levels.train), 'level')} ({cfg.levels.path or cfg.levels.name}{fresh})",
            f"evaluated on: {', '.join(count(number, name) for name, number in sets.items())}, {how}{few}",
        ]
        if levels.selection:
            lines.append(f"best checkpoint by: {count(len(levels.selection), 'selection level')}")
        if learns_from(cfg) == "mini-episodes":
            slots, _, group = batch_shape(cfg)
            if (groups := slots // group) < (asked := cfg.algo.minibatches):
                has = f"as a batch has {count(groups, 'group')} of mini-episodes"
                lines.append(f"minibatches: {groups} and not {asked}, {has}")
        return lines
