"""Training, selection and test levels that have no level in common, up to symmetry and translation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from envs import generator
from envs.generator import GeneratorConfig
from envs.levels import Level, LevelError
from envs.symmetry import canonical_key

MAX_KNOWN = 10_000
"""Levels in a row that may be known already before there are taken to be no others."""


@dataclass(frozen=True)
class Split:
    train: list[Level]
    selection: list[Level]
    """For choosing the best checkpoint."""
    test: list[Level]


def make_split(config: GeneratorConfig, *, train: int, selection: int, test: int, seed: int) -> Split:
    """So many generated levels for each purpose, all different from each other.

    The test levels are the first different ones of the generator's stream, the selection levels the next, the
    training levels those after them. So what is held out does not change with the number of training levels,
    and of two such numbers the larger has all training levels of the smaller.
    """
    levels = distinct(generator.stream(config, seed))
    first, second, rest = (list(islice(levels, count)) for count in (test, selection, train))
    return Split(train=rest, selection=second, test=first)


def distinct(levels: Iterable[Level]) -> Iterator[Level]:
    """The levels without those that came before, turned, mirrored or moved as it may be."""
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
        same = known.get(canonical_key(level))
        if same is not None:
            raise LevelError(
                f"{level.place}: the same level, up to symmetry and translation, as {same.place}; "
                "expected two sets that share none"
            )
