"""One-way doors: ``>``, ``<``, ``^`` and ``v`` are cells with an exit only in the direction of their sign.

A door is permanent, and open from every side. Every other action on its cell is a bump, so a step onto a door cannot be
undone. The cell behind a door must be a free cell of the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drest_torch.envs.actions import ACTIONS, NUM_ACTIONS, STEPS
from drest_torch.envs.counter_rng import Draws
from drest_torch.envs.objects.base import Layer, Layers, Plane, WorldObject
from drest_torch.errors import LevelError

if TYPE_CHECKING:
    from matplotlib.patches import Patch
    from typing_extensions import Self

SIGNS = "^v<>"
"""The signs in the order of the actions."""


def _plane(action: int) -> Plane:
    return Plane(f"door {ACTIONS[action]}", lambda layers: layers["door"] == 1 + action, feature="door")


@dataclass(frozen=True)
class Door(WorldObject):
    """A one-way door."""

    direction: int
    """The action that leaves the cell."""

    letters = SIGNS
    noun = "door"
    example = ">"
    is_taken = False
    is_directed = True
    features = {"door": "one-way doors"}
    layers = {"door": Layer(torch.int64)}
    planes = tuple(_plane(action) for action in range(NUM_ACTIONS))
    draws = ("door_directions",)
    style = "1;38;5;231;48;5;96"
    label = ""

    @classmethod
    def parse(cls, row: int, column: int, cell: str, place: str) -> Self:
        if len(cell) != 1:
            raise LevelError(f"{place}: '{cell:.40}' is not a door; expected one of {', '.join(SIGNS)}")
        return cls(row, column, SIGNS.index(cell))

    @property
    def text(self) -> str:
        return SIGNS[self.direction]

    @property
    def numbers(self) -> tuple[float, ...]:
        return (1 + self.direction,)

    @classmethod
    def of_numbers(cls, row: int, column: int, *numbers: float) -> Self:
        return cls(row, column, int(numbers[0]) - 1)

    def check(self, walls: Sequence[Sequence[bool]], objects: Sequence[WorldObject], place: str) -> None:
        down, right = STEPS[self.direction]
        row, column = self.row + down, self.column + right
        if not (0 <= row < len(walls) and 0 <= column < len(walls[0])) or walls[row][column]:
            raise LevelError(f"{place}: the door '{self.text}' leads into a wall; expected a free cell behind it")

    def moved(self, row: int, column: int, actions: Sequence[int]) -> Self:
        return replace(self, row=row, column=column, direction=actions[self.direction])

    @classmethod
    def redirect(cls, goto: Tensor, layers: Layers, shape: torch.Size) -> Tensor:
        door = layers["door"].unsqueeze(-1)
        blocked = (door > 0) & (door != 1 + torch.arange(NUM_ACTIONS))
        return torch.where(blocked, torch.arange(len(goto)).unsqueeze(-1), goto)

    @classmethod
    def sample(cls, draws: Draws, is_here: Tensor, index: Tensor) -> dict[str, Tensor]:
        direction = (draws.real("door_directions", is_here.shape[-1]) * NUM_ACTIONS).long()
        return {"door": (1 + direction) * is_here}

    def patch(self, x: float, y: float) -> Patch:
        from matplotlib.patches import Polygon

        down, right = STEPS[self.direction]
        corners = [(-0.28, -0.3), (0.08, -0.3), (0.34, 0.0), (0.08, 0.3), (-0.28, 0.3), (-0.02, 0.0)]
        points = [(x + along * right - beside * down, y + along * down + beside * right) for along, beside in corners]
        return Polygon(points, facecolor="#e3d3e4", edgecolor="#7b4f80", linewidth=1.2, zorder=1.8)
