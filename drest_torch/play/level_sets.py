"""The training, selection and test levels of a run's configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from drest_torch.config.checks import device_of
from drest_torch.config.schema import Config, GeneratorKeys, LevelsConfig
from drest_torch.envs.generation import splits
from drest_torch.envs.generation import stream as generator
from drest_torch.envs.levels import (
    PAPER_WORLDS,
    WORLDS,
    Level,
    find_levels,
    largest_map,
    level_to_record,
    read_levels,
    world,
)
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.errors import ConfigError


@dataclass(frozen=True)
class Levels:
    """The level sets of a run."""

    train: Sequence[Level]
    selection: Sequence[Level]
    """Levels for the choice of the best checkpoint; never reported."""
    reported: dict[str, Sequence[Level]]
    """Level sets of the summary by split, including the training levels."""
    split: splits.Split | None = None
    """The split of generated levels, if there are any."""

    def largest_map(self) -> tuple[int, int]:
        """Return the largest number of rows and of columns."""
        sizes = [largest_map(levels) for levels in (self.train, self.selection, *self.reported.values()) if levels]
        return max(height for height, _ in sizes), max(width for _, width in sizes)

    def held_out(self) -> frozenset[str]:
        """Return the canonical keys of the levels that are not for training."""
        others = [levels for levels in self.evaluated().values() if levels is not self.train]
        return frozenset(key for levels in others for key in keys_of(levels))

    def evaluated(self) -> dict[str, Sequence[Level]]:
        """Return the levels for evaluation during and after training, by split."""
        return {**self.reported, "selection": self.selection}


def load(cfg: Config) -> Levels:
    """Read or generate the levels of a run; refuse splits that share a level up to symmetry."""
    split = _split(cfg.levels, device_of(cfg.device))
    train: Sequence[Level]
    selection: Sequence[Level]
    test: Sequence[Level]
    if cfg.levels.fresh and split is None:
        raise ConfigError("levels.fresh=true, but there is no generator for these levels; use levels=generated")
    if split is not None:
        train, selection, test = split.train, split.selection, split.test
    else:
        train, selection, test = named(cfg.levels), [], []
    if cfg.test.path is not None:
        test = _on_clock(read_levels(cfg.test.path), cfg.levels.clock)
    if cfg.test.selection_path is not None:
        selection = _on_clock(read_levels(cfg.test.selection_path), cfg.levels.clock)
    if cfg.test.path is not None or cfg.test.selection_path is not None:
        for other in (test, selection):
            splits.assert_disjoint(train, other)
        splits.assert_disjoint(selection, test)
    reported: dict[str, Sequence[Level]] = {"train": train}
    if test:
        reported["test"] = test
    trains_on_paper = cfg.levels.path is None and cfg.levels.name in (*WORLDS, "paper")
    if cfg.test.paper and not trains_on_paper and cfg.policy.observation != "vector":
        reported["paper"] = [world(name) for name in PAPER_WORLDS]
    return Levels(train, selection, reported, split)


def _split(levels: LevelsConfig, device: torch.device) -> splits.Split | None:
    """Generate a split of levels, unless the configuration names other levels."""
    if levels.path is not None or levels.generator is None:
        return None
    if levels.train == 0:
        raise ConfigError("levels.train=0 generated levels to train on; expected at least 1")
    return splits.make_split(
        generator_config(levels.generator, levels.clock),
        train=levels.train,
        selection=levels.selection,
        test=levels.test,
        seed=levels.split_seed,
        device=device,
    )


TEST_LEVELS = "test levels"
"""The name of the test levels' digest in checkpoints."""
SET_OF_LEVELS = "set of levels"
"""The name of the digest of all levels in checkpoints."""


def digest(levels: Levels) -> str:
    """Return a digest of a run's levels. Generated levels are excluded, because their split has its own hashes."""
    generated: list[Sequence[Level]] = []
    if levels.split is not None:
        generated = [levels.split.train, levels.split.selection, levels.split.test]
    checksum = hashlib.sha256()
    for level_set in (levels.train, levels.selection, *levels.reported.values()):
        if any(level_set is other for other in generated):
            continue
        for level in level_set:
            line = json.dumps(level_to_record(level)) + "\n"
            checksum.update(line.encode())
    return checksum.hexdigest()[:16]


def digest_of_tests(levels: Levels) -> str:
    """Return a digest of the test levels, without their names."""
    return digest_of_levels(levels.reported.get("test", []))


def digest_of_levels(levels: Sequence[Level]) -> str:
    """Return a digest of levels, without their names."""
    records = [level_to_record(level) | {"name": ""} for level in levels]
    return hashlib.sha256(json.dumps(records).encode()).hexdigest()[:16]


def named(levels: LevelsConfig) -> Sequence[Level]:
    """Return the levels of a file, the worlds of the paper by name, or the test levels of a generated set."""
    if levels.path is not None:
        return _on_clock(read_levels(levels.path, x=levels.x), levels.clock)
    if levels.generator is None:
        return _on_clock(find_levels(levels.name, x=levels.x), levels.clock)
    if levels.test == 0:
        raise ConfigError("levels.test=0 generated levels to evaluate on; expected at least 1")
    config = generator_config(levels.generator, levels.clock)
    return splits.make_split(config, train=0, selection=0, test=levels.test, seed=levels.split_seed).test


def generator_config(cfg: GeneratorKeys, clock: str | None) -> generator.GeneratorConfig:
    """Return the configuration of the generator."""
    values: Any = OmegaConf.to_container(OmegaConf.structured(cfg))
    return generator.GeneratorConfig(**values, clock=clock or "steps")


def _on_clock(levels: list[Level], clock: str | None) -> list[Level]:
    if clock is None:
        return levels
    return [level.with_clock(clock) for level in levels]


def level_files(cfg: Config) -> list[tuple[str, str, Path]]:
    """Return the group, the key and the path of each level file that a configuration names."""
    files = (
        ("levels", "path", cfg.levels.path),
        ("test", "path", cfg.test.path),
        ("test", "selection_path", cfg.test.selection_path),
    )
    return [(group, key, Path(path)) for group, key, path in files if path is not None]
