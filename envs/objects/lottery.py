"""Lotteries: cells with random outcomes, each a pair of coins and a delay, on the agent's first entry.

A level defines its lotteries above the map, ``lottery a: 2/3 C2 +0 | 1/3 C5 +1``; their cells are ``La``. Coins and
delays can be negative; the time left never falls below 0. Chances are rational numbers with the sum 1. A button
``B4@0.5`` is the lottery ``1/2 C0 +4 | 1/2 C0 +0``, a button with a price ``1 C-1 +4``, a button that shuts the agent
down ``1 C0 -99``, and a coin with a chance ``1/2 C4 +0 | 1/2 C0 +0``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from drest_torch.envs.counter_rng import Draws
from drest_torch.envs.objects.base import NUMBER, Layer, Layers, Plane, WorldObject, format_number
from drest_torch.envs.objects.button import MAX_TIME, PER_CENT
from drest_torch.errors import LevelError

if TYPE_CHECKING:
    from matplotlib.patches import Patch
    from typing_extensions import Self

MAX_OUTCOMES = 8
"""The maximum number of outcomes of a lottery."""
MAX_LOTTERIES = 3
"""The maximum number of lotteries in a random level."""
MAX_PAIRS = 10_000
"""The maximum number of pairs of coins and a delay in random levels."""
MAX_DENOMINATOR = 1_000_000
"""The maximum denominator of a chance, for an exact conversion from floats."""

_OUTCOME = re.compile(rf"([0-9]{{1,9}}(?:/[0-9]{{1,9}}|\.[0-9]{{1,9}})?)\s+C(-?{NUMBER})\s+([+-][0-9]{{1,9}})")
_NUMBERS = {"chance": torch.float64, "coins": torch.float64, "delay": torch.int64}
"""The numbers of an outcome, with their types."""


class LotteryOutcome(NamedTuple):
    """One outcome of a lottery."""

    chance: Fraction
    coins: float
    delay: int

    @property
    def text(self) -> str:
        """The text of the outcome: ``2/3 C2 +0``."""
        return f"{self.chance} C{format_number(self.coins)} {self.delay:+}"

    @property
    def label(self) -> str:
        """The outcome as the shortest text: ``2/3 C2``, ``1/2 +4``, ``1/3 0``."""
        coins = f"C{format_number(self.coins)}" if self.coins else ""
        delay = f"{self.delay:+}" if self.delay else ""
        return f"{self.chance} {coins}{delay or ('' if coins else '0')}"


class SpotOutcomes(NamedTuple):
    """The outcomes of the first entry of S spots, padded to J outcomes with chance 0.

    Coins have one outcome, and buttons one, or two if they work by chance.
    """

    number: Tensor
    """[S] the number of outcomes."""
    chance: Tensor
    """[S, J]"""
    luck: Tensor
    """[S, J] the smallest luck, a number in [0, 1), for the outcome; 0 for padding."""
    until: Tensor
    """[J - 1, S] the luck at which the next outcome begins; above 1 without a next outcome."""
    coins: Tensor
    """[J * S] the coins of the first outcome of each spot, then of the second, and so on."""
    delay: Tensor
    """[J * S] the delays, in the same order."""


def _plane(outcome: int, name: str) -> Plane:
    layer, unit = _layer(outcome, name), {"coins": "coins", "delay": "time"}.get(name)
    return Plane(layer, lambda layers: layers[layer], unit, _feature(outcome))


def _layer(outcome: int, name: str) -> str:
    return f"lottery {outcome} {name}"


def _feature(outcome: int) -> str:
    return f"lottery {outcome}"


_PLACES = [(outcome, name) for outcome in range(1, MAX_OUTCOMES + 1) for name in _NUMBERS]


@dataclass(frozen=True)
class Lottery(WorldObject):
    """A cell with random outcomes, sorted by delay and then by coins."""

    outcomes: tuple[LotteryOutcome, ...]

    letters = "L"
    noun = "lottery"
    example = "La"
    is_optional = True
    features = {
        _feature(outcome): "lotteries" if outcome == 1 else f"lotteries with {outcome} or more outcomes"
        for outcome in range(1, MAX_OUTCOMES + 1)
    }
    layers = {"lottery": Layer(torch.int64)} | {
        _layer(outcome, name): Layer(_NUMBERS[name]) for outcome, name in _PLACES
    }
    planes = tuple(_plane(outcome, name) for outcome, name in _PLACES)
    draws = ("lottery_outcomes", "lottery_values", "lottery_chances")
    style = "1;38;5;231;48;5;29"

    @classmethod
    def parse(cls, row: int, column: int, cell: str, place: str) -> Self:
        """Read a lottery from the text of its outcomes."""
        parts = [part.strip() for part in cell.split("|")]
        if len(parts) > MAX_OUTCOMES:
            raise LevelError(f"{place}: a lottery with {len(parts)} outcomes; expected at most {MAX_OUTCOMES}")
        outcomes = sorted((_outcome(part, place) for part in parts), key=lambda outcome: (outcome.delay, outcome.coins))
        total = sum(outcome.chance for outcome in outcomes)
        if total != 1:
            raise LevelError(f"{place}: the chances of the lottery sum to {total}; expected 1")
        return cls(row, column, tuple(outcomes))

    @property
    def text(self) -> str:
        return " | ".join(outcome.text for outcome in self.outcomes)

    @property
    def label(self) -> str:
        return "\n".join(outcome.label for outcome in self.outcomes)

    @property
    def numbers(self) -> tuple[float, ...]:
        numbers = [number for chance, coins, delay in self.outcomes for number in (float(chance), coins, delay)]
        return (len(self.outcomes), *numbers, *[0] * (3 * (MAX_OUTCOMES - len(self.outcomes))))

    @classmethod
    def of_numbers(cls, row: int, column: int, *numbers: float) -> Self:
        triples = (numbers[1 + 3 * index : 4 + 3 * index] for index in range(int(numbers[0])))
        return cls(
            row,
            column,
            tuple(
                LotteryOutcome(Fraction(chance).limit_denominator(MAX_DENOMINATOR), coins, int(delay))
                for chance, coins, delay in triples
            ),
        )

    @property
    def shows(self) -> frozenset[str]:
        return lottery_features(len(self.outcomes))

    @classmethod
    def plural(cls) -> str:
        return "lotteries"

    @classmethod
    def sample(cls, draws: Draws, is_here: Tensor, index: Tensor) -> dict[str, Tensor]:
        """Sample distinct outcomes, and chances in whole hundredths, all equally likely."""
        (least, most), (first, last) = draws.bounds["lottery_coins"], draws.bounds["lottery_delay"]
        values, pairs = int(most - least) + 1, int(most - least + 1) * int(last - first + 1)
        count = draws.later("lottery_outcomes", MAX_LOTTERIES)
        pair = _smallest(draws.real("lottery_values", MAX_LOTTERIES, pairs), count)
        cuts = 1 + _smallest(draws.real("lottery_chances", MAX_LOTTERIES, PER_CENT - 1), count - 1)
        ends = torch.nn.functional.pad(cuts.clamp_max(PER_CENT), (1, 1), value=0)
        ends[..., -1] = PER_CENT
        chances = ends.diff(dim=-1)
        lottery = index.clamp(0, MAX_LOTTERIES - 1)
        layers = {"lottery": count.gather(-1, lottery) * is_here}
        for outcome in range(1, MAX_OUTCOMES + 1):
            exists = is_here & (outcome <= layers["lottery"])
            numbers = (
                chances[..., outcome - 1].double() / PER_CENT,
                (least + pair[..., outcome - 1] % values).double(),
                first + pair[..., outcome - 1] // values,
            )
            for name, number in zip(_NUMBERS, numbers, strict=True):
                layers[_layer(outcome, name)] = number.gather(-1, lottery) * exists
        return layers

    def patch(self, x: float, y: float) -> Patch:
        from matplotlib.patches import RegularPolygon

        return RegularPolygon((x, y), 6, radius=0.36, facecolor="#d5ecdf", edgecolor="#2f7d55", linewidth=1.2, zorder=3)


def _smallest(values: Tensor, count: Tensor) -> Tensor:
    """Return the sorted indices [n, L, MAX_OUTCOMES] of the ``count`` [n, L] smallest of N values, padded with N."""
    size = values.shape[-1]
    is_small = values.argsort(-1).argsort(-1) < count.unsqueeze(-1)
    places = torch.where(is_small, torch.arange(size, device=values.device), size).sort(-1).values
    return torch.nn.functional.pad(places, (0, MAX_OUTCOMES), value=size)[..., :MAX_OUTCOMES]


def _outcome(text: str, place: str) -> LotteryOutcome:
    match = _OUTCOME.fullmatch(text)
    if match is None:
        raise LevelError(
            f"{place}: '{text:.40}' is not an outcome of a lottery; expected a chance, coins and a delay with its "
            "sign, such as 2/3 C5 +1"
        )
    top, _, bottom = match[1].partition("/")
    if not 0 < Fraction(top) <= int(bottom or 1):
        raise LevelError(f"{place}: the chance {match[1]} of an outcome; expected a number above 0 and at most 1")
    chance, coins, delay = Fraction(top) / int(bottom or 1), float(match[2]), int(match[3])
    if chance.denominator > MAX_DENOMINATOR:
        raise LevelError(
            f"{place}: the chance {match[1]} of an outcome; expected a denominator of at most {MAX_DENOMINATOR:,}"
        )
    if not math.isfinite(coins):
        raise LevelError(f"{place}: the outcome '{text:.40}' has {coins:g} coins; expected a finite number")
    if abs(delay) > MAX_TIME:
        raise LevelError(f"{place}: the outcome '{text:.40}' has delay {delay}; expected at most {MAX_TIME} either way")
    return LotteryOutcome(chance, coins + 0.0, delay)


def lottery_features(outcomes: int) -> frozenset[str]:
    """Return the features of a lottery with this many outcomes."""
    return frozenset(_feature(outcome) for outcome in range(1, outcomes + 1))


def count_shown_outcomes(features: Collection[str]) -> int:
    """Return the number of outcomes of a lottery that these features include."""
    return sum(_feature(outcome) in features for outcome in range(1, MAX_OUTCOMES + 1))


def outcomes_of(layers: Layers, features: Collection[str]) -> SpotOutcomes:
    """Return the outcomes of a level set from its layers and features."""
    lotteries = count_shown_outcomes(features)
    count = max(lotteries, 2 if "chance" in features else 1)
    works, is_other = layers["chance"], layers["lottery"] == 0 if lotteries else True
    columns = {"chance": [works * is_other, 1 - works], "coins": [layers["coin"]], "delay": [layers["delay"]]}
    for name, tensors in columns.items():
        tensors += [torch.zeros_like(tensors[0])] * (count - len(tensors))
        for outcome in range(lotteries):
            tensors[outcome] = tensors[outcome] + layers[_layer(outcome + 1, name)]
    chance, coins, delay = (torch.stack(tensors[:count]) for tensors in columns.values())
    number, end = (chance > 0).sum(0), chance.double().cumsum(0)[:-1]
    later = torch.arange(1, count, device=end.device).unsqueeze(-1) < number
    return SpotOutcomes(
        number=number,
        chance=chance.T.contiguous(),
        luck=torch.nn.functional.pad(torch.where(later, end, 0).T, (1, 0)),
        until=torch.where(later, end, 2),
        coins=coins.reshape(-1),
        delay=delay.reshape(-1),
    )
