"""The layout of observations that are planes of a map, for networks that read maps."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class MapLayout:
    """The layout of observations [P, H, W]: what each plane shows, and what symmetries do to it."""

    planes: tuple[str, ...]
    """The name of each plane: walls, coin values, delays, the agent, the time left, and others."""
    rotated: Tensor
    """[|G|, P] permutations: element g makes plane p from plane ``rotated[g, p]``, whose cells it permutes as well"""
    time_steps: int
    """How many steps of the time left the network can tell apart."""
    delay_unit: float
    """The number that delays are divided by, to bring them to about 1."""

    def turned_names(self) -> list[dict[str, str]]:
        """Return for each element a map from the name of a plane to the name of the plane that it is made from."""
        return [
            {name: self.planes[index] for name, index in zip(self.planes, row, strict=True)}
            for row in self.rotated.tolist()
        ]
