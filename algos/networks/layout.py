"""How observations show a map, which networks that read maps have to be told."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class MapLayout:
    """How observations [P, H, W] show a map, for networks that read maps."""

    planes: tuple[str, ...]
    """What each plane shows: walls, coin values, delays, the agent, the time left, and whatever else there is."""
    turned: Tensor
    """[|G|, P] turned by g, plane p is plane ``turned[g, p]`` with its cells turned"""
    time_steps: int
    """Of the time left, how many steps are to be told apart."""
    delay_unit: float
    """What brings delays to about 1 when they are divided by it."""

    def turned_names(self) -> list[dict[str, str]]:
        """Return, for each element, which plane stands at the place of each."""
        return [
            {name: self.planes[index] for name, index in zip(self.planes, row, strict=True)}
            for row in self.turned.tolist()
        ]
