"""Levels of gridworlds: their classes, and functions that read and write them."""

from drest_torch.envs.levels.lazy import LazyLevels, features_of, largest_map
from drest_torch.envs.levels.level import (
    CLOCKS,
    MAX_LENGTHS,
    MAX_OBJECTS,
    MAX_SIDE,
    STUDY_KEYS,
    Level,
    format_level,
    level_from_record,
    level_to_record,
    parse_level,
)
from drest_torch.envs.levels.level_files import (
    PAPER_WORLDS,
    WORLDS,
    files_of,
    find_levels,
    read_levels,
    world,
    write_levels,
)
from drest_torch.envs.objects import Button, Coin, Lottery
from drest_torch.envs.objects.button import MAX_TIME
from drest_torch.errors import LevelError

__all__ = [
    "CLOCKS",
    "MAX_LENGTHS",
    "MAX_OBJECTS",
    "MAX_SIDE",
    "MAX_TIME",
    "PAPER_WORLDS",
    "STUDY_KEYS",
    "WORLDS",
    "Button",
    "Coin",
    "LazyLevels",
    "Level",
    "LevelError",
    "Lottery",
    "features_of",
    "files_of",
    "find_levels",
    "format_level",
    "largest_map",
    "level_from_record",
    "level_to_record",
    "parse_level",
    "read_levels",
    "world",
    "write_levels",
]
