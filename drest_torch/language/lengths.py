"""The order of lengths that are written as text: times, numbers and a few words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

Key: TypeAlias = "Callable[[str], tuple[float, str] | None]"
"""A function from a length to its value and its unit; None if it cannot read the length."""
SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_629_746,
    "year": 31_556_952,
}
"""Units of time, without the s of the plural; other units are compared with themselves only."""
TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?\s*([ap])?\.?(?:m\.?)?", re.IGNORECASE)
NUMBER = re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?)\s*([^\d\s].*)?", re.IGNORECASE)
WORDS = (
    "short shorter shortest soon sooner soonest early earlier earliest brief now today",
    "medium middle intermediate",
    "long longer longest late later latest extended tomorrow",
)
"""Words for lengths, the shortest first; the words of a line are not ordered among each other."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def in_order(lengths: Iterable[str]) -> tuple[list[str], bool]:
    """Return distinct lengths, the shortest first, and whether their order is known; otherwise it is alphabetical."""
    distinct = sorted(set(lengths))
    for key in KEYS:
        ordered = _ordered(distinct, key)
        if ordered is not None:
            return ordered, True
    return distinct, len(distinct) == 1


def _ordered(lengths: Sequence[str], key: Key) -> list[str] | None:
    """Return lengths in the order of a key; None if it cannot read all, or does not tell them apart."""
    values: dict[float, str] = {}
    units = set()
    for length in lengths:
        read = key(length.strip())
        if read is None:
            return None
        value, unit = read
        values[value] = length
        units.add(unit)
    if len(values) < len(lengths) or len(units) > 1:
        return None
    return [values[value] for value in sorted(values)]


def _time(length: str) -> tuple[float, str] | None:
    """Return the seconds since midnight of a time such as 9:00, 13:05:30 or 9 pm."""
    match = TIME.fullmatch(length)
    if match is None:
        return None
    hours, minutes, seconds, half = match.groups()
    if minutes is None and half is None:
        return None  # a number
    hour = int(hours)
    unit = "time"
    if half is not None:
        unit = "time of twelve hours"
        hour = hour % 12
        if half.lower() == "p":
            hour += 12
    return 3600 * hour + 60 * int(minutes or 0) + int(seconds or 0), unit


def _number(length: str) -> tuple[float, str] | None:
    """Return the value of a number such as 9, 50,000 or 3 days, and its unit."""
    match = NUMBER.fullmatch(length)
    if match is None:
        return None
    digits, unit = match.groups()
    value = float(digits.replace(",", ""))
    unit = (unit or "").lower().rstrip(".")
    seconds = SECONDS.get(unit.removesuffix("s"))
    if seconds is not None:
        return value * seconds, "second"
    return value, unit.removesuffix("s")


def _word(length: str) -> tuple[float, str] | None:
    """Return the rank of a word such as short or later."""
    for rank, words in enumerate(WORDS):
        if length.lower() in words.split():
            return rank, ""
    return None


def _ordinal(length: str) -> tuple[float, str] | None:
    """Return the rank of an ordinal such as first."""
    if length.lower() not in ORDINALS:
        return None
    return ORDINALS.index(length.lower()), ""


KEYS: tuple[Key, ...] = (_time, _number, _word, _ordinal)
