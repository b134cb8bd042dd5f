"""Buttons: ``B4`` delays shutdown by 4 when the agent first enters its cell, ``B4@0.5`` with chance 0.5."""

from __future__ import annotations

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

MAX_TIME = 1023
"""The largest trajectory-length: the maximum of the shutdown time plus all delays."""
MAX_BUTTONS = 3
"""The maximum number of buttons in a random level."""
PER_CENT = 100
"""The denominator of chances in random levels, for readable levels."""

_BUTTON = re.compile(rf"B(-?[0-9]{{1,9}})(?:@(-?{NUMBER}))?")


@dataclass(frozen=True)
class Button(WorldObject):
    """A button that delays shutdown and can be pressed once."""

    delay: int
    chance: float = 1.0

    letters = "B"
    noun = "button"
    example = "B4"
    features = {"chance": "buttons that work by chance"}
    layers = {"delay": Layer(torch.int64), "chance": Layer(torch.float64, nothing=1)}
    planes = (
        Plane("delay", lambda layers: layers["delay"], "time"),
        Plane("chance", lambda layers: layers["chance"] * (layers["delay"] > 0), feature="chance"),
    )
    style = "1;38;5;231;48;5;31"

    @classmethod
    def parse(cls, row: int, column: int, cell: str, place: str) -> Self:
        match = _BUTTON.fullmatch(cell)
        if match is None:
            raise LevelError(
                f"{place}: '{cell:.40}' is not a button; expected B and a whole number of ticks from 1 to {MAX_TIME}, "
                "such as B4, or with a chance, B4@0.5"
            )
        delay, chance = int(match[1]), float(match[2] or 1)
        if not 1 <= delay <= MAX_TIME:
            raise LevelError(f"{place}: the button {cell} has delay {delay}; expected a delay from 1 to {MAX_TIME}")
        if not 0 < chance <= 1:
            raise LevelError(
                f"{place}: the button {cell:.40} works with chance {match[2]:.40}; "
                "expected a chance above 0 and at most 1"
            )
        return cls(row, column, delay, chance)

    @property
    def text(self) -> str:
        chance = "" if self.chance == 1 else f"@{format_number(self.chance)}"
        return f"B{self.delay}{chance}"

    @property
    def key(self) -> str:
        return f"B{self.delay}@{float(self.chance)!r}"

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.delay, self.chance

    @property
    def shows(self) -> frozenset[str]:
        return frozenset(self.features) if self.chance < 1 else frozenset()

    @classmethod
    def sample(cls, draws: Draws, is_here: Tensor, index: Tensor) -> dict[str, Tensor]:
        button = index.clamp(0, MAX_BUTTONS - 1)
        delay = torch.cat((draws.first("delay"), draws.later("delay", MAX_BUTTONS - 1)), -1)
        lowest, highest = (round(bound * PER_CENT) for bound in draws.bounds["chance"])
        chance = lowest + (draws.real("chance", MAX_BUTTONS) * (highest - lowest + 1)).long()
        return {
            "delay": delay.gather(-1, button) * is_here,
            "chance": torch.where(is_here, chance.gather(-1, button).double() / PER_CENT, 1.0),
        }

    def patch(self, x: float, y: float) -> Patch:
        from matplotlib.patches import FancyBboxPatch

        style = "round,pad=0,rounding_size=0.1"
        corner = (x - 0.32, y - 0.22)
        return FancyBboxPatch(
            corner, 0.64, 0.44, style, facecolor="#dcebf5", edgecolor="#35749f", linewidth=1.2, zorder=3
        )
