"""Splits into training, selection and test levels that share no level, up to symmetry and translation."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import LazyLevels, Level, LevelError
from drest_torch.envs.levels.lazy import keys_of, together
from drest_torch.envs.levels.level_files import write_file
from drest_torch.envs.levels.symmetry import canonical_key
from drest_torch.files import read_whole

MAX_REPEATED = 10_000
"""The maximum number of repeated levels in a row; beyond it the search for new ones ends with an error."""
PARTS = ("train", "selection", "test")
FORMAT = 1
"""The version of the format of a split's file."""


@dataclass(frozen=True)
class Split:
    """Training, selection and test levels with the configuration of their generator."""

    train: LazyLevels
    selection: LazyLevels
    """The levels for choosing the best checkpoint."""
    test: LazyLevels
    config: GeneratorConfig
    seed: int

    def held_out(self) -> frozenset[str]:
        """Return the canonical keys of the selection and test levels, which `generator.stream` must not produce."""
        return frozenset((*self.selection.keys, *self.test.keys))


def make_split(
    config: GeneratorConfig,
    *,
    train: int,
    selection: int,
    test: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> Split:
    """Generate this many levels for each part of the split; all of them differ.

    The test levels are the first different levels of the generator's stream; the selection levels follow, then the
    training levels. The selection and test levels therefore do not depend on the number of training levels, and a
    larger training set contains every smaller one.
    """
    levels = _different(generator.batches(config, seed, device=device), test + selection + train)
    return Split(
        test=levels[:test],
        selection=levels[test : test + selection],
        train=levels[test + selection :],
        config=config,
        seed=seed,
    )


def _different(batches: Iterable[LazyLevels], count: int) -> LazyLevels:
    """Return the first ``count`` different levels, up to symmetry and translation."""
    seen, parts = SeenKeys(), list[LazyLevels]()
    for levels in batches:
        new = (place for place, key in enumerate(levels.keys) if seen.add(key))
        parts.append(levels.at(torch.tensor(list(islice(new, count - len(seen.keys))), dtype=torch.int64)))
        if len(seen.keys) == count:
            break
    return together(parts)


def distinct(levels: Iterable[Level]) -> Iterator[Level]:
    """Yield the levels without repetitions, up to symmetry and translation."""
    seen = SeenKeys()
    for level in levels:
        if seen.add(canonical_key(level)):
            yield level


class SeenKeys:
    """The set of canonical keys seen so far."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.repeated = 0
        """The number of repeated keys in a row."""

    def add(self, key: str) -> bool:
        """Add a key and return whether it is new; raise an error after `MAX_REPEATED` repeated keys in a row."""
        if key not in self.keys:
            self.keys.add(key)
            self.repeated = 0
            return True
        self.repeated += 1
        if self.repeated == MAX_REPEATED:
            raise LevelError(
                f"{len(self.keys):,} different levels were found, and the next {MAX_REPEATED:,} are all among "
                "these; expected wider ranges for the generator, or fewer levels"
            )
        return False


def assert_disjoint(first: Sequence[Level], second: Sequence[Level]) -> None:
    """Refuse two sets that share a level, up to symmetry and translation."""
    seen = {key: index for index, key in enumerate(keys_of(first))}
    for index, key in enumerate(keys_of(second)):
        if key in seen:
            raise LevelError(
                f"{second[index].place}: the same level, up to symmetry and translation, as {first[seen[key]].place}; "
                "expected two sets that share none"
            )


# ------------------------------------------------------------------------------------------- as files


def write_split(path: str | os.PathLike[str], split: Split, *, preset: str | None = None) -> None:
    """Write a file from which the split can be generated again and verified, without its levels.

    The file is JSON: the generator's configuration and seed, the number of levels of each part, and the SHA-256 of
    their canonical keys, for each part and in total. ``preset`` is the name of the configuration.
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
    """Refuse a split that differs from the split of the file."""
    try:
        hashes = dict(json.loads(read_whole(Path(path)))["sha256"])
    except OSError as error:
        raise LevelError(f"{path}: cannot be read ({error.strerror}); expected the file of a split") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise LevelError(f"{path}: not JSON with hashes under sha256; expected the file of a split") from None
    for name, actual in _hashes(split).items():
        if hashes.get(name) != actual:
            levels = "levels" if name == "all" else f"{name} levels"
            raise LevelError(
                f"{path}: the {levels} of its generator and seed have SHA-256 {actual:.12}… but the file says "
                f"{hashes.get(name)!s:.12}…; expected a file as it was written, by this version of the generator"
            )


def _hashes(split: Split) -> dict[str, str]:
    """Return the SHA-256 of the canonical keys, one per line in the order of the levels, of each part and in total."""
    lines = {part: "".join(f"{key}\n" for key in keys_of(getattr(split, part))) for part in PARTS}
    lines["all"] = "".join(lines.values())
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in lines.items()}
