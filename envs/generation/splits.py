"""Splits into training, selection and test levels that share no level, up to symmetry and translation."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from drest_torch.envs.generation import stream as generator
from drest_torch.envs.generation.stream import GeneratorConfig
from drest_torch.envs.levels import Level, LevelError
from drest_torch.envs.levels.files import write_file
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


def read_split(path: str | os.PathLike[str]) -> Split:
    """Generate the split of a file again; refuse it if the levels are not those for which the file was written."""
    record = _read_record(Path(path))
    known = [field.name for field in fields(GeneratorConfig)]
    for name in record["generator"]:
        if name not in known:
            raise LevelError(f"{path}: the generator has no '{name:.40}'; expected some of {', '.join(known)}")
    split = make_split(GeneratorConfig(**record["generator"]), **record["levels"], seed=record["seed"])
    check_split(path, split)
    return split


def check_split(path: str | os.PathLike[str], split: Split) -> None:
    """Refuse a split that is not the one of the file."""
    hashes = _read_record(Path(path))["sha256"]
    for name, actual in _hashes(split).items():
        if actual != hashes[name]:
            levels = "levels" if name == "all" else f"{name} levels"
            raise LevelError(
                f"{path}: the {levels} of its generator and seed have SHA-256 {actual:.12}… and the file says "
                f"{hashes[name]:.12}…; expected a file as it was written, by this version of the generator"
            )


def _hashes(split: Split) -> dict[str, str]:
    """Return the SHA-256 of the canonical keys, one per line in the order of the levels, for each part and for all."""
    hashes = {name: hashlib.sha256() for name in (*PARTS, "all")}
    for part in PARTS:
        for level in getattr(split, part):
            line = f"{canonical_key(level)}\n".encode()
            hashes[part].update(line)
            hashes["all"].update(line)
    return {name: part_hash.hexdigest() for name, part_hash in hashes.items()}


def _read_record(path: Path) -> dict[str, Any]:
    """Return the JSON object of a split's file; refuse it if something is missing."""
    try:
        record = json.loads(read_whole(path))
    except OSError as error:
        raise LevelError(f"{path}: cannot be read ({error.strerror}); expected the file of a split") from None
    except (ValueError, RecursionError) as error:
        raise LevelError(f"{path}: no JSON ({error}); expected the file of a split") from None
    kinds: dict[str, type] = {"format": int, "seed": int, "levels": dict, "sha256": dict, "generator": dict}
    for key, kind in kinds.items():
        if not isinstance(record, dict) or type(record.get(key)) is not kind:
            raise LevelError(f"{path}: no '{key}', or of the wrong kind; expected the file of a split")
    if record["format"] != FORMAT:
        raise LevelError(f"{path}: format {record['format']}; expected {FORMAT}, the one that this version writes")
    counts, hashes = record["levels"], record["sha256"]
    if counts.keys() != set(PARTS) or not all(type(count) is int and count >= 0 for count in counts.values()):
        raise LevelError(f"{path}: levels {counts!r:.80}; expected how many there are for {', '.join(PARTS)}")
    if hashes.keys() != {*PARTS, "all"} or not all(isinstance(text, str) for text in hashes.values()):
        raise LevelError(f"{path}: sha256 {hashes!r:.80}; expected texts for {', '.join(PARTS)}, all")
    return record
