"""The observations of policies: batched functions of the state (spot, taken, time left).

The environment and exact evaluation both call these functions, so that a policy sees the same tensors in both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor

from drest_torch.envs.actions import ACTIONS
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.levels import LevelError
from drest_torch.envs.levels.symmetry import NUM_SYMMETRIES, rotated_actions, rotated_cells
from drest_torch.envs.objects import KINDS, Plane, largest_coin
from drest_torch.envs.objects.base import DELAY_UNIT

TIME_STEPS = 16
"""The default number of steps of the time left that networks can tell apart (`policy.time_steps`)."""
_FADING = {plane.name for kind in KINDS if kind.is_taken for plane in kind.planes}
"""The planes of objects that disappear when they are taken."""


FAINT = 0.01
"""The contrast of faint coin values: a coin of value v is shown as 1 + 0.01 · v."""


class Observation(Protocol):
    """A function from states to the observations of a policy."""

    shape: tuple[int, ...]
    """Shape of one observation."""
    see_time: bool
    """True if the observation includes the time left."""
    scale: Tensor
    """Factors that broadcast to ``shape``; networks multiply observations by them to reach a magnitude of about 1."""
    planes: tuple[str, ...]
    """The names of the map planes, in order; the vector observation has none."""
    rotated: Tensor | None
    """[8, F] permutations of flat observations, the effects of `symmetry.transform` on the level. None for maps that
    are not square, and for the vector observation."""

    def __call__(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        """Return the observations of n states as floats [n, *shape]."""
        ...


class VectorObservation:
    """The paper's observation [x, y, c…, b…], for sets of one level; it does not show the time.

    x is the column and y the row, both from 0 in the top left corner. c is 1 until its coin is taken, and b until its
    button is pressed.
    """

    see_time = False
    planes: tuple[str, ...] = ()
    rotated: Tensor | None = None
    TABLE_BITS = 12
    """The maximum number of coins and buttons for which all observations are computed once, in a table."""

    def __init__(self, mdp: Mdp) -> None:
        if mdp.num_levels != 1:
            raise ValueError(
                f"the vector observation shows 1 level, but the set has {mdp.num_levels}; use the grid observation"
            )
        self.num_objects = mdp.num_objects
        self.shape: tuple[int, ...] = (2 + self.num_objects,)
        self.scale = torch.ones(self.shape, device=mdp.device)
        self._bits = torch.arange(self.num_objects, device=mdp.device)
        self.width, self.height = mdp.width, mdp.height
        self._table: Tensor | None = None
        if self.num_objects <= self.TABLE_BITS:
            row = torch.arange(mdp.num_cells << self.num_objects, device=mdp.device)
            self._table = self._compute(row >> self.num_objects, row)

    def __call__(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        if self._table is None:
            return self._compute(spot, taken)
        return self._table.index_select(0, torch.add(taken, spot, alpha=1 << self.num_objects))

    def _compute(self, spot: Tensor, taken: Tensor) -> Tensor:
        present = ((taken.unsqueeze(-1) >> self._bits) & 1) ^ 1
        position = torch.stack((spot % self.width, spot // self.width), dim=-1)
        return torch.cat((position, present), dim=-1).float()


def _planes(
    mdp: Mdp, shows_start: bool, contrast: float | None, only: Collection[str] | None
) -> tuple[list[Plane], list[Plane]]:
    """Return the standard planes of objects, and further planes: the set's features, and the start.

    With a ``contrast`` a coin of value v is shown as 1 + contrast · v; with 0 all coins look the same. ``only`` limits
    the standard planes to these names; levels with objects on the other standard planes are refused.
    """
    planes = [plane for kind in KINDS for plane in kind.planes]
    if contrast is not None:
        planes[0] = Plane("coin", lambda layers: (layers["coin"] > 0) + contrast * layers["coin"])
    further = [plane for plane in planes if plane.feature in mdp.features]
    if shows_start:
        starts = torch.zeros(len(mdp.object_bit), device=mdp.device).index_fill(0, mdp.start.long(), 1.0)
        further.append(Plane("start", lambda layers: starts))
    usual = [plane for plane in planes if plane.feature is None]
    if only is None:
        return usual, further
    for plane in usual:
        if plane.name not in only and plane.values(mdp.layers).any():
            raise LevelError(
                f"the levels have objects that the policy does not observe: '{plane.name}'; leave them out"
            )
    return [plane for plane in usual if plane.name in only], further


class GridObservation:
    """The grid observation: planes [P, H, W] of walls, coin values, button delays, the agent, and the time left.

    Coins and buttons disappear when they are taken; the time left fills its plane. Smaller maps are padded with wall on
    the right and below. Optional features add planes: if a button of the set works by chance, a sixth plane shows the
    chance of each button. With ``shows_start`` a last plane marks the start of the mini-episode, the same in all states
    of a level; it distinguishes levels that share a state. With a ``contrast`` the values of coins are hard to tell, or
    hidden (`_planes`).
    """

    see_time = True

    def __init__(
        self,
        mdp: Mdp,
        *,
        shows_start: bool = False,
        contrast: float | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        objects, further = _planes(mdp, shows_start, contrast, only)
        first, last = ([(plane.name, plane.scale) for plane in planes] for planes in (objects, further))
        names, scales = zip(("wall", 1), *first, ("agent", 1), ("time", 1 / DELAY_UNIT), *last, strict=True)
        self.planes: tuple[str, ...] = names
        self.shape: tuple[int, ...] = (len(self.planes), mdp.height, mdp.width)
        self.scale = torch.tensor(scales, device=mdp.device).reshape(-1, 1, 1)
        self.rotated = _turned(mdp, mdp.height, self.planes, 0)
        self._cells = mdp.num_cells
        self._agent, self._time = self.planes.index("agent"), self.planes.index("time")
        per_level = (mdp.num_levels, mdp.num_cells)
        self._object_bit = mdp.object_bit.reshape(per_level)
        self._wall = mdp.wall.reshape(per_level).float()
        self._objects = [
            (self.planes.index(plane.name), plane.name in _FADING, plane.values(mdp.layers).reshape(per_level).float())
            for plane in (*objects, *further)
        ]

    def __call__(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        level = torch.div(spot, self._cells, rounding_mode="floor")
        cell = spot - level * self._cells
        is_present = (self._object_bit[level] & ~taken.unsqueeze(-1)) != 0
        planes = torch.zeros(len(spot), len(self.planes), self._cells, device=spot.device)
        planes[:, 0] = self._wall[level]
        for index, fades, values in self._objects:
            if fades:
                torch.mul(values[level], is_present, out=planes[:, index])
            else:
                planes[:, index] = values[level]
        planes[:, self._agent].scatter_(1, cell.unsqueeze(-1), 1.0)
        planes[:, self._time] = time_left.unsqueeze(-1)
        return planes.reshape(len(spot), *self.shape)


class CentredObservation:
    """The centred observation: a window of the map with the agent in the middle, then the time left.

    The window shows the whole map from any cell: (2H − 1) × (2W − 1). Its planes are walls, coin values as shares of
    the level's largest coin, and button delays (and the further planes of `GridObservation`); the outside of the map is
    wall. The time left follows as ``time_steps`` steps, where step j is min(max(time − j, 0), 1), and as a share of
    them. A move changes the window in the same way everywhere on the map; with the grid observation, an MLP has to
    learn this for each cell separately. With ``shows_elapsed`` the elapsed time of the mini-episode follows in the same
    form; it must not depend on luck, because the state does not contain it then.
    """

    see_time = True

    def __init__(
        self,
        mdp: Mdp,
        *,
        shows_start: bool = False,
        shows_elapsed: bool = False,
        contrast: float | None = None,
        time_steps: int = TIME_STEPS,
        only: Collection[str] | None = None,
    ) -> None:
        self._cells = mdp.num_cells
        self._window = _window(mdp.height, mdp.width).to(mdp.device)
        per_level = (mdp.num_levels, mdp.num_cells)
        # Each level has one extra cell for the outside of its map.
        self._wall = _with_outside(mdp.wall.reshape(per_level).float(), 1.0)
        self._object_bit = _with_outside(mdp.object_bit.reshape(per_level), 0)
        planes = [*chain(*_planes(mdp, shows_start, contrast, only))]
        largest = largest_coin(mdp.layers, mdp.num_levels)
        self._planes = [
            (
                plane.name in _FADING,
                _with_outside(plane.relative(plane.values(mdp.layers).reshape(per_level), largest).float(), 0.0),
            )
            for plane in planes
        ]
        self._steps = torch.arange(time_steps, device=mdp.device)
        self._granted = _granted(mdp) if shows_elapsed else None
        further = (time_steps + 1) * (2 if shows_elapsed else 1)
        self.shape: tuple[int, ...] = ((1 + len(planes)) * self._window.shape[1] + further,)
        self.planes = ("wall", *(plane.name for plane in planes))
        self.rotated = _turned(mdp, 2 * mdp.height - 1, self.planes, further)
        self.scale = torch.ones(self.shape, device=mdp.device)

    def __call__(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        level = torch.div(spot, self._cells, rounding_mode="floor")
        cells = self._window[spot - level * self._cells] + (level * (self._cells + 1)).unsqueeze(-1)
        is_present = (self._object_bit.take(cells) & ~taken.unsqueeze(-1)) != 0
        planes = [plane.take(cells) * is_present if fades else plane.take(cells) for fades, plane in self._planes]
        times = [time_left]
        if self._granted is not None:
            times.append(_length(self._granted, level, taken) - time_left)
        steps = [part for time in times for part in self._as_steps(time.unsqueeze(-1))]
        return torch.cat((self._wall.take(cells), *planes, *steps), dim=-1)

    def _as_steps(self, time: Tensor) -> tuple[Tensor, Tensor]:
        return (time - self._steps).clamp(0, 1), time / len(self._steps)


def _granted(mdp: Mdp) -> Tensor:
    """Return [B, 1 + bits], the initial time of each level, and the time that each of its objects adds."""
    for level in mdp.levels:
        if level.lotteries or any(button.chance < 1 for button in level.buttons):
            raise LevelError(
                f"{level.place} has luck or lotteries, but the elapsed time is shown only in levels without them; "
                "choose another policy.observation, or other levels"
            )
    bits = torch.arange(mdp.num_objects, device=mdp.device)
    has = ((mdp.object_bit.reshape(mdp.num_levels, -1, 1) >> bits) & 1) * mdp.delay.reshape(mdp.num_levels, -1, 1)
    return torch.cat((mdp.shutdown.unsqueeze(-1), has.sum(1)), -1)


def _length(granted: Tensor, level: Tensor, taken: Tensor) -> Tensor:
    """Return the trajectory-length [n] if no further object is taken, from the table of `_granted`."""
    bits = torch.arange(granted.shape[1] - 1, device=taken.device)
    is_taken = (taken.unsqueeze(-1) >> bits) & 1
    of_level = granted[level]
    added = of_level[:, 1:] * is_taken
    return of_level[:, 0] + added.sum(-1)


class ActualClock:
    """An observation in levels that end at another time in training (`Mdp.ending_at`), with the time of the map.

    The clock of the map runs on below 0 after the shutdown that does not come.
    """

    def __init__(self, observe: Observation, actual: Mdp, played: Mdp) -> None:
        self._observe = observe
        self._mdp = actual
        self._end = played.shutdown
        self.shape = observe.shape
        self.see_time = observe.see_time
        self.scale = observe.scale
        self.planes = observe.planes
        self.rotated = observe.rotated
        self._granted = _granted(actual)

    def __call__(self, spot: Tensor, taken: Tensor, time_left: Tensor) -> Tensor:
        level = self._mdp.level_of(spot)
        elapsed = self._end[level] - time_left
        length = _length(self._granted, level, taken)
        return self._observe(spot, taken, length - elapsed)


def on_actual_clock(observe: Observation, actual: Mdp, played: Mdp) -> Observation:
    """Return the observation in the levels that training plays, given that of the actual levels."""
    if played.shutdown.equal(actual.shutdown) and played.outcomes.delay.equal(actual.outcomes.delay):
        return observe
    return ActualClock(observe, actual, played)


def _window(height: int, width: int) -> Tensor:
    """Return the cell at each position of the window [cells, window]; ``cells`` means outside the map."""
    row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    down, right = torch.meshgrid(torch.arange(1 - height, height), torch.arange(1 - width, width), indexing="ij")
    rows = row.reshape(-1, 1) + down.reshape(1, -1)
    columns = column.reshape(-1, 1) + right.reshape(1, -1)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside, rows * width + columns, height * width)


def rotated_planes(names: Sequence[str]) -> Tensor:
    """Return the permutations of the planes [8, P] under `symmetry.transform`."""

    def source(name: str, actions: list[int]) -> str:
        """Return the plane that gets this name when the level is rotated and reflected."""
        first, _, direction = name.rpartition(" ")
        return f"{first} {ACTIONS[actions.index(ACTIONS.index(direction))]}" if direction in ACTIONS else name

    return torch.tensor(
        [[names.index(source(name, actions)) for name in names] for actions in rotated_actions().tolist()]
    )


def _turned(mdp: Mdp, size: int, planes: Sequence[str], further: int) -> Tensor | None:
    """Return `Observation.rotated` of a level set, or None if its maps are not square."""
    return rotated_inputs(size, planes, further).to(mdp.device) if mdp.height == mdp.width else None


def rotated_inputs(size: int, planes: Sequence[str], further: int) -> Tensor:
    """Return `Observation.rotated` for square planes, then ``further`` numbers that stay in place."""
    cells = rotated_cells(size)
    first = rotated_planes(planes).unsqueeze(-1) * size * size
    places = (cells.unsqueeze(1) + first).flatten(1)
    unchanged = torch.arange(further).expand(NUM_SYMMETRIES, -1) + len(planes) * size * size
    return torch.cat((places, unchanged), dim=-1)


def side_of_planes(observation: str, map_side: int) -> int:
    """Return the side of the planes of a square map in an observation; a centred window is larger."""
    return 2 * map_side - 1 if observation.startswith("centred") else map_side


def _with_outside(plane: Tensor, value: float) -> Tensor:
    """Append one cell of this value to each level: [B, cells] → [B · (cells + 1)]."""
    return torch.nn.functional.pad(plane, (0, 1), value=value).reshape(-1)


OBSERVATIONS: dict[str, Callable[..., Observation]] = {
    "vector": VectorObservation,
    "grid": GridObservation,
    "grid_start": partial(GridObservation, shows_start=True),
    "grid_faint": partial(GridObservation, shows_start=True, contrast=FAINT),
    "grid_alike": partial(GridObservation, shows_start=True, contrast=0.0),
    "centred": CentredObservation,
    "centred_start": partial(CentredObservation, shows_start=True),
    "centred_elapsed": partial(CentredObservation, shows_elapsed=True),
    "centred_start_elapsed": partial(CentredObservation, shows_start=True, shows_elapsed=True),
    "centred_faint": partial(CentredObservation, shows_start=True, contrast=FAINT),
    "centred_alike": partial(CentredObservation, shows_start=True, contrast=0.0),
}


def make_observation(
    name: str, mdp: Mdp, time_steps: int = TIME_STEPS, planes: Collection[str] | None = None
) -> Observation:
    """Return the observation of this name for a level set.

    ``time_steps`` is the number of steps of time in centred observations. ``planes`` are the planes that the policy
    supports; None: all.
    """
    if name not in OBSERVATIONS:
        raise ValueError(f"no observation '{name}'; expected one of {', '.join(OBSERVATIONS)}")
    if name == "vector":
        return VectorObservation(mdp)
    steps = {"time_steps": time_steps} if name.startswith("centred") else {}
    return OBSERVATIONS[name](mdp, only=planes, **steps)
