"""How things are measured: contenders take turns, and each figure stands beside what it is held against."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

REPEATS = 10
LEAST_SECONDS = 0.05
"""A repeat calls its work until so much time has passed: clocks and the ends of meta-episodes are lumpy."""
COLUMNS = ("what", "unit", "median (slowest)", "repeats", "first, s", "beside it", "limit", "wanted")

Work = Callable[[], float]
"""Does some work and says how much: steps, levels, or just 1."""


@dataclass(frozen=True)
class Unit:
    """What a figure is counted in, and how it follows from an amount of work and the seconds it took."""

    name: str
    value: Callable[[float, float], float]
    more_is_better: bool


def rate(of: str, scale: float) -> Unit:
    return Unit(of, lambda amount, seconds: amount / seconds / scale, more_is_better=True)


SECONDS = Unit("s", lambda amount, seconds: seconds / amount, more_is_better=False)
TIMES = Unit("×", lambda amount, seconds: seconds / amount, more_is_better=False)
FASTER = Unit("× as fast", lambda amount, seconds: seconds / amount, more_is_better=True)
MILLION_STEPS = rate("million steps/s", 1e6)
STEPS = rate("steps/s", 1)
GIGAFLOPS = rate("GFLOP/s", 1e9)


@dataclass(frozen=True)
class Times:
    """What a contender did, repeat by repeat, and the seconds of its very first call."""

    amounts: list[float]
    seconds: list[float]
    first: float

    def times(self, factor: float) -> Times:
        """The same work counted in something of which there is so much in each."""
        return Times([amount * factor for amount in self.amounts], self.seconds, self.first)

    def over(self, other: Times) -> Times:
        """Seconds for an amount in units of another's, repeat by repeat: what disturbs a turn is in both."""
        return Times(other.values(SECONDS), self.values(SECONDS), 0.0)

    def values(self, unit: Unit) -> list[float]:
        return [unit.value(amount, seconds) for amount, seconds in zip(self.amounts, self.seconds, strict=True)]


class Bench:
    """Measures for one part, prints what it finds as it comes, and keeps it as tables of a page."""

    def __init__(self, *, quick: bool = False, clock: Callable[[], float] = time.perf_counter) -> None:
        self.quick, self.clock = quick, clock
        self.repeats = 2 if quick else REPEATS
        self.blocks: list[str] = []
        """The page's, in Markdown."""

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    # ------------------------------------------------------------------------------------- measuring

    def measure(self, contenders: Mapping[str, Work]) -> dict[str, Times]:
        """Each contender is called once, then all take turns, so that a disturbance is one for all."""
        first = {name: self._took(work, 1)[1] for name, work in contenders.items()}
        calls = {name: self._calls(work, first[name]) for name, work in contenders.items()}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for _ in range(self.repeats):
            for name, work in contenders.items():
                found[name].append(self._took(work, calls[name]))
        return {
            name: Times([amount for amount, _ in taken], [seconds for _, seconds in taken], first[name])
            for name, taken in found.items()
        }

    def _calls(self, work: Work, first: float) -> int:
        """How often to call it in a repeat; a first call that is much longer than a repeat need not be followed up."""
        if self.quick or first > 20 * LEAST_SECONDS:
            return 1
        _, seconds = self._took(work, 1)
        return max(1, math.ceil(LEAST_SECONDS / max(seconds, 1e-7)))

    def _took(self, work: Work, calls: int) -> tuple[float, float]:
        began = self.clock()
        amount = sum(work() for _ in range(calls))
        return amount, self.clock() - began

    # ------------------------------------------------------------------------------------- reporting

    def table(self, title: str, text: str = "") -> None:
        """The rows from here on stand in this table."""
        head = _line(COLUMNS) + "\n" + _line(["---"] * len(COLUMNS))
        self.blocks += [f"### {title}", *filter(None, [text]), head]
        print(f"\n{title}", flush=True)

    def compare(
        self,
        times: Mapping[str, Times],
        unit: Unit,
        *,
        baselines: Sequence[str] = (),
        limit: str | None = None,
        wanted: Mapping[str, float] | None = None,
    ) -> None:
        """A row for each contender; those that are neither baseline nor limit have these beside them."""
        medians = {name: statistics.median(each.values(unit)) for name, each in times.items()}
        beside = "; ".join(f"{number(medians[name])} {name}" for name in baselines if name in medians)
        for name, each in times.items():
            own = name not in (*baselines, limit)
            most = f"{number(medians[limit])}, reached to {medians[name] / medians[limit]:.0%}" if own and limit else ""
            self.figure(name, unit, each, beside=beside if own else "", limit=most, wanted=(wanted or {}).get(name))

    def figure(
        self, name: str, unit: Unit, times: Times, *, wanted: float | None = None, beside: str = "", limit: str = ""
    ) -> None:
        """What is wanted has to hold in the slowest repeat."""
        values = times.values(unit)
        slowest = min(values) if unit.more_is_better else max(values)
        reached = wanted is None or (slowest >= wanted if unit.more_is_better else slowest <= wanted)
        cells = [_spread(values, slowest), str(len(values)), number(times.first) if times.first else "", beside, limit]
        self.row(name, unit.name, *cells, _held(wanted, reached, "≥" if unit.more_is_better else "≤"))

    def numbers(self, name: str, unit: str, values: Sequence[float], *, wanted: float | None = None) -> None:
        """A figure of which less is better, found without turns: once for each seed."""
        reached = wanted is None or max(values) <= wanted
        self.row(name, unit, _spread(values, max(values)), str(len(values)), "", "", "", _held(wanted, reached, "≤"))

    def missing(self, name: str, unit: str, reason: str, *, wanted: float | None = None) -> None:
        """A row without a figure, and why."""
        self.row(name, unit, reason, "", "", "", "", _held(wanted, False, "≤"))

    @contextmanager
    def optional(self, names: Sequence[str], unit: Unit) -> Iterator[None]:
        """Within it a baseline is made; where its package is not installed, its rows say so and the rest goes on."""
        try:
            yield
        except ModuleNotFoundError as error:
            install = "pip install -c constraints.txt -e .[gym]"
            for name in names:
                self.missing(name, unit.name, f"not measured: {error.name} is not installed; {install}")

    def row(self, *cells: str) -> None:
        self.blocks[-1] += "\n" + _line(cells)
        print("  " + "  ".join(filter(None, cells)), flush=True)


def number(value: float) -> str:
    """Three digits, and thousands in groups."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{float(f'{value:.3g}'):g}"


def _spread(values: Sequence[float], slowest: float) -> str:
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({number(slowest)})"


def _held(wanted: float | None, reached: bool, sign: str) -> str:
    return "" if wanted is None else f"{sign} {number(wanted)} {'✓' if reached else '**missed**'}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def once(work: Callable[[], object]) -> Work:
    """Work that is counted as 1, whatever it returns."""

    def run() -> float:
        work()
        return 1.0

    return run
