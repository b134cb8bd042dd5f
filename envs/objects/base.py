"""The base class of world objects; `drest_torch.envs.objects` lists the kinds.

An object is on a cell of a map. A kind is one small class that defines the text of its cells, the numbers for the
rules, the planes of observations, the effect of symmetries, the rendering, and the sampling for random levels. The
rules use these numbers of a cell: the value of a coin, the delay of a button and the chance that it works, the presence
of something to take, and the target of each action.
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
"""The pattern of a number in the text of a level."""

DELAY_UNIT = 8
"""The unit of delays and times in observations, which brings them to about 1."""

Layers = Mapping[str, Tensor]
"""Named tensors of one shape, with one number for each cell of many maps."""


class Layer(NamedTuple):
    """A number of a kind of object on each cell."""

    dtype: torch.dtype
    nothing: float = 0
    """The number of a cell without such an object."""


class Plane(NamedTuple):
    """A plane of observations for a kind of object."""

    name: str
    """The name; an action as its last word is the direction of the objects, which symmetries change."""
    values: Callable[[Layers], Tensor]
    """The function that computes one number for each cell."""
    unit: str | None = None
    """``coins`` or ``time`` for numbers with a unit, which are not about 1."""
    feature: str | None = None
    """The feature that adds the plane to the observations of a level set; None: every set has the plane."""

    @property
    def scale(self) -> float:
        """The factor that brings the numbers to about 1 for a network."""
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
    """True if the object disappears when the agent enters its cell; it then takes one bit of a state."""
    is_directed: ClassVar[bool] = False
    """True if a symmetry of the map changes more than the place of the object."""
    is_optional: ClassVar[bool] = False
    """True if only level sets with such an object have its layers."""
    features: ClassVar[Mapping[str, str]] = {}
    """The optional features of level sets with this object, with their descriptions for messages."""
    layers: ClassVar[Mapping[str, Layer]]
    """The numbers of the object; the first is never 0 on its cell."""
    planes: ClassVar[tuple[Plane, ...]] = ()
    draws: ClassVar[tuple[str, ...]] = ()
    """The names of the random numbers of `sample`, except for coins and buttons, which the generator lists."""
    style: ClassVar[str] = "1;38;5;231;48;5;30"
    """The colours of the cell in a terminal (ANSI)."""

    @classmethod
    @abstractmethod
    def parse(cls, row: int, column: int, cell: str, place: str) -> Self:
        """Read the text of a cell; ``place`` is its name in messages."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The text of the cell: the inverse of :meth:`parse`."""

    @property
    def key(self) -> str:
        """A text that is equal for two objects if and only if they are equal up to their place."""
        return self.text

    @property
    def label(self) -> str:
        """The text on the object in a picture."""
        return self.text

    @property
    @abstractmethod
    def numbers(self) -> tuple[float, ...]:
        """One number for each of ``layers``."""

    @classmethod
    def of_numbers(cls, row: int, column: int, *numbers: float) -> Self:
        """Return the object with these numbers: the inverse of ``numbers``."""
        return cls(row, column, *numbers)

    @classmethod
    def is_on(cls, layers: Layers) -> Tensor:
        """Return a mask of the cells with such an object."""
        return layers[next(iter(cls.layers))] != 0

    @property
    def shows(self) -> frozenset[str]:
        """The features that this object has."""
        return frozenset(self.features)

    def check(self, walls: Sequence[Sequence[bool]], objects: Sequence[WorldObject], place: str) -> None:
        """Refuse an object that cannot be at its place, among the walls and ``objects`` of the map."""
        return

    def moved(self, row: int, column: int, actions: Sequence[int]) -> Self:
        """Return the object at its new place under a symmetry of the map, which maps the actions to ``actions``."""
        return replace(self, row=row, column=column)

    @classmethod
    def redirect(cls, goto: Tensor, layers: Layers, shape: torch.Size) -> Tensor:
        """Return the targets of the actions [S, 4] with the effect of these objects, from the layers [S].

        Spots number the cells of all maps of a set of ``shape`` [levels, height, width]. The effect must commute with
        rotations and reflections of the map, so it must not depend on the order of the spots.
        """
        return goto

    @classmethod
    def plural(cls) -> str:
        """Return the plural of the noun, which is also the name of the generator's range, if there is one."""
        return f"{cls.noun}s"

    @classmethod
    def count(cls, draws: Draws) -> Tensor:
        """Sample the number of these objects in each draft [n, 1]."""
        return draws.later(cls.plural(), 1)

    @classmethod
    def sample(cls, draws: Draws, is_here: Tensor, index: Tensor) -> dict[str, Tensor]:
        """Sample the layers [n, S] of the objects at the cells ``is_here`` [n, S]; ``index`` numbers the objects.

        A kind without a range in the generator is not sampled.
        """
        raise NotImplementedError(f"{cls.__name__}.sample")

    def patch(self, x: float, y: float) -> Patch:
        """Return the shape for a picture, centred at (x, y), with y downwards and one unit per cell."""
        from matplotlib.patches import Rectangle

        return Rectangle(
            (x - 0.32, y - 0.32), 0.64, 0.64, facecolor="#cfe8e6", edgecolor="#2a7f78", linewidth=1.2, zorder=1.8
        )


def format_number(value: float) -> str:
    """Return the shortest decimal text without an exponent that reads back as the same number."""
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
