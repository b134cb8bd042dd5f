"""Round-robin timing of implementations, and tables of the figures beside their baselines."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

REPEATS = 10
LEAST_SECONDS = 0.05
"""Shorter work is called repeatedly, so that the resolution of clocks and the ends of meta-episodes average out."""
COLUMNS = ("measurement", "unit", "median (slowest)", "repeats", "first call, s", "baselines", "limit", "target")

Work = Callable[[], float]
"""A function that does some work and returns its amount: steps, levels, or 1."""


@dataclass(frozen=True)
class Unit:
    """The unit of a figure, with the function from an amount of work and its seconds to the figure."""

    name: str
    value: Callable[[float, float], float]
    more_is_better: bool

    def worst(self, values: Sequence[float]) -> float:
        """Return the worst of several figures."""
        return min(values) if self.more_is_better else max(values)

    def judged(self, value: float | None, target: float | None) -> str:
        """Return the target, marked as reached or missed by a value; an empty text without a target."""
        if target is None:
            return ""
        if self.more_is_better:
            sign, is_reached = "≥", value is not None and value >= target
        else:
            sign, is_reached = "≤", value is not None and value <= target
        mark = "✓" if is_reached else "**missed**"
        return f"{sign} {number(target)} {mark}"


def rate(of: str, scale: float) -> Unit:
    """Return the unit of some work per second."""
    return Unit(of, lambda amount, seconds: amount / seconds / scale, more_is_better=True)


SECONDS = Unit("s", lambda amount, seconds: seconds / amount, more_is_better=False)
TIMES = Unit("×", lambda amount, seconds: seconds / amount, more_is_better=False)
FASTER = Unit("× as fast", lambda amount, seconds: seconds / amount, more_is_better=True)
MILLION_STEPS = rate("million steps/s", 1e6)
STEPS = rate("steps/s", 1)
GIGAFLOPS = rate("GFLOP/s", 1e9)


@dataclass(frozen=True)
class Times:
    """The amounts of work and seconds of an implementation in each repeat, and the seconds of its first call."""

    amounts: list[float]
    seconds: list[float]
    first: float

    def times(self, factor: float) -> Times:
        """Return the same work with its amounts multiplied by a factor."""
        amounts = [amount * factor for amount in self.amounts]
        return Times(amounts, self.seconds, self.first)

    def over(self, other: Times) -> Times:
        """Return the ratios to the seconds of another implementation for the same work, repeat by repeat."""
        return Times(other.values(SECONDS), self.values(SECONDS), 0.0)

    def values(self, unit: Unit) -> list[float]:
        """Return the figure of each repeat."""
        return [unit.value(amount, seconds) for amount, seconds in zip(self.amounts, self.seconds, strict=True)]


class Bench:
    """The measurements of a part, which are printed at once and collected as tables of a page."""

    def __init__(
        self, *, quick: bool = False, jax: str | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.quick, self.jax, self.clock = quick, jax, clock
        self.repeats = 2 if quick else REPEATS
        self.blocks: list[str] = []
        """The tables and texts of the page, in Markdown."""

    def size(self, full: int, quick: int) -> int:
        """Return one of two sizes: the second in a quick run."""
        return quick if self.quick else full

    # ------------------------------------------------------------------------------------- measuring

    def measure(self, works: Mapping[str, Work]) -> dict[str, Times]:
        """Time the works in turn after a first call of each, so that background load affects all of them equally."""
        first = {name: self._timed(work, 1)[1] for name, work in works.items()}
        calls = {name: self._calls(work, first[name]) for name, work in works.items()}
        repeats: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
        for _ in range(self.repeats):
            for name, work in works.items():
                repeats[name].append(self._timed(work, calls[name]))
        times = {}
        for name, pairs in repeats.items():
            amounts, seconds = zip(*pairs, strict=True)
            times[name] = Times(list(amounts), list(seconds), first[name])
        return times

    def _calls(self, work: Work, first: float) -> int:
        """Return the number of calls in a repeat, from the first call if that was much longer than a repeat."""
        if self.quick or first > 20 * LEAST_SECONDS:
            return 1
        _, seconds = self._timed(work, 1)
        return max(1, math.ceil(LEAST_SECONDS / max(seconds, 1e-7)))

    def _timed(self, work: Work, calls: int) -> tuple[float, float]:
        """Return the amount of work in these calls, and their seconds."""
        began = self.clock()
        amount = sum(work() for _ in range(calls))
        return amount, self.clock() - began

    # ------------------------------------------------------------------------------------- reporting

    def table(self, title: str, text: str = "") -> None:
        """Begin a table for the next rows."""
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
    ) -> None:
        """Add a row for each implementation; all but baselines and limits are compared with these."""
        medians = {name: statistics.median(of_name.values(unit)) for name, of_name in times.items()}
        beside = "; ".join(f"{number(medians[name])} {name}" for name in baselines if name in medians)
        for name, of_name in times.items():
            if name in (*baselines, limit):
                self.figure(name, unit, of_name)
                continue
            most = ""
            if limit is not None:
                most = f"{number(medians[limit])}, reached to {medians[name] / medians[limit]:.0%}"
            self.figure(name, unit, of_name, baselines=beside, limit=most)

    def figure(
        self, name: str, unit: Unit, times: Times, *, target: float | None = None, baselines: str = "", limit: str = ""
    ) -> None:
        """Add a row of timings."""
        self.numbers(name, unit, times.values(unit), target=target, first=times.first, baselines=baselines, limit=limit)

    def ratio(self, times: Mapping[str, Times], name: str, baseline: str, *, target: float | None = None) -> None:
        """Add a row with the speed relative to a baseline; none if the baseline is missing."""
        if baseline in times:
            self.figure(f"{name} ÷ {baseline}", FASTER, times[baseline].over(times[name]), target=target)

    def numbers(
        self,
        name: str,
        unit: Unit,
        values: Sequence[float],
        *,
        target: float | None = None,
        first: float = 0.0,
        baselines: str = "",
        limit: str = "",
    ) -> None:
        """Add a row of figures, one for each repeat or seed. The worst figure has to reach the target."""
        worst = unit.worst(values)
        median = number(statistics.median(values))
        if len(values) > 1:
            median += f" ({number(worst)})"
        first_call = ""
        if first:
            first_call = number(first)
        self.row(name, unit.name, median, str(len(values)), first_call, baselines, limit, unit.judged(worst, target))

    def missing(self, name: str, unit: Unit, reason: str, *, target: float | None = None) -> None:
        """Add a row with the reason for a missing figure."""
        self.row(name, unit.name, reason, "", "", "", "", unit.judged(None, target))

    @contextmanager
    def optional(self, names: Sequence[str], unit: Unit, extra: str = "gym") -> Iterator[None]:
        """Continue without rows whose package is not installed, with a note that names the extra that has it."""
        try:
            yield
        except ModuleNotFoundError as error:
            install = f"pip install -c constraints.txt -e .[{extra}]"
            for name in names:
                self.missing(name, unit, f"not measured: {error.name} is not installed; {install}")

    def row(self, *cells: str) -> None:
        """Add these cells to the table, and print them."""
        self.blocks[-1] += "\n" + _line(cells)
        print("  " + "  ".join(filter(None, cells)), flush=True)


def number(value: float) -> str:
    """Return a number with three digits, or with separators of thousands."""
    if value == 0:
        return "0"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def once(work: Callable[[], object]) -> Work:
    """Return work that counts as 1."""

    def run() -> float:
        work()
        return 1.0

    return run


def _line(cells: Sequence[str]) -> str:
    """Return a line of a table in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
