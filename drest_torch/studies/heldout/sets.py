"""What the study `heldout` looks at a trained policy on: level sets that it has never seen, once, at the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from drest_torch.config.schema import Config
from drest_torch.errors import ConfigError
from drest_torch.metrics import share_of_best
from drest_torch.training import levels as data
from drest_torch.training.judge import TRAINED_LEVELS_REPORTED
from drest_torch.training.run import Run
from envs.dynamics.mdp import compile_levels
from envs.dynamics.observations import make_observation
from envs.generation import splits
from envs.generation import stream as generator
from envs.levels import PAPER_WORLDS, Level, level_to_record, read_levels, world
from envs.levels.symmetry import canonical_key

TEST, TRAIN, PAPER, FILE = "test", "train", "paper", "file"
"""The sets that are not shifted ones: of the run's own split, the paper's worlds, and those of `study.path`."""


def described(cfg: Any, base: Config) -> dict[str, Any]:
    """The sets as part of a run's spec: all they are made from, and of a file what it is known by.

    The shifted sets are those of ``base``'s generator, with what ``cfg.shifted`` says in its place.
    """
    for title in cfg.shifted:
        if title in (TEST, TRAIN, PAPER, FILE):
            raise ConfigError(f"study.shifted with the title '{title}', which another set has; choose another title")
    if base.levels.generator is None:
        raise ConfigError(f"study.levels={cfg.levels}, which are not generated; choose levels with a generator")
    merged: Any = {title: OmegaConf.merge(base.levels.generator, changes) for title, changes in cfg.shifted.items()}
    shifted = {title: data.generator_config(each, base.levels.clock).to_record() for title, each in merged.items()}
    path = None if cfg.path is None else Path(cfg.path).resolve()
    return {
        "shifted": shifted,
        "shifted_levels": cfg.shifted_levels,
        "shifted_seed": cfg.shifted_seed,
        "path": None if path is None else str(path),
        "sha256": None if path is None else _hash_of_file(path),
    }


def _hash_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def held_out(sets: dict[str, Any], split: splits.Split) -> dict[str, list[Level]]:
    """The levels of every set but the training levels."""
    found = {TEST: split.test, PAPER: [world(name) for name in PAPER_WORLDS]}
    if sets["path"] is not None:
        if _hash_of_file(Path(sets["path"])) != sets["sha256"]:
            raise ConfigError(f"{sets['path']} has changed since the study was started; start it again")
        found[FILE] = read_levels(sets["path"])
    for title, record in sets["shifted"].items():
        config = generator.GeneratorConfig(**record)
        made = splits.make_split(config, train=0, selection=0, test=sets["shifted_levels"], seed=sets["shifted_seed"])
        found[title] = made.test
    return found


def without(levels: Sequence[Level], known: frozenset[str]) -> list[Level]:
    """The levels whose canonical key is not known."""
    return [level for level in levels if canonical_key(level) not in known]


def looked_at(run: Run, sets: dict[str, Any], shown: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the run's policy does on every set, as numbers and arrays.

    numbers: by set how many ``levels`` it has, how many were ``left_out`` as the run has trained on them or looked
    at them before, whether the policy can see them (``seen``), and the ``sha256`` of their canonical keys; and the
    ``worst`` levels of the test set, with the ``map_size`` that the policy was built for.

    arrays: see `outcome`, as ``<set>/<name>`` for the sets that are seen; and the action probabilities
    ``worst/<rank>`` [Z, N, 4] in the reachable states of the worst levels, under settings of private noise that have
    the names ``noise`` in the numbers (see `Prepared.to_show`).
    """
    split = run.levels.split
    assert split is not None  # `described` has seen to it
    known = frozenset(canonical_key(level) for level in (*run.levels.train, *run.levels.selection))
    numbers: dict[str, Any] = {"map_size": list(run.map_size), "sets": {}}
    arrays: dict[str, np.ndarray] = {}
    whole = held_out(sets, split)
    kept = {name: without(levels, known) for name, levels in whole.items()}
    whole[TRAIN] = kept[TRAIN] = split.train[:TRAINED_LEVELS_REPORTED]
    for name, levels in kept.items():
        seen = bool(levels) and can_see(run, levels)
        numbers["sets"][name] = {
            "levels": len(levels),
            "left_out": len(whole[name]) - len(levels),
            "seen": seen,
            "sha256": _hash_of(levels),
        }
        if seen:
            arrays |= {f"{name}/{what}": value for what, value in outcome(run, levels).items()}
    worst = _worst(arrays, shown)
    numbers["worst"] = [{"index": int(i), "level": level_to_record(kept[TEST][i])} for i in worst]
    for rank, index in enumerate(worst):
        ready = run.judge.evaluator([kept[TEST][index]])
        policies = ready.to_show(run.learner.policy)
        numbers["noise"] = list(policies)
        arrays[f"worst/{rank}"] = torch.stack([*policies.values()]).cpu().numpy().astype(np.float32)
    return numbers, arrays


def can_see(run: Run, levels: Sequence[Level]) -> bool:
    """Whether the policy was built for maps of this size, and for what its observation shows of them."""
    rows, columns = run.map_size
    if any(level.height > rows or level.width > columns for level in levels):
        return False
    shapes = [
        make_observation(run.cfg.policy.observation, compile_levels(each, at_least=run.map_size)).shape
        for each in (list(levels), run.levels.train[:1])
    ]
    return shapes[0] == shapes[1]


def outcome(run: Run, levels: Sequence[Level]) -> dict[str, np.ndarray]:
    """Of each level: ``usefulness``, ``neutrality`` (bits), ``neutrality_normalised``, how many lengths there are
    (``k``), ``coins`` E[C], and ``most``, the largest m(l) [n]; for each length ``p_length`` and ``share_of_best``
    [n, K], 0 where there is none."""
    ready = run.judge.evaluator(list(levels))
    evaluation = ready.evaluate(run.learner.policy)
    found, best = evaluation.found, ready.optima.best_return
    tensors = {
        "usefulness": evaluation.usefulness,
        "neutrality": evaluation.neutrality,
        "neutrality_normalised": evaluation.neutrality_normalised,
        "k": evaluation.num_lengths,
        "coins": (found.probability * found.coins).sum(-1),
        "most": best.max(-1).values,
        "p_length": found.probability,
        "share_of_best": share_of_best(found.coins, best),
    }
    return {name: tensor.cpu().numpy() for name, tensor in tensors.items()}


def _worst(arrays: dict[str, np.ndarray], shown: int) -> np.ndarray:
    """Indices of the test levels with the lowest usefulness × normalised neutrality, the lowest first."""
    score = arrays[f"{TEST}/usefulness"] * arrays[f"{TEST}/neutrality_normalised"]
    return np.argsort(score, kind="stable")[:shown]


def _hash_of(levels: Sequence[Level]) -> str:
    text = json.dumps([canonical_key(level) for level in levels])
    return hashlib.sha256(text.encode()).hexdigest()
