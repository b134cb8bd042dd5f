"""Limits of configuration values, stated beside the fields of their dataclasses."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection
from dataclasses import Field, dataclass, field, fields
from typing import Any

_KEY = "limits"


@dataclass(frozen=True)
class Limits:
    """The allowed values of a field; null is always allowed in optional fields."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    finite: bool = True
    whole: bool = False
    choices: Collection[str] | None = None

    def allow(self, value: Any) -> bool:
        """Return whether a value is within the limits."""
        if self.choices is not None:
            return value in self.choices
        if not isinstance(value, int if self.whole else int | float) or (self.finite and not math.isfinite(value)):
            return False
        return bool(self.at_least <= value <= self.at_most and value > self.above)

    def __str__(self) -> str:
        if self.choices is not None:
            return f"one of {', '.join(self.choices)}"
        number = "a whole number" if self.whole else "a number"
        if self.at_least > -math.inf and self.at_most < math.inf:
            return f"{number} from {_text(self.at_least)} to {_text(self.at_most)}"
        bounds = {"at least": self.at_least, "above": self.above, "at most": self.at_most}
        words = [f"{word} {_text(bound)}" for word, bound in bounds.items() if math.isfinite(bound)]
        return f"{number} {', '.join(words)}"


def limited(*, kind: str = "", default: Any = "???", **bounds: Any) -> Any:
    """Return a dataclass field with these `Limits`; the default is OmegaConf's MISSING.

    A default list or dictionary is copied for each configuration. The limits of a list or a dictionary apply to each
    value in it; `drest_torch.config.checks` enforces them. ``kind`` describes the values of a field with a vague type.
    """
    limits = Limits(**bounds)
    metadata = {"kind": kind, **({} if limits == Limits() else {_KEY: limits})}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def same_as(kind: type, name: str) -> Any:
    """Return a field with the default and the limits of a field of another dataclass; a tuple becomes a list."""
    (other,) = [entry for entry in fields(kind) if entry.name == name]
    if isinstance(other.default, tuple):
        return limited(default=list(other.default))
    return field(default=other.default, metadata=other.metadata)


def limits_of(value: Field[Any]) -> Limits | None:
    """Return the limits of a field, or None."""
    limits: Limits | None = value.metadata.get(_KEY)
    return limits


def _text(bound: float) -> str:
    """Format a number for a message, large powers of 2 as 2^62 - 1."""
    power = int(bound + 1).bit_length() - 1
    return f"2^{power} - 1" if power > 32 and bound + 1 == 1 << power else f"{bound:g}"
