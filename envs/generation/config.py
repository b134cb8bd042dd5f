"""The configuration of the generator: ranges, weights and filters, checked before sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from drest_torch.envs.levels import CLOCKS, MAX_LENGTHS, MAX_OBJECTS, MAX_SIDE, MAX_TIME, LevelError
from drest_torch.envs.objects import KINDS, WorldObject
from drest_torch.envs.objects.button import MAX_BUTTONS, PER_CENT
from drest_torch.envs.objects.lottery import MAX_LOTTERIES, MAX_OUTCOMES, MAX_PAIRS

WALL_SHAPES = ("scattered", "lines", "blocks", "mixed")
SAMPLED = (
    *("height", "width", "walls", "wall_length", "coins", "coin_values", "buttons", "doors", "lotteries"),
    *("lottery_outcomes", "shutdown", "delay"),
)
WEIGHTED_FILTERS = ("distance", "spare")
"""The filters that can have weights, besides the `SAMPLED` ranges."""

Range = tuple[int, int]
"""The lowest and the highest number, both included; a single number is accepted as a range of one."""
RealRange = tuple[float, float]


@dataclass(frozen=True)
class GeneratorConfig:
    """The distribution of drafts, and the filters that drafts must pass to become levels.

    Every number is sampled independently, uniformly from its range or with its weights. The agent, the buttons and the
    coins take distinct cells, and all choices of cells are equally likely; the walls take remaining cells. Values,
    delays and chances are sampled separately for each coin and button.
    """

    height: Range = (5, 5)
    """Number of rows. This and all ranges below are sampled uniformly, both ends included."""
    width: Range = (5, 5)
    """Number of columns."""
    walls: Range = (0, 10)
    """Number of wall cells."""
    wall_share: RealRange | None = None
    """Share of walls on the map in place of `walls`, such as [0.0, 0.3]; their number is rounded down."""
    wall_shape: str = "scattered"
    """scattered: all choices of cells are equally likely. lines and blocks: horizontal and vertical lines, or
    rectangles, at random places until there are enough walls. They may overlap, they have gaps at objects, and the last
    one is cut short. mixed: each level has one of the three shapes."""
    wall_length: Range = (2, 4)
    """Length of a line, or of the side of a block, at most the side of the map."""
    coins: Range = (1, 4)
    """Number of coins."""
    coin_values: Range = (1, 7)
    """Value of each coin."""
    buttons: Range = (1, 1)
    """Number of shutdown-delay buttons, 0 to 3."""
    chance: RealRange = (1.0, 1.0)
    """Probability that each button works, in whole hundredths."""
    doors: Range = (0, 0)
    """Number of one-way doors, each with its own direction, on cells without another object."""
    lotteries: Range = (0, 0)
    """Number of lotteries, on cells without another object."""
    lottery_outcomes: Range = (2, 2)
    """Number of outcomes of each lottery, with distinct pairs of coins and a delay. All choices of pairs are equally
    likely, as are all choices of chances in whole hundredths."""
    lottery_coins: Range = (-2, 6)
    """Coins of each outcome; negative numbers are losses."""
    lottery_delay: Range = (0, 0)
    """Ticks of delay of each outcome; negative numbers bring shutdown forward."""
    shutdown: Range = (1, 7)
    """Ticks until shutdown."""
    delay: Range = (1, 8)
    """Ticks added by each button."""
    clock: str = "steps"

    lengths: Range = (2, 2)
    """Required number of trajectory-lengths. This and all values below are filters of sampled levels; null: no
    filter."""
    coin_in_every_length: bool = True
    """True if every trajectory-length must have a reachable coin; otherwise one length is enough."""
    ratio: RealRange | None = None
    """Ratio of the best return of the longest trajectory to that of the shortest."""
    distance: Range | None = None
    """Moves to the nearest button, 0 if none is reachable in time."""
    spare: Range | None = None
    """Ticks left before shutdown on reaching the nearest button."""
    slack: Range | None = None
    """Ticks left in each length after the fastest trajectory with the best return."""

    weights: Mapping[str, tuple[float, ...]] | None = field(default=None, hash=False)
    """Weights for the numbers of some ranges above; null: equal weights. Weights for `distance` or `spare` give the
    chance that a level passes the filter, relative to the largest weight."""

    def __post_init__(self) -> None:
        self._make_pairs()
        self._check("height", 1, MAX_SIDE)
        self._check("width", 1, MAX_SIDE)
        self._check("walls", 0, self.map_cells)
        self._check("wall_share", 0.0, 1.0)
        self._check("wall_length", 1, MAX_SIDE)
        self._check("buttons", 0, MAX_BUTTONS)
        self._check("lotteries", 0, MAX_LOTTERIES)
        self._check("coins", 1, MAX_OBJECTS - self.buttons[1] - self.lotteries[1])
        self._check("coin_values", 1, 1_000_000)
        self._check("chance", 0.01, 1.0)
        self._check("doors", 0, self.map_cells)
        self._check("shutdown", 1, MAX_TIME - self.buttons[1])
        self._check("delay", 1, (MAX_TIME - self.shutdown[1]) // max(1, self.buttons[1]))
        self._check("lengths", 1, MAX_LENGTHS if self.lotteries[1] else 2 ** self.buttons[1])
        self._check("ratio", 0.0, math.inf)
        self._check("distance", 0, MAX_TIME)
        self._check("spare", 0, MAX_TIME)
        self._check("slack", 0, MAX_TIME)
        if any(round(chance * PER_CENT) / PER_CENT != chance for chance in self.chance):
            raise LevelError(
                f"generator: chance from {self.chance[0]} to {self.chance[1]}; expected whole hundredths, such as 0.75"
            )
        if self.lotteries[1]:
            self._check_lotteries()
        choices = {"clock": CLOCKS, "wall_shape": WALL_SHAPES, "coin_in_every_length": (True, False)}
        for name, allowed in choices.items():
            if (value := getattr(self, name)) not in allowed:
                raise LevelError(f"generator: {name} {value!r:.40}; expected one of {', '.join(map(str, allowed))}")
        self._check_room()
        for name in self.weights or {}:
            self._check_weights(name)

    @property
    def map_cells(self) -> int:
        """The number of cells of the largest map."""
        return self.height[1] * self.width[1]

    def most_walls(self, cells: int) -> int:
        """Return the largest number of walls on a map with this number of cells."""
        return self.walls[1] if self.wall_share is None else int(self.wall_share[1] * cells)

    def most_of(self, kind: type[WorldObject]) -> int:
        """Return the largest number of objects of a kind; 0 for a kind without a range."""
        bounds: Range = getattr(self, kind.plural(), (0, 0))
        return bounds[1]

    def weights_of(self, name: str) -> tuple[float, ...] | None:
        """Return the weights of a range, or None if it has none."""
        return None if self.weights is None else self.weights.get(name)

    def to_record(self) -> dict[str, Any]:
        """Return all values as a JSON object; ``GeneratorConfig(**record)`` reads them back."""
        return asdict(self)

    def _make_pairs(self) -> None:
        """Convert the lists and single numbers of yaml and JSON to pairs."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name == "weights" and value is not None:
                value = {name: tuple(weights) for name, weights in value.items()}
            elif "Range" in str(entry.type) and not (value is None and "None" in str(entry.type)):
                value = tuple(value) if isinstance(value, list | tuple) else (value, value)
            object.__setattr__(self, entry.name, value)

    def _check(self, name: str, least: float, most: float) -> None:
        values = getattr(self, name)
        if values is None:
            return
        kinds, noun = ((int,), "whole numbers") if type(least) is int else ((int, float), "numbers")
        is_pair = len(values) == 2 and all(type(value) in kinds for value in values)
        if not is_pair or not least <= values[0] <= values[1] <= most or values[1] == math.inf:
            limits = f"{noun} from {least} to {most}" if most < math.inf else f"finite {noun} from {least}"
            raise LevelError(
                f"generator: {name} from {' to '.join(map(str, values))}; expected {limits}, the lowest first"
            )

    def _check_lotteries(self) -> None:
        """Refuse lotteries that cannot be sampled, or filters that are not defined for them."""
        self._check("lottery_outcomes", 1, MAX_OUTCOMES)
        self._check("lottery_coins", -1_000_000, 1_000_000)
        most = MAX_TIME - self.shutdown[1] - self.buttons[1] * self.delay[1]
        self._check("lottery_delay", -MAX_TIME, most // self.lotteries[1])
        (least, most), (first, last) = self.lottery_coins, self.lottery_delay
        pairs = (most - least + 1) * (last - first + 1)
        if not self.lottery_outcomes[1] <= pairs <= MAX_PAIRS:
            raise LevelError(
                f"generator: {pairs:,} pairs of lottery_coins and lottery_delay; expected at least "
                f"{self.lottery_outcomes[1]}, the outcomes of a lottery, and at most {MAX_PAIRS:,}"
            )
        if self.slack is not None:
            raise LevelError("generator: slack with lotteries, where it depends on luck; expected slack=null")

    def _check_room(self) -> None:
        """Refuse more objects and walls than fit on the smallest map."""
        room = self.height[0] * self.width[0]
        most = {kind.plural(): self.most_of(kind) for kind in KINDS} | {"walls": self.most_walls(room)}
        if 1 + sum(most.values()) > room:
            things = ", ".join(f"{number} {name}" for name, number in most.items() if number)
            raise LevelError(
                f"generator: the agent, {things} take {1 + sum(most.values())} cells; expected at most {room}, "
                f"those of a map of {self.height[0]} by {self.width[0]}"
            )

    def _check_weights(self, name: str) -> None:
        if name not in SAMPLED + WEIGHTED_FILTERS:
            raise LevelError(
                f"generator: weights for {name!r:.40}; expected them for some of "
                f"{', '.join(SAMPLED + WEIGHTED_FILTERS)}"
            )
        weights, bounds = self.weights_of(name) or (), getattr(self, name)
        if bounds is None:
            raise LevelError(f"generator: weights for {name}, which is null; expected them for a range")
        kinds = bounds[1] - bounds[0] + 1
        numbers = all(type(weight) in (int, float) and 0 <= weight < math.inf for weight in weights)
        if len(weights) != kinds or not numbers or sum(weights) == 0:
            raise LevelError(
                f"generator: the weights {', '.join(map(str, weights))} for {name}; expected as many numbers as there "
                f"are from {bounds[0]} to {bounds[1]}, {kinds}, at least 0 and not all of them 0"
            )
