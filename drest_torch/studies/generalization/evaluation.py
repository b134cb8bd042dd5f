"""Runs that evaluate an agent on several sets of levels: training levels, unseen levels and larger maps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drest_torch.agent import Agent
from drest_torch.agents.specification import evaluator
from drest_torch.envs.generation.splits import make_split
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import PAPER_WORLDS, Level, read_levels, world
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.tasks.gridworlds import trained_levels_reported
from drest_torch.training.run import Run

TRAINING, UNSEEN, WORLDS, FILE = "training", "unseen", "paper", "file"
"""The sets: the training levels, the test levels of the same kind, the paper's worlds, and the levels of a file."""
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality_normalised"}
"""Measures on each level, and their attribute of an `Evaluation`: neutrality is ÷ log2 k."""
RANDOM = "random"
TRAIN_FILE, EVALUATED_FILE = "train.jsonl", "val.jsonl"
"""File names in a folder of levels."""


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected {TRAIN_FILE} and {EVALUATED_FILE} in this folder")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checked_file(spec: dict[str, Any], name: str) -> Path:
    """Return the path of a file of a run; refuse a file whose content has changed."""
    path = Path(spec["places"][name])
    if hash_file(path) != spec["sha256"][name]:
        raise ConfigError(f"{path} has changed since the study was started; start it again")
    return path


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train as `drest_torch.jobs.training_job.train` does, then evaluate the policy on several sets of levels.

    With a file of training levels in ``sha256``, the run trains only on these. The numbers are those of the training;
    the arrays are ``<set>/<measure>`` [n], for each level.
    """
    files = spec["sha256"]
    config = dict(spec["config"])
    if TRAIN_FILE in files:
        config["levels"] = config["levels"] | {"path": str(checked_file(spec, TRAIN_FILE))}
    run, result = trained({"config": config}, folder)
    sets = sets_of(run)
    if EVALUATED_FILE in files:
        sets[FILE] = _unseen(run, read_levels(str(checked_file(spec, EVALUATED_FILE))))
    arrays: dict[str, np.ndarray] = {}
    for name, levels in sets.items():
        if not levels:
            continue
        evaluation = run.gridworlds.evaluator(list(levels)).evaluate(run.algorithm.evaluated_policy)
        arrays |= {f"{name}/{measure}": values for measure, values in measured(evaluation).items()}
    return Result(result.numbers, arrays)


def sets_of(run: Run) -> dict[str, Sequence[Level]]:
    """Return the training levels of a run, and, if they were generated, its test levels and the paper's worlds."""
    splits = run.gridworlds.levels
    sets: dict[str, Sequence[Level]] = {TRAINING: splits.train[: trained_levels_reported(run.cfg)]}
    if splits.split is not None:
        sets[UNSEEN] = _unseen(run, splits.split.test)
        rows, columns = run.gridworlds.map_size
        worlds = [world(name) for name in PAPER_WORLDS]
        fits = all(level.height <= rows and level.width <= columns for level in worlds)
        if fits or run.algorithm.policy.reads_maps:
            sets[WORLDS] = _unseen(run, worlds)
    return sets


def _unseen(run: Run, levels: Sequence[Level]) -> list[Level]:
    """Return the levels that are new up to symmetry: no rotation or reflection was used in training or selection."""
    splits = run.gridworlds.levels
    return without(levels, frozenset((*keys_of(splits.train), *keys_of(splits.selection))))


def without(levels: Sequence[Level], excluded_keys: frozenset[str]) -> list[Level]:
    """Return the levels whose canonical key is not excluded."""
    return [level for level, key in zip(levels, keys_of(levels), strict=True) if key not in excluded_keys]


def measured(evaluation: Any) -> dict[str, np.ndarray]:
    """Return the measures of each level [n]."""
    return {name: getattr(evaluation, attribute).cpu().numpy() for name, attribute in MEASURES.items()}


def by_size(spec: dict[str, Any], folder: Path) -> Result:
    """Evaluate a pretrained agent of the project, and random actions, on maps of several sizes.

    arrays: ``<side>/<measure>`` and ``<side>/random/<measure>`` [n]. Maps with a side above ``exact_to`` are evaluated
    by sampling.
    """
    agent = Agent.load(spec["agent"])
    arrays: dict[str, np.ndarray] = {}
    for side, record in spec["generators"].items():
        split = make_split(GeneratorConfig(**record), train=0, selection=0, test=spec["levels"], seed=spec["seed"])
        sampled = spec["sampled"] if int(side) > spec["exact_to"] else None
        ready = evaluator(agent.spec, split.test, torch.device("cpu"), sampled=sampled, memory_gib=2)
        evaluations = {"": ready.evaluate(agent.policy), f"{RANDOM}/": ready.evaluate_uniform()}
        for name, evaluation in evaluations.items():
            arrays |= {f"{side}/{name}{measure}": values for measure, values in measured(evaluation).items()}
    return Result({}, arrays)
