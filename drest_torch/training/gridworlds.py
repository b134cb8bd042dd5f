"""Train in gridworlds: the levels of a run, its algorithm, its source of updates and its judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from drest_torch.algos.base import Learner
from drest_torch.building import levels as data
from drest_torch.building.parts import evaluator, map_size, networks, observation
from drest_torch.config.checks import batch_shape, check_levels
from drest_torch.config.schema import (
    Config,
    algorithm,
    is_plain,
    learns_from,
    objective_of,
    shown_features,
)
from drest_torch.effort import Pace
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.level_set import LevelSet, PaidCoins
from drest_torch.envs.levels import Level, features_of
from drest_torch.evaluation.exact import LevelSetEvaluator
from drest_torch.evaluation.results import plot_policies, split_summary
from drest_torch.files import write_json
from drest_torch.memory import Bounded, check_at_once, check_batch, check_size
from drest_torch.reward import Reward
from drest_torch.tracking.stages import stage
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import FreshLevels, LevelSampler
from drest_torch.training.task import Task, Verdict, count, device_line, networks_line
from drest_torch.training.updates import ExactUpdater, Ready, TabularUpdater, Updater, sampled_learner

_SPLITS = {"train": "training level", "test": "test level", "paper": "paper world"}


class Gridworlds(Task):
    """The levels of a run."""

    def __init__(self, cfg: Config, reward: Reward, rng: torch.Generator, device: torch.device) -> None:
        self.cfg, self.device = cfg, device
        stage(levels_to_make(cfg), shown=cfg.progress)
        self.levels = data.load(cfg)
        check_levels(cfg, self.levels.train, self.levels.evaluated())
        self._digest = data.digest(self.levels)
        self.map_size = map_size(cfg, self.levels)
        sets = self._compiled()
        self.judge: Judge = Judge(cfg, reward, sets, self.map_size, device)
        self.learner, self.updater = learner_of(cfg, reward, self.levels, sets["train"], self.map_size, rng)

    def _compiled(self) -> dict[str, LevelSet]:
        """Compile the levels of each split, once for all who use them.

        Training levels that are compiled batch by batch are needed for the evaluation alone.
        """
        cfg, train = self.cfg, self.levels.train
        changes = cfg.levels.fresh or cfg.levels.symmetries
        at_once = cfg.algo.levels_at_once if learns_from(cfg) == "levels" else len(train)
        if changes or at_once < len(train):
            train = trained_levels_reported(train, cfg)
        features = shown_features(cfg)
        splits = {**self.levels.evaluated(), "train": train}
        shown = {split: features | features_of(self.levels.train) if split == "train" else features for split in splits}
        return {
            split: LevelSet(compile_levels(levels, self.device, at_least=self.map_size, features=shown[split]))
            for split, levels in splits.items()
            if levels
        }

    def introduction(self, folder: Path) -> str:
        pace = self.updater.pace
        return introduction(self.cfg, self.levels, self.judge.reported, self.learner, pace, self.device, folder)

    def origin(self) -> dict[str, str]:
        return super().origin() | {"set of levels": self._digest}

    def begin(self, cfg: Config, folder: Path) -> None:
        data.write_split(self.levels, cfg, folder)

    def resume(self, folder: Path) -> None:
        data.check_split(self.levels, folder)


SELECTION = "selection"
"""The split that the best checkpoint is chosen by."""
TRAINED_LEVELS_REPORTED = 1000
"""The final evaluation uses at most this many training levels, and all test levels."""
TRAINED_LEVELS_SAMPLED = 200
"""The same where mini-episodes are sampled: of huge levels a thousand would take ten minutes."""


def trained_levels_reported(levels: list[Level], cfg: Config) -> list[Level]:
    """Return the training levels that the final evaluation uses."""
    return levels[: _trained_levels(cfg)]


def _trained_levels(cfg: Config) -> int:
    return TRAINED_LEVELS_REPORTED if cfg.sampled is None else TRAINED_LEVELS_SAMPLED


class Judge:
    """The level sets that the policy of a run is evaluated on, by split; one for the selection is not reported."""

    def __init__(
        self, cfg: Config, reward: Reward, sets: Mapping[str, LevelSet], map_size: tuple[int, int], device: torch.device
    ) -> None:
        self.cfg, self.reward, self.map_size, self.device = cfg, reward, map_size, device
        self.reported = {
            split: levels.first(_trained_levels(cfg)) if split == "train" else levels
            for split, levels in sets.items()
            if split != SELECTION
        }
        """The level sets of the last evaluation."""
        memory_gib = cfg.memory_gib if cfg.sampled is None else None
        for levels in (*self.reported.values(), *(sets[split] for split in sets if split == SELECTION)):
            check_size(levels.mdp, levels.sizes, memory_gib)
        self.watched = {"train": self.evaluator(self.reported["train"].first(cfg.evaluated_levels))}
        """Evaluators during training. Test levels are evaluated once, at its end."""
        self.selection = self.evaluator(sets[SELECTION]) if SELECTION in sets else None

    def evaluator(self, levels: Sequence[Level] | LevelSet) -> LevelSetEvaluator:
        """Return an evaluator of these levels, exact or by sampling as the configuration says."""
        cfg = self.cfg
        return evaluator(
            cfg, self.reward, levels, self.map_size, self.device, sampled=cfg.sampled, memory_gib=cfg.memory_gib
        )

    def watch(self, policy: Any) -> dict[str, float]:
        """Return the metrics of a policy on the levels that are watched during training."""
        watched = self.watched if self.selection is None else {**self.watched, "selection": self.selection}
        return {
            f"eval/{split}/{name}": value
            for split, evaluator in watched.items()
            for name, value in evaluator.evaluate(policy).means().items()
        }

    def judge(self, policy: Any, folder: Path) -> Verdict:
        """Evaluate a policy on all reported levels; write each level's values and the pictures to the folder."""
        verdict = Verdict({}, {})
        for split, levels in self.reported.items():
            watched = self.watched.get(split)
            evaluator = watched if watched and watched.level_set is levels else self.evaluator(levels)
            uniform, file = evaluator.evaluate_uniform(), f"levels_{split}.json"
            evaluation = evaluator.evaluate(policy)
            write_json(folder / file, evaluation.records())
            verdict.splits[split] = split_summary(evaluation, uniform, len(levels.levels)) | {"file": file}
            pictures = folder / "pictures" / split
            most, name = self.cfg.pictures, folder.absolute().name
            for path in plot_policies(evaluator, policy, evaluation, pictures, most=most, agent=name):
                verdict.pictures[f"{split}/{path.stem}"] = path
        return verdict


def learner_of(
    cfg: Config,
    reward: Reward,
    levels: data.Levels,
    compiled: LevelSet,
    map_size: tuple[int, int],
    rng: torch.Generator,
) -> tuple[Learner, Updater]:
    """Return the algorithm of a run, with its networks, and its source of updates.

    ``compiled`` are the training levels, or, if they are compiled batch by batch, the first of them.
    """
    coins, source, device = PaidCoins(cfg.reward.pays, cfg.reward.best_of), _source(cfg, levels, rng), rng.device
    features = compiled.mdp.features

    def ready(some: LevelSet) -> Ready:
        optima = coins.optima(some, reward.gamma, committed=reward.committed)
        return coins.paid(some.mdp), optima, observation(cfg, some.mdp)

    def compile_and_solve(some: Sequence[Level]) -> Ready:
        return ready(LevelSet(compile_levels(some, device, at_least=map_size, features=features)))

    kind = algorithm(cfg.algo.name).Algorithm
    # Of levels that are compiled batch by batch, one is enough to infer the observation shape.
    one = kind.learns_from == "levels" or source.changes
    begins_with = ready(compiled.first(1) if one else compiled)
    if kind.learns_from == "mini-episodes":
        return _sampled(cfg, reward, levels, source, begins_with, compile_and_solve, rng)
    mdp, optima, observe = begins_with
    with Bounded():
        policy, _ = networks(cfg, observe)
    learner: Learner = kind(policy.to(device), None, cfg.algo, rng)
    if kind.learns_from == "world":
        check_batch(cfg.algo.episodes)
        updater: Updater = TabularUpdater(mdp, optima, reward, cfg.algo)
    else:
        check_at_once(mdp, cfg.algo.levels_at_once, cfg.memory_gib, 1 << cfg.policy.private_bits)
        exact = ExactLevels(
            source,
            cfg.policy.observation,
            reward=reward,
            coins=coins,
            objective=objective_of(cfg),
            at_once=cfg.algo.levels_at_once,
            at_least=map_size,
            features=features,
            time_steps=cfg.policy.time_steps,
            device=device,
            compiled=compiled,
        )
        updater = ExactUpdater(exact, cfg.algo.counted_steps)
    updater.begin(learner)
    return learner, updater


def _sampled(
    cfg: Config,
    reward: Reward,
    levels: data.Levels,
    source: LevelSampler,
    begins_with: Ready,
    ready: Callable[[Sequence[Level]], Ready],
    rng: torch.Generator,
) -> tuple[Learner, Updater]:
    """Return an algorithm that learns from mini-episodes in gridworlds."""
    from drest_torch.gridworlds import Gridworlds as Slots  # TorchRL takes seconds to import

    slots, rounds, group = batch_shape(cfg)
    check_batch(cfg.algo.episodes)
    mdp, optima, observe = begins_with
    environment = Slots.on(
        mdp,
        optima,
        observe,
        slots=slots,
        rounds=rounds,
        group=group,
        private_bits=cfg.policy.private_bits,
        private_kind=cfg.policy.private_kind,
        most_lengths=levels.split.config.lengths[1] if levels.split is not None else None,
    )
    has_critic = algorithm(cfg.algo.name).Algorithm.needs_critic
    counts = has_critic and reward.counting == "sequential"
    environment.pay(reward, shows_counts=counts, objective=None if is_plain(cfg) else objective_of(cfg))
    with Bounded():
        context = environment.num_lengths if counts else 0
        policy, critic = networks(cfg, observe, context=context, with_critic=has_critic)
    return sampled_learner(cfg, environment, policy, critic, rng, source=source, ready=ready)


def _source(cfg: Config, levels: data.Levels, rng: torch.Generator) -> LevelSampler:
    if cfg.levels.fresh:
        assert levels.split is not None  # `data.load` guarantees it
        return FreshLevels(levels.split, rng, symmetries=cfg.levels.symmetries)
    return LevelSampler(levels.train, rng, symmetries=cfg.levels.symmetries)


def levels_to_make(cfg: Config) -> str:
    """Say which levels are generated or read."""
    levels = cfg.levels
    if levels.path is not None:
        return f"reading the levels of {levels.path} …"
    if levels.generator is None:
        return f"loading the levels of {levels.name} …"
    return f"making {count(levels.train + levels.selection + levels.test, 'level')} ({levels.name}) …"


def introduction(
    cfg: Config,
    levels: data.Levels,
    reported: Mapping[str, LevelSet],
    learner: Any,
    pace: Pace,
    device: torch.device,
    folder: Path,
) -> str:
    """Return the lines that describe a run; ``reported`` are the levels of its last evaluation, by split."""
    evaluated = ", ".join(count(len(members.levels), _SPLITS.get(split, split)) for split, members in reported.items())
    how = "exactly" if cfg.sampled is None else f"by {count(cfg.sampled, 'mini-episode')} on each level"
    selection = f"\nbest checkpoint by: {count(len(levels.selection), 'selection level')}" if levels.selection else ""
    most = len(reported["train"].levels)
    few = f"\nduring training: on {cfg.evaluated_levels:,} of those trained on" if most > cfg.evaluated_levels else ""
    fresh = ", and as many new ones as are needed" if cfg.levels.fresh else ""
    start = "" if cfg.start_from is None else f"; begins with the weights of {cfg.start_from}"
    return (
        f"algorithm: {cfg.algo.name}, reward {cfg.reward.name}, {pace.text(cfg.env_steps)}, seed {cfg.seed}\n"
        f"trained on: {count(len(levels.train), 'level')} ({cfg.levels.path or cfg.levels.name}{fresh})\n"
        f"evaluated on: {evaluated}, {how}{few}{selection}\n"
        f"policy: {networks_line(cfg, learner)}{start}{_minibatches(cfg)}\n"
        f"device: {device_line(device)}\n"
        f"folder: {folder}"
    )


def _minibatches(cfg: Config) -> str:
    """Say so if a batch has fewer groups than minibatches are asked for."""
    if learns_from(cfg) != "mini-episodes":
        return ""
    shape, asked = batch_shape(cfg), cfg.algo.minibatches
    groups = shape.slots // shape.group
    few = f"\nminibatches: {groups} and not {asked}, as a batch has {count(groups, 'group')} of mini-episodes"
    return few if groups < asked else ""
