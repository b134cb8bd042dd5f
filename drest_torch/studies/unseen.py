"""Training runs whose policies are evaluated once, at the end, on level sets that they were not trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drest_torch.config.schema import shown_features
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.levels import PAPER_WORLDS, Level, read_levels, world
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.tasks.gridworlds import trained_levels_reported
from drest_torch.training.run import Run

TEST, TRAIN, PAPER, FILE = "test", "train", "paper", "file"
"""The sets of every run: two of its own split, the paper's worlds, and the levels of a file, where one is given."""
RUNNER = "drest_torch.studies.unseen:train"


def describe(path: str | None) -> dict[str, Any]:
    """Return the sets as part of a run's spec: the path and the hash of a file of levels.

    What stands beside these is the same in all runs: it keeps their digests.
    """
    resolved = None if path is None else Path(path).resolve()
    return {
        "shifted": {},
        "shifted_levels": 0,
        "shifted_seed": 0,
        "path": None if resolved is None else str(resolved),
        "sha256": None if resolved is None else hash_file(resolved),
    }


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; give a file of levels, .jsonl or .txt")
    return hashlib.sha256(path.read_bytes()).hexdigest()


def without(levels: Sequence[Level], known: frozenset[str]) -> list[Level]:
    """Return the levels whose canonical key is not known."""
    return [level for level, key in zip(levels, keys_of(levels), strict=True) if key not in known]


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train as `drest_torch.jobs.training_job.train` does, then evaluate the policy once on the sets of the spec.

    The numbers are those of the training, the arrays those of `evaluate_sets`.
    """
    run, result = trained(spec, folder)
    return Result(result.numbers, evaluate_sets(run, spec["sets"]))


def evaluate_sets(run: Run, sets: dict[str, Any]) -> dict[str, np.ndarray]:
    """Evaluate a run's policy on every set that it can see, and return `outcome` as ``<set>/<name>``.

    Levels that the run has trained on, or selected by, are left out of all sets but that of training levels.
    """
    own = run.gridworlds.levels
    others: dict[str, Sequence[Level]] = {}
    if own.split is not None:
        others[TEST] = own.split.test
    others[PAPER] = [world(name) for name in PAPER_WORLDS]
    if sets["path"] is not None:
        if hash_file(Path(sets["path"])) != sets["sha256"]:
            raise ConfigError(f"{sets['path']} has changed since the study was started; start it again")
        others[FILE] = read_levels(sets["path"])
    known = frozenset((*keys_of(own.train), *keys_of(own.selection)))
    kept: dict[str, Sequence[Level]] = {name: without(levels, known) for name, levels in others.items()}
    kept[TRAIN] = own.train[: trained_levels_reported(run.cfg)]
    return {
        f"{name}/{what}": value
        for name, levels in kept.items()
        if levels and can_see(run, levels)
        for what, value in outcome(run, levels).items()
    }


def can_see(run: Run, levels: Sequence[Level]) -> bool:
    """Return whether the policy can read maps of this size, and was built for what its observation shows of them."""
    rows, columns = run.gridworlds.map_size
    any_size = run.algorithm.policy.reads_maps
    if not any_size and any(level.height > rows or level.width > columns for level in levels):
        return False
    shown = shown_features(run.cfg)
    shapes = [
        run.gridworlds.observation(compile_levels(some, at_least=run.gridworlds.map_size, features=shown)).shape
        for some in (list(levels), run.gridworlds.levels.train[:1])
    ]
    return shapes[0][:1] == shapes[1][:1] if any_size else shapes[0] == shapes[1]


def outcome(run: Run, levels: Sequence[Level]) -> dict[str, np.ndarray]:
    """Return for each level ``usefulness``, ``neutrality_normalised`` (÷ log2 k), ``neutrality_own_normalised`` (given
    the private bits), ``usefulness_at_<γ>`` for the γ of the paper, and the ``design`` that the level is a symmetry of,
    by its number [n]."""
    ready = run.gridworlds.evaluator(list(levels))
    evaluation = ready.evaluate(run.algorithm.policy)
    keys = keys_of(levels)
    designs = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    most = evaluation.num_lengths.double().log2()
    tensors = {
        "usefulness": evaluation.usefulness,
        "neutrality_normalised": evaluation.neutrality_normalised,
        "neutrality_own_normalised": torch.where(most > 0, evaluation.neutrality_own / most.clamp_min(1), 0),
        "design": torch.tensor([designs[key] for key in keys]),
        **{f"usefulness_at_{gamma:g}": value for gamma, value in ready.usefulness_at(run.algorithm.policy).items()},
    }
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
