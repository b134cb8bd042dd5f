"""The space of a search: the keys whose values are sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.trial import BaseTrial


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A key whose values are sampled; a subclass has the values."""

    key: str
    written: str
    """Its values as in the command."""

    def argument(self, value: Any) -> str:
        """Return the argument of a training with a value."""
        return f"{self.key}={text_of(value)}"

    def suggest(self, trial: BaseTrial) -> Any:
        """Return the value of a trial, which is sampled unless the trial has one."""
        raise NotImplementedError

    def extremes(self) -> Sequence[Any]:
        """Return the values to check before the search."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Choice(Dimension):
    """A list of values without an order."""

    values: tuple[Any, ...]

    def suggest(self, trial: BaseTrial) -> Any:
        return trial.suggest_categorical(self.key, self.values)

    def extremes(self) -> Sequence[Any]:
        return self.values


@dataclass(frozen=True, kw_only=True)
class WholeNumbers(Dimension):
    """Whole numbers from ``low`` to ``high``, inclusive."""

    low: int
    high: int
    step: int = 1
    log: bool = False

    def suggest(self, trial: BaseTrial) -> int:
        return trial.suggest_int(self.key, self.low, self.high, step=self.step, log=self.log)

    def extremes(self) -> Sequence[int]:
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class Numbers(Dimension):
    """Numbers from ``low`` to ``high``; None as the step: all of them."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    def suggest(self, trial: BaseTrial) -> float:
        return trial.suggest_float(self.key, self.low, self.high, step=self.step, log=self.log)

    def extremes(self) -> Sequence[float]:
        return self.low, self.high


def text_of(value: Any) -> str:
    """Return a value as typed in an argument; texts are already."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
