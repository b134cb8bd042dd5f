"""Coins: ``C3`` is worth 3 when the agent first enters its cell; ``Cx`` in a text file has a free value."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drest_torch.envs.counter_rng import Draws
from drest_torch.envs.objects.base import NUMBER, Layer, Plane, WorldObject, format_number
from drest_torch.errors import LevelError

if TYPE_CHECKING:
    from matplotlib.patches import Patch
    from typing_extensions import Self

_COIN = re.compile(rf"C({NUMBER})")


@dataclass(frozen=True)
class Coin(WorldObject):
    """A coin that can be collected once."""

    value: float

    letters = "C"
    noun = "coin"
    example = "C3"
    layers = {"coin": Layer(torch.float64)}
    planes = (Plane("coin", lambda layers: layers["coin"], "coins"),)
    style = "1;38;5;94;48;5;220"

    @classmethod
    def parse(cls, row: int, column: int, cell: str, place: str) -> Self:
        match = _COIN.fullmatch(cell)
        if match is None:
            raise LevelError(
                f"{place}: '{cell:.40}' is not a coin; expected C and a number above 0, such as C3, or Cx and a "
                "value of x"
            )
        value = float(match[1])
        if not 0 < value < math.inf:
            raise LevelError(f"{place}: the coin {cell:.40} has value {value:g}; expected a finite number above 0")
        return cls(row, column, value)

    @property
    def text(self) -> str:
        return f"C{format_number(self.value)}"

    @property
    def key(self) -> str:
        return f"C{float(self.value)!r}"

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.value,)

    @classmethod
    def count(cls, draws: Draws) -> Tensor:
        return draws.first("coins")

    @classmethod
    def sample(cls, draws: Draws, is_here: Tensor, index: Tensor) -> dict[str, Tensor]:
        return {"coin": (draws.first("coin_values") * is_here).double()}

    def patch(self, x: float, y: float) -> Patch:
        from matplotlib.patches import Circle

        return Circle((x, y), 0.32, facecolor="#f9d35b", edgecolor="#c8961e", linewidth=1.2, zorder=3)
