"""What every kind of world object says of itself; `envs.objects` lists the kinds.

An object stands on a cell of a map. A kind is one small class that says how its cells are read and written, which
numbers of it the rules go by, what observations show of it, what a symmetry of the map does to it, how it is rendered,
and how it is sampled for random levels. The rules know these numbers of a cell: the value of a coin, the delay of a
button and the chance with which it works, whether there is something to take, and where each action leads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.patches import Patch

NUMBER = r"[0-9]+(?:\.[0-9]+)?"
"""A number in the text of a level."""

Layers = Mapping[str, Tensor]
"""By name, one number for each cell of many maps, all of one shape."""


class Layer(NamedTuple):
    """A number that a kind of object has on each cell."""

    dtype: torch.dtype
    nothing: float = 0
    """The number of a cell on which there is no such object."""


class Plane(NamedTuple):
    """One picture that observations show of a kind of object."""

    name: str
    """A last word that is an action says where the objects shown point, which a symmetry of the map changes."""
    values: Callable[[Layers], Tensor]
    """One number for each cell."""
    scale: float = 1.0
    """What a network multiplies the numbers by to bring them to about 1."""
    relative: Callable[[Tensor], Tensor] = lambda values: values
    """The numbers [B, cells] as the `centred` observation has them."""
    feature: str | None = None
    """What a level set must have for the plane to be shown; None: it always is."""


class Draws(Protocol):
    """The random numbers of n drafts of levels."""

    def bounds(self, name: str) -> tuple[float, float]:
        """The range of this name."""

    def first(self, name: str) -> Tensor:
        """Whole numbers from the range of this name, of those that the first generator drew."""

    def later(self, name: str, *shape: int) -> Tensor:
        """[n, *shape] whole numbers from the range of this name."""

    def real(self, name: str, *shape: int) -> Tensor:
        """[n, *shape] numbers from [0, 1)."""


@dataclass(frozen=True)
class WorldObject(ABC):
    """An object on a cell of a map."""

    row: int
    column: int

    letters: ClassVar[str]
    """The letters with which the text of a cell begins."""
    noun: ClassVar[str]
    example: ClassVar[str]
    """The text of a cell, for messages."""
    is_taken: ClassVar[bool] = True
    """Whether it is gone once the agent has entered its cell; each such object takes one bit of a state."""
    is_directed: ClassVar[bool] = False
    """Whether a symmetry of the map changes more of it than its place."""
    features: ClassVar[Mapping[str, str]] = {}
    """What policies are shown only if a level set has it: by its name, what it is for messages."""
    layers: ClassVar[Mapping[str, Layer]]
    """Its numbers, of which the first is never 0 where it stands."""
    planes: ClassVar[tuple[Plane, ...]]
    draws: ClassVar[tuple[str, ...]] = ()
    """Names of the random numbers that `sample` takes; those of coins and buttons are listed by the generator."""
    style: ClassVar[str]
    """Colours of its cell in a terminal (ANSI)."""

    @classmethod
    @abstractmethod
    def parse(cls, row: int, column: int, cell: str, place: str, x: float | None) -> Self:
        """Read the text of a cell; messages call it ``place``, and ``x`` is the value of a coin ``Cx``."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The text of its cell: the inverse of :meth:`parse`."""

    @property
    def key(self) -> str:
        """A text that differs wherever two objects do, for their place."""
        return self.text

    @property
    def label(self) -> str:
        """What is written on it in a picture."""
        return self.text

    @property
    @abstractmethod
    def numbers(self) -> tuple[float, ...]:
        """One number for each of ``layers``."""

    @classmethod
    def of_numbers(cls, row: int, column: int, *numbers: float) -> Self:
        """Make the object of these numbers: the inverse of ``numbers``."""
        return cls(row, column, *numbers)

    @property
    def shows(self) -> frozenset[str]:
        """Which of ``features`` it has."""
        return frozenset(self.features)

    def check(self, walls: Sequence[Sequence[bool]], place: str) -> None:
        """Refuse an object that cannot stand where it does."""
        return

    def moved(self, row: int, column: int, actions: Sequence[int]) -> Self:
        """Return it as it is under a symmetry of the map, which makes of each action the one in ``actions``."""
        return replace(self, row=row, column=column)

    @classmethod
    def redirect(cls, goto: Tensor, layers: Layers) -> Tensor:
        """Change where each action leads [S, 4], given the layers [S]."""
        return goto

    @classmethod
    def plural(cls) -> str:
        """Return the noun for several, which is the range of the generator for how many there are."""
        return f"{cls.noun}s"

    @classmethod
    def count(cls, draws: Draws) -> Tensor:
        """Sample how many of them each draft has [n, 1]."""
        return draws.later(cls.plural(), 1)

    @classmethod
    @abstractmethod
    def sample(cls, draws: Draws, here: Tensor, index: Tensor) -> dict[str, Tensor]:
        """Sample the layers [n, S] of objects that stand ``here`` [n, S]; they are numbered by ``index`` there."""

    @abstractmethod
    def patch(self, x: float, y: float) -> Patch:
        """Return its shape for a picture, around (x, y), where y points down and a cell is one unit wide."""


def format_number(value: float) -> str:
    """Return the shortest decimal text, without an exponent, that reads back as the same number."""
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
