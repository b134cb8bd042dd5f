"""The base class of world objects; `drest_torch.envs.objects` lists the kinds.

An object is on a cell of a map. A kind is one small class that defines how its cells are read and written, the numbers
that the rules use, the planes that observations show, the effect of a symmetry of the map, how it is rendered, and how
it is sampled for random levels. The rules use these numbers of a cell: the value of a coin, the delay of a button and
the chance that it works, whether there is something to take, and the target of each action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.counter_rng import Draws

if TYPE_CHECKING:
    from matplotlib.patches import Patch
    from typing_extensions import Self

NUMBER = r"[0-9]+(?:\.[0-9]+)?"
"""A number in the text of a level."""

DELAY_UNIT = 8
"""Observations show delays and times in this unit, which brings them to about 1."""

Layers = Mapping[str, Tensor]
"""Named tensors of one shape, with one number for each cell of many maps."""


class Layer(NamedTuple):
    """A number that a kind of object has on each cell."""

    dtype: torch.dtype
    nothing: float = 0
    """The number of a cell without such an object."""


class Plane(NamedTuple):
    """A plane of observations that shows a kind of object."""

    name: str
    """If the last word is an action, it is the direction of the objects in this plane, which symmetries change."""
    values: Callable[[Layers], Tensor]
    """The function that computes one number for each cell."""
    unit: str | None = None
    """``coins`` or ``time``, if the numbers are not about 1."""
    feature: str | None = None
    """The feature that a level set must have for the plane to be shown; None: every set has the plane."""

    @property
    def scale(self) -> float:
        """Return the factor that brings the numbers to about 1 for a network."""
        return 1 / 4 if self.unit else 1.0

    def relative(self, values: Tensor, largest_coin: Tensor) -> Tensor:
        """Return the numbers [B, cells] of the `centred` observation, given the largest coin of each level [B, 1]."""
        if self.unit is None:
            return values
        return values / (largest_coin if self.unit == "coins" else DELAY_UNIT)


@dataclass(frozen=True)
class WorldObject(ABC):
    """An object on a cell of a map."""

    row: int
    column: int

    letters: ClassVar[str]
    """The first letters that the text of a cell can have."""
    noun: ClassVar[str]
    example: ClassVar[str]
    """The text of an example cell, for messages."""
    is_taken: ClassVar[bool] = True
    """Whether the object is gone once the agent has entered its cell; such an object takes one bit of a state."""
    is_directed: ClassVar[bool] = False
    """Whether a symmetry of the map changes more than the place of the object."""
    is_optional: ClassVar[bool] = False
    """Whether level sets without such an object have none of its layers, so that it costs them nothing."""
    features: ClassVar[Mapping[str, str]] = {}
    """The features that observations show only if a level set has them, with their description for messages."""
    layers: ClassVar[Mapping[str, Layer]]
    """The numbers of the object; the first is never 0 on its cell."""
    planes: ClassVar[tuple[Plane, ...]] = ()
    draws: ClassVar[tuple[str, ...]] = ()
    """The names of the random numbers that `sample` uses; the generator lists those of coins and buttons."""
    style: ClassVar[str] = "1;38;5;231;48;5;30"
    """The colours of the cell in a terminal (ANSI)."""

    @classmethod
    @abstractmethod
    def parse(cls, row: int, column: int, cell: str, place: str) -> Self:
        """Read the text of a cell; ``place`` is its name in messages."""

    @property
    @abstractmethod
    def text(self) -> str:
        """Return the text of the cell: the inverse of :meth:`parse`."""

    @property
    def key(self) -> str:
        """Return a text that is equal for two objects if and only if they differ in nothing but their place."""
        return self.text

    @property
    def label(self) -> str:
        """Return the text on the object in a picture."""
        return self.text

    @property
    @abstractmethod
    def numbers(self) -> tuple[float, ...]:
        """Return one number for each of ``layers``."""

    @classmethod
    def of_numbers(cls, row: int, column: int, *numbers: float) -> Self:
        """Return the object with these numbers: the inverse of ``numbers``."""
        return cls(row, column, *numbers)

    @classmethod
    def is_on(cls, layers: Layers) -> Tensor:
        """Return on which cells such an object is."""
        return layers[next(iter(cls.layers))] != 0

    @property
    def shows(self) -> frozenset[str]:
        """Return the features that this object has."""
        return frozenset(self.features)

    def check(self, walls: Sequence[Sequence[bool]], objects: Sequence[WorldObject], place: str) -> None:
        """Refuse an object that cannot be at its place, among the walls and ``objects`` of the map."""
        return

    def moved(self, row: int, column: int, actions: Sequence[int]) -> Self:
        """Return the object at its new place under a symmetry of the map, which maps each action to ``actions``."""
        return replace(self, row=row, column=column)

    @classmethod
    def redirect(cls, goto: Tensor, layers: Layers, shape: torch.Size) -> Tensor:
        """Return the spots that actions lead to [S, 4] with the effect of these objects, given the layers [S].

        Spots number the cells of all maps of a set, whose ``shape`` is [levels, height, width]. The effect must be the
        same on a map that is rotated or reflected, so it cannot follow from the order of the spots.
        """
        return goto

    @classmethod
    def plural(cls) -> str:
        """Return the plural of the noun, which names the generator's range for their number, if it has one."""
        return f"{cls.noun}s"

    @classmethod
    def count(cls, draws: Draws) -> Tensor:
        """Sample the number of these objects in each draft [n, 1]."""
        return draws.later(cls.plural(), 1)

    @classmethod
    def sample(cls, draws: Draws, here: Tensor, index: Tensor) -> dict[str, Tensor]:
        """Sample the layers [n, S] of the objects at the cells ``here`` [n, S]; ``index`` numbers them.

        A kind that has no range in the generator is not sampled.
        """
        raise NotImplementedError(f"{cls.__name__}.sample")

    def patch(self, x: float, y: float) -> Patch:
        """Return the shape for a picture, centred at (x, y), where y points down and a cell is one unit wide."""
        from matplotlib.patches import Rectangle

        return Rectangle(
            (x - 0.32, y - 0.32), 0.64, 0.64, facecolor="#cfe8e6", edgecolor="#2a7f78", linewidth=1.2, zorder=1.8
        )


def format_number(value: float) -> str:
    """Return the shortest decimal text, without an exponent, that reads back as the same number."""
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
