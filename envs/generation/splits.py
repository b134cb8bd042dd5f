"""Splits into training, selection and test levels that share no level, up to symmetry and translation."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import Level, LevelError
from drest_torch.envs.levels.level_files import write_file
from drest_torch.envs.levels.symmetry import canonical_key
from drest_torch.files import read_whole

MAX_KNOWN = 10_000
"""The number of repeated levels in a row after which the search for different ones ends with an error."""
PARTS = ("train", "selection", "test")
FORMAT = 1
"""The version of the format of a split's file."""


@dataclass(frozen=True)
class Split:
    """Training, selection and test levels, and the generator that they come from."""

    train: list[Level]
    selection: list[Level]
    """The levels that choose the best checkpoint."""
    test: list[Level]
    config: GeneratorConfig
    seed: int

    def held_out(self) -> frozenset[str]:
        """Return the canonical keys of the selection and test levels, which `generator.stream` must not produce."""
        return frozenset(canonical_key(level) for level in (*self.selection, *self.test))


def make_split(
    config: GeneratorConfig,
    *,
    train: int,
    selection: int,
    test: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> Split:
    """Generate this many levels for each purpose, all different from each other.

    The test levels are the first different levels of the generator's stream, then come the selection levels, then the
    training levels. The selection and test levels therefore do not depend on the number of training levels, and a
    larger number of training levels includes those of a smaller number.
    """
    levels = distinct(generator.stream(config, seed, device=device))
    first, second, rest = (list(islice(levels, count)) for count in (test, selection, train))
    return Split(train=rest, selection=second, test=first, config=config, seed=seed)


def distinct(levels: Iterable[Level]) -> Iterator[Level]:
    """Yield the levels that differ from all before them, up to symmetry and translation."""
    known: set[str] = set()
    repeated = 0
    for level in levels:
        key = canonical_key(level)
        repeated = repeated + 1 if key in known else 0
        if repeated == 0:
            known.add(key)
            yield level
        elif repeated == MAX_KNOWN:
            raise LevelError(
                f"{len(known):,} different levels were found, and the {MAX_KNOWN:,} after them are all among these; "
                "expected wider ranges for the generator, or fewer levels to be asked for"
            )


def assert_disjoint(first: Iterable[Level], second: Iterable[Level]) -> None:
    """Refuse two sets that share a level, up to symmetry and translation."""
    known = {canonical_key(level): level for level in first}
    for level in second:
        twin = known.get(canonical_key(level))
        if twin is not None:
            raise LevelError(
                f"{level.place}: the same level, up to symmetry and translation, as {twin.place}; "
                "expected two sets that share none"
            )


# ------------------------------------------------------------------------------------------- as files


def write_split(path: str | os.PathLike[str], split: Split, *, preset: str | None = None) -> None:
    """Write everything that is needed to generate the split again and to verify it, but not the levels.

    The file is JSON: the generator's configuration and seed, the number of levels for each purpose, and the SHA-256 of
    their canonical keys, for each purpose and for all together. ``preset`` is the name of the configuration.
    """
    record = {
        "format": FORMAT,
        "preset": preset,
        "seed": split.seed,
        "levels": {part: len(getattr(split, part)) for part in PARTS},
        "sha256": _hashes(split),
        "generator": split.config.to_record(),
    }
    write_file(Path(path), json.dumps(record, indent=2) + "\n")


def check_split(path: str | os.PathLike[str], split: Split) -> None:
    """Refuse a split that is not the one of the file."""
    try:
        hashes = dict(json.loads(read_whole(Path(path)))["sha256"])
    except OSError as error:
        raise LevelError(f"{path}: cannot be read ({error.strerror}); expected the file of a split") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LevelError(f"{path}: no JSON with hashes under sha256; expected the file of a split") from None
    for name, actual in _hashes(split).items():
        if hashes.get(name) != actual:
            levels = "levels" if name == "all" else f"{name} levels"
            raise LevelError(
                f"{path}: the {levels} of its generator and seed have SHA-256 {actual:.12}… and the file says "
                f"{hashes.get(name)!s:.12}…; expected a file as it was written, by this version of the generator"
            )


def _hashes(split: Split) -> dict[str, str]:
    """Return the SHA-256 of the canonical keys, one per line in the order of the levels, for each part and for all."""
    lines = {part: "".join(f"{canonical_key(level)}\n" for level in getattr(split, part)) for part in PARTS}
    lines["all"] = "".join(lines.values())
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in lines.items()}
