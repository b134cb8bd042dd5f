"""Random levels with a kind of object, and a check that the symmetries of a level are the same task."""

import random
import re
from collections.abc import Iterator

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level, LevelError, parse_level
from drest_torch.envs.levels.symmetry import canonical_key, symmetries
from drest_torch.envs.objects import KINDS, WorldObject

__all__ = ["KINDS", "check_symmetries"]

LOTTERY = "lottery a: 1/2 C3 +1 | 1/2 C1 +0"
MOST = 4
"""The largest number of objects of the kind on a map; some faults need three."""


def random_text(kind: type[WorldObject], rng: random.Random) -> str:
    """Return the text of a cell with such an object: one of its letters, and random digits."""
    digits = re.sub(r"[0-9]", lambda _: str(rng.randint(1, 2)), kind.example[1:])
    return rng.choice(kind.letters) + digits


def random_level(kind: type[WorldObject], rng: random.Random, name: str) -> Level | None:
    """Return a level with such objects, a button and a coin; None if the level is invalid."""
    height, width = rng.randint(2, 4), rng.randint(2, 4)
    cells = ["A", "B2", "C4", *(random_text(kind, rng) for _ in range(rng.randint(1, MOST)))]
    cells += ["#"] * rng.randint(0, 2)
    if len(cells) > height * width:
        return None
    cells += ["."] * (height * width - len(cells))
    rng.shuffle(cells)
    rows = [" ".join(cells[row * width : (row + 1) * width]) for row in range(height)]
    header = [f"shutdown: {rng.randint(2, 4)}", *([LOTTERY] if "La" in cells else [])]
    try:
        level = parse_level("\n".join([*header, "", *rows]), name=name)
        compile_levels([level])
    except LevelError:
        return None
    return level


def random_levels(kind: type[WorldObject], count: int, seed: int) -> Iterator[Level]:
    rng = random.Random(seed)
    accepted = 0
    while accepted < count:
        level = random_level(kind, rng, f"{kind.noun} {accepted}")
        if level is not None:
            accepted += 1
            yield level


def check_symmetries(kind: type[WorldObject], count: int = 60, seed: int = 0) -> None:
    """Check that all eight symmetries of random levels have the same lengths, m(l) and key."""
    most = 0
    for level in random_levels(kind, count, seed):
        turned = symmetries(level)
        optima = solve(compile_levels(turned), 0.9, allow_barren=True)
        for index, other in enumerate(turned):
            same = (optima.lengths[index] == optima.lengths[0]).all()
            same &= ((optima.best_return[index] - optima.best_return[0]).abs() < 1e-9).all()
            assert same, f"{level.rows()} and {other.rows()}: {optima.best_return[0]}, {optima.best_return[index]}"
            assert canonical_key(other) == canonical_key(level)
        most = max(most, sum(isinstance(thing, kind) for thing in (*level.objects, *level.fixtures)))
    assert most > 2
