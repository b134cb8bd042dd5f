"""The task of gridworlds: the levels of a run, training data for algorithms, and evaluation."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.agents.checkpoints import agent_folder, checkpoint_path, load_checkpoint, load_module
from drest_torch.agents.misfits import fitting_levels
from drest_torch.agents.specification import AgentSpec, check_alike, evaluator, origin_of, spec_in
from drest_torch.agents.untrained import policy_spec
from drest_torch.algos.networks.base import requirements
from drest_torch.algos.networks.spec import MapView, PolicySpec
from drest_torch.algos.objectives.base import Objective
from drest_torch.config.checks import batch_shape, check_levels
from drest_torch.config.schema import Config, objective_of, reward_of, shown_features, variations_of
from drest_torch.envs.actions import NUM_ACTIONS
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.dynamics.observations import Observation, make_observation, on_actual_clock
from drest_torch.envs.exact.solver import LevelSet, PaidCoins
from drest_torch.envs.generation import splits
from drest_torch.envs.levels import Level, features_of
from drest_torch.evaluation.exact_evaluator import Evaluation, ExactEvaluator
from drest_torch.evaluation.memory_guard import (
    RunMemory,
    check_at_once,
    check_batch,
    check_size,
    peak_memory,
    resident_memory,
)
from drest_torch.evaluation.results import Results
from drest_torch.metrics import share_of_best
from drest_torch.play import level_sets
from drest_torch.play.gridworld_slots import Compiled, Gridworlds
from drest_torch.play.level_sets import Levels
from drest_torch.tasks import gridworld_memory
from drest_torch.tasks.base import AgentTask, count
from drest_torch.tasks.exact_batch import ExactBatch, ExactBatches
from drest_torch.tasks.regret import RegretSampler
from drest_torch.tasks.sampling import FreshLevels, LevelSampler
from drest_torch.tasks.teachers import SET_OF_TEACHERS, Teachers
from drest_torch.tasks.varied_levels import VariedLevels
from drest_torch.tracking.stages import stage

SPLIT = "split.json"
"""The file from which generated levels can be generated again and verified."""
SELECTION = "selection"
"""The split for the choice of the best checkpoint."""
_NOUNS = {"train": "training level", "test": "test level", "paper": "paper world"}


def trained_levels_reported(cfg: Config) -> int:
    """Return the largest number of training levels in the final evaluation, which uses all test levels.

    Evaluation by sampling uses fewer, as it would take ten minutes for a thousand huge levels.
    """
    return 1000 if cfg.sampled is None else 200


class GridworldTask(AgentTask):
    """The levels of a run, and the level sets for its policy's evaluation."""

    def __init__(self, cfg: Config, rng: torch.Generator) -> None:
        self.cfg, self.device = cfg, rng.device
        gridworld_memory.check_number_of_levels(cfg)
        stage(f"loading the levels of {cfg.levels.path or cfg.levels.name} …", enabled=cfg.progress)
        self.levels = level_sets.load(cfg)
        check_levels(cfg, self.levels.train, self.levels.evaluated())
        self._origin = {level_sets.SET_OF_LEVELS: level_sets.digest(self.levels)}
        self.map_size = map_size(cfg, self.levels)
        self.objective: Objective | None = None
        """The objective that replaces the return of the reward, if any."""
        if cfg.objective.name != "drest":
            self.objective = objective_of(cfg)
        self.coins = PaidCoins(cfg.reward.pays, cfg.reward.best_of, cfg.reward.ends)
        self.sampler = self._level_sampler(rng)
        self.compiles_once = not self.sampler.changes and self._levels_at_once() >= len(self.levels.train)
        """True if training levels are compiled once rather than for each batch."""
        compiled = self._compiled()
        self.trained: LevelSet = compiled["train"]
        """The training levels; if levels are compiled for each batch, the first ones."""
        sets = compiled | {"train": self.trained.first(trained_levels_reported(cfg))}
        memory_gib = cfg.memory_gib if cfg.sampled is None else None
        for levels in sets.values():
            check_size(levels.mdp, levels.sizes, memory_gib)
        self.reported = {split: levels for split, levels in sets.items() if split != SELECTION}
        """The level sets of the final evaluation, by split."""
        self.spec = self._specification()
        self.watched = {"train": self.evaluator(sets["train"].first(cfg.evaluated_levels))}
        self._played: Gridworlds | None = None
        """The environment of a sampling algorithm."""
        self._is_exact = False
        if SELECTION in sets:
            self.selection = self.watched[SELECTION] = self.evaluator(sets[SELECTION])

    def _level_sampler(self, rng: torch.Generator) -> LevelSampler:
        levels = self.cfg.levels
        sampler = self._uniform_sampler(rng)
        if levels.sampler == "regret":
            sampler = RegretSampler(sampler, levels.regret, self._evaluated)
        return sampler

    def _evaluated(self, levels: Sequence[Level]) -> Evaluation:
        """Return the evaluation of the policy in training."""
        evaluator = self.evaluator(levels)
        return evaluator.evaluate(self.policy)

    def _uniform_sampler(self, rng: torch.Generator) -> LevelSampler:
        symmetries, split = self.cfg.levels.symmetries, self.levels.split
        sampler = LevelSampler(self.levels.train, rng, symmetries=symmetries)
        if self.cfg.levels.fresh and split is not None:
            sampler = FreshLevels(split, rng, symmetries=symmetries)
        variations = variations_of(self.cfg)
        if variations is not None:
            sampler = VariedLevels(sampler, variations, without=self.levels.held_out())
        return sampler

    def _levels_at_once(self) -> int:
        """Return the largest number of levels in one update."""
        at_once: int = getattr(self.cfg.algo, "levels_at_once", len(self.levels.train))
        return at_once

    def _compiled(self) -> dict[str, LevelSet]:
        """Compile the levels of each split once; training levels are excluded if they are compiled for each batch."""
        train = self.levels.train
        features = shown_features(self.cfg) | features_of(train)
        first = train
        if not self.compiles_once:
            first = train[: trained_levels_reported(self.cfg)]
        compiled = {}
        for split, levels in self.levels.evaluated().items():
            if split == "train":
                compiled[split] = self._compile(first, features)
            elif levels:
                compiled[split] = self._compile(levels, features)
        return compiled

    def _compile(self, levels: Sequence[Level], features: Collection[str]) -> LevelSet:
        return LevelSet(compile_levels(levels, self.device, at_least=self.map_size, features=features))

    def _specification(self) -> AgentSpec:
        cfg, mdp = self.cfg, self.trained.mdp
        policy = spec_on_levels(cfg, self.observation(mdp), self.map_size, mdp.features)
        return AgentSpec(policy, reward_of(cfg), origin_of(cfg, str(cfg.levels.path or cfg.levels.name)))

    def observation(self, mdp: Mdp) -> Observation:
        """Return the observation of the run's policy for a level set."""
        return make_observation(self.cfg.policy.observation, mdp, self.cfg.policy.time_steps)

    def _as_played(self, levels: LevelSet) -> LevelSet:
        """Return examples of what is played on these training levels; variations can be larger."""
        examples = self.sampler.examples(levels.levels)
        if examples is levels.levels:
            return levels
        return self._compile(examples, levels.mdp.features)

    # ------------------------------------------------------------------------------------ the algorithm's interface

    def _training_levels(self, levels: Sequence[Level] | LevelSet) -> LevelSet:
        """Compile training levels, with the features of all training levels."""
        if isinstance(levels, LevelSet):
            return levels
        return self._compile(levels, self.trained.mdp.features)

    def _solved(self, levels: Sequence[Level] | LevelSet) -> Compiled:
        """Return compiled training levels with their paid coins, their solution and their observation."""
        level_set = self._training_levels(levels)
        optima = self.coins.optima(level_set, self.reward.gamma)
        played = self.coins.paid(level_set.mdp)
        return played, optima, on_actual_clock(self.observation(level_set.mdp), level_set.mdp, played)

    def environment(self, *, with_critic: bool) -> Gridworlds:
        """Return an environment of training levels; a critic sees the counts of sequential mini-episodes."""
        cfg, split = self.cfg, self.levels.split
        slots, rounds, group = batch_shape(cfg)
        check_batch(cfg.algo.episodes)
        most_lengths = None
        if split is not None:
            most_lengths = split.config.lengths[1]
        elif self.sampler.changes:
            whole = self._compile(self.levels.train, ())
            most_lengths = whole.optima(1.0).lengths.shape[1]
        first = self.trained
        if self.sampler.changes:
            first = first.first(1)
        environment = Gridworlds.on(
            *self._solved(first),
            slots=slots,
            rounds=rounds,
            group=group,
            private_bits=cfg.policy.private_bits,
            most_lengths=most_lengths,
        )
        environment.pay(
            self.reward.at(0.0),
            shows_counts=with_critic and self.reward.counting == "sequential",
            objective=self.objective,
        )
        if self.sampler.changes:
            environment.sample = lambda groups: self._solved(self.sampler.sample(groups))
        self._played = environment
        return environment

    def exact_batches(self) -> ExactBatches:
        """Return batches of all training levels, or of the configured number of levels."""
        cfg = self.cfg
        settings = 1 << cfg.policy.private_bits
        check_at_once(self._as_played(self.trained.first(1)).mdp, cfg.algo.levels_at_once, cfg.memory_gib, settings)
        whole = self.trained if self.compiles_once else None
        self._is_exact = True
        return ExactBatches(self._unroll, self.sampler, levels_per_update=cfg.algo.levels_at_once, whole=whole)

    def _unroll(self, levels: Sequence[Level] | LevelSet) -> ExactBatch:
        level_set, policy = self._training_levels(levels), self.cfg.policy
        return ExactBatch(
            level_set,
            policy.observation,
            self.reward,
            coins=self.coins,
            objective=self.objective,
            time_steps=policy.time_steps,
        )

    def world(self) -> tuple[Any, list[float]]:
        """Return the only training level as a table, and m of each of its lengths."""
        check_batch(self.cfg.algo.episodes)
        mdp, optima, _ = self._solved(self.trained)
        from drest_torch.play.world_table import tabulate  # imports numba, which takes a while

        return tabulate(mdp, optima), optima.best_return[0].tolist()

    def teachers(self, names: Sequence[str], checkpoint: str) -> Teachers:
        teachers = Teachers(names, checkpoint, self.levels.train, self.device)
        self._origin[SET_OF_TEACHERS] = teachers.digest
        return teachers

    def tensors(self) -> dict[str, Tensor]:
        tensors = self.sampler.tensors()
        if self.objective is not None:
            for name, value in self.objective.tensors().items():
                tensors[f"objective.{name}"] = value
        return tensors

    def memory(self, algorithm: Any) -> RunMemory | None:
        if self.device.type != "cpu":
            return None
        cfg, level_set = self.cfg, self._as_played(self.trained)
        observe = self.observation(level_set.mdp)
        row = gridworld_memory.FLOAT * math.prod(observe.shape)
        parts = [gridworld_memory.weights_part(algorithm.policy, algorithm.critic)]
        if self._played is not None:
            sizes = gridworld_memory.batch_memory(cfg, level_set.mdp, observe, self._played, algorithm)
            parts.append(gridworld_memory.batch_part(cfg, sizes))
        elif self._is_exact:
            parts.append(gridworld_memory.exact_part(cfg, level_set.sizes.states))
        if cfg.sampled is not None:
            parts.append(gridworld_memory.sampled_part(level_set.mdp, row))
        else:
            watched = [evaluator.sizes for evaluator in self.watched.values()]
            reported = [levels.sizes for levels in self.reported.values()]
            parts.append(gridworld_memory.evaluation_part(watched, reported, row, cfg.memory_gib))
        return RunMemory(parts, resident_memory(), peak_memory())

    # ------------------------------------------------------------------------------------ evaluation

    def evaluator(self, levels: Sequence[Level] | LevelSet) -> ExactEvaluator:
        """Return an evaluator on these levels, exact or by sampling."""
        cfg = self.cfg
        return evaluator(self.spec, levels, self.device, sampled=cfg.sampled, memory_gib=cfg.memory_gib)

    def judges(self) -> Iterator[tuple[str, ExactEvaluator]]:
        for split, levels in self.reported.items():
            watched = self.watched.get(split)
            if watched is None or watched.level_set is not levels:
                watched = self.evaluator(levels)
            yield split, watched

    def pictures(self, split: str, evaluator: Any, evaluation: Any, policy: Any, folder: Path) -> list[Path]:
        results = Results(evaluator, policy, evaluation, False, folder.absolute().parent.name)
        return results.plotted(folder / split, self.cfg.pictures)

    def arrays(self, split: str, records: Sequence[Mapping[str, Any]], policy: Any) -> dict[str, np.ndarray]:
        """Return ``lengths``, ``p_length`` and ``share_of_best`` [K] of a split with a single level; else nothing.

        Unless the policy is recurrent, ``policy`` has its action probabilities in the reachable states [N, 4].
        """
        if len(records) != 1:
            return {}
        evaluator = self.evaluator(self.reported[split])
        evaluation = evaluator.evaluate(policy)
        outcome, k = evaluation.outcome, int(evaluation.num_lengths[0])
        share = share_of_best(outcome.coins, evaluator.optima.best_return)
        arrays = {
            "lengths": evaluation.lengths[0, :k].numpy(),
            "p_length": outcome.probability[0, :k].numpy(),
            "share_of_best": share[0, :k].numpy(),
        }
        if evaluator.fitting_levels(1, policy):
            arrays["policy"] = evaluator.probabilities(policy).numpy().astype(np.float32)
        return arrays

    def evaluated_next(self) -> Sequence[str] | None:
        return fitting_levels(self.spec.policy, self.cfg.levels, self.levels.reported.get("test", []))

    # ------------------------------------------------------------------------------------ the folder of the run

    def begin(self, policy: Any) -> None:
        if self.cfg.start_from is None:
            return
        path = checkpoint_path(agent_folder(self.cfg.start_from), "last")
        tensors, meta = load_checkpoint(path)
        check_alike(self.cfg.start_from, spec_in(meta, path), self.spec.policy)
        load_module("policy", policy, tensors, path)

    def origin(self) -> dict[str, str]:
        return super().origin() | self._origin

    def saved_with(self) -> dict[str, str]:
        return super().saved_with() | {level_sets.TEST_LEVELS: level_sets.digest_of_tests(self.levels)}

    def keep(self, folder: Path, *, anew: bool) -> None:
        split, path = self.levels.split, folder / SPLIT
        if split is None:
            return
        if anew or not path.is_file():  # the process may have been killed before writing it
            splits.write_split(path, split, preset=self.cfg.levels.name)
        else:
            splits.check_split(path, split)

    def lines(self) -> list[str]:
        cfg, levels = self.cfg, self.levels
        name = cfg.levels.path or cfg.levels.name
        if cfg.levels.fresh:
            name += ", and as many new ones as are needed"
        sizes = {split: len(level_set.levels) for split, level_set in self.reported.items()}
        sets = ", ".join(count(size, _NOUNS.get(split, split)) for split, size in sizes.items())
        how = "exactly"
        if cfg.sampled is not None:
            how = f"by {count(cfg.sampled, 'mini-episode')} on each level"
        lines = [f"trained on: {count(len(levels.train), 'level')} ({name})", f"evaluated on: {sets}, {how}"]
        if sizes["train"] > cfg.evaluated_levels:
            lines.append(f"during training: on {cfg.evaluated_levels:,} of those trained on")
        lines += self.sampler.lines()
        if levels.selection:
            lines.append(f"best checkpoint by: {count(len(levels.selection), 'selection level')}")
        return lines + self._minibatch_lines()

    def _minibatch_lines(self) -> list[str]:
        """Return a note if a batch has fewer groups than the configured number of minibatches."""
        minibatches = getattr(self.cfg.algo, "minibatches", 1)
        if minibatches == 1:
            return []
        slots, _, group = batch_shape(self.cfg)
        groups = slots // group
        if groups >= minibatches:
            return []
        return [
            f"minibatches: {groups} and not {minibatches}, as a batch has {count(groups, 'group')} of mini-episodes"
        ]


def map_size(cfg: Config, levels: Levels) -> tuple[int, int]:
    """Return the rows and columns of the largest map; smaller maps are padded to this size with walls."""
    if cfg.policy.observation == "vector":
        return levels.train[0].height, levels.train[0].width
    height, width = levels.largest_map()
    if levels.split is not None:  # the size must not depend on how many levels are generated
        height = max(height, levels.split.config.height[1])
        width = max(width, levels.split.config.width[1])
    squares = requirements(cfg.policy.network).symmetries == "observation"
    side = cfg.levels.vary.size or 1
    height, width = max(height, side), max(width, side)
    if squares or cfg.levels.symmetries:  # a quarter turn swaps rows and columns
        side = max(height, width)
        return side, side
    return height, width


def spec_on_levels(cfg: Config, observe: Observation, size: tuple[int, int], features: frozenset[str]) -> PolicySpec:
    """Return the specification of a run's policy in gridworlds with maps of at most this size."""
    view = MapView(
        observation=cfg.policy.observation,
        planes=observe.planes,
        rows=size[0],
        columns=size[1],
        time_steps=cfg.policy.time_steps,
        features=tuple(sorted(features)),
    )
    scale: tuple[float, ...] = (1.0,)
    if observe.scale.ndim > 1:
        scale = tuple(observe.scale.flatten().tolist())
    return policy_spec(cfg, view, observe.shape, outputs=NUM_ACTIONS, scale=scale)
