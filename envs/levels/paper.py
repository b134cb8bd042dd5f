"""The gridworlds of the paper, by name."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from drest_torch.envs.levels.files import read_levels
from drest_torch.envs.levels.level import Level
from drest_torch.envs.levels.text import parse_level
from drest_torch.errors import LevelError

WORLDS = (
    "example",
    "lopsided",
    "fewer_for_longer",
    "one_coin_only",
    "hidden_treasure",
    "equal_value",
    "around_the_corner",
    "spacious",
    "royal_road",
    "last_moment",
)
"""The ten gridworlds of the paper (Figures 2, 5 and 8)."""


PAPER_WORLDS = tuple(name for name in WORLDS if name != "lopsided")
"""The nine worlds without a free parameter: the running example and the eight of Figure 8."""


def world(name: str, *, x: float | None = None) -> Level:
    """Return one of the paper's gridworlds by its name; ``x`` is the coin value that `lopsided` leaves open."""
    if name not in WORLDS:
        raise LevelError(f"no world '{name}'; expected one of {', '.join(WORLDS)}")
    text = resources.files("drest_torch.envs.worlds").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    if x is not None and "Cx" not in text.split():
        raise LevelError(f"x={x} with the world '{name}'; expected x with 'lopsided', which alone has a coin 'Cx'")
    return parse_level(text, name=name, source=f"{name}.txt", x=x)


def find_levels(name: str, *, x: float | None = None) -> list[Level]:
    """Return the levels that a user asks for by a world's name, ``paper`` (the nine worlds), or a file."""
    if name == "paper":
        if x is not None:
            raise LevelError(f"x={x} with 'paper'; expected x with a single level that has a coin 'Cx'")
        return [world(paper_world) for paper_world in PAPER_WORLDS]
    if name in WORLDS:
        return [world(name, x=x)]
    if Path(name).suffix in (".txt", ".jsonl"):
        return read_levels(name, x=x)
    raise LevelError(f"no levels '{name}'; expected paper, a file (.jsonl or .txt), or one of {', '.join(WORLDS)}")
