"""How things are measured: contenders take turns, and a figure is a row with all that it is held against."""

from __future__ import annotations

import ctypes
import math
import re
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

REPEATS = 10
LEAST_SECONDS = 0.05
"""A repeat calls its work until so much time has passed: clocks and the ends of meta-episodes are lumpy."""
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Work = Callable[[], float]
"""Does some work and says how much: steps, levels, or just 1."""


@dataclass(frozen=True)
class Unit:
    """What a figure is counted in, and how it follows from an amount of work and the seconds it took."""

    name: str
    value: Callable[[float, float], float]
    more_is_better: bool

    def worst(self, values: Sequence[float]) -> float:
        return min(values) if self.more_is_better else max(values)

    def reached(self, value: float, wanted: float) -> bool:
        return value >= wanted if self.more_is_better else value <= wanted


def rate(of: str, scale: float) -> Unit:
    return Unit(of, lambda amount, seconds: amount / seconds / scale, more_is_better=True)


SECONDS = Unit("s", lambda amount, seconds: seconds / amount, more_is_better=False)
TIMES = Unit("×", lambda amount, seconds: seconds / amount, more_is_better=False)
FASTER = Unit("× as fast", lambda amount, seconds: seconds / amount, more_is_better=True)
MILLION_STEPS = rate("million steps/s", 1e6)
STEPS = rate("steps/s", 1)
GIGAFLOPS = rate("GFLOP/s", 1e9)
GIGABYTES = rate("GB/s", 1e9)


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
        return Times(other._seconds_each(), self._seconds_each(), 0.0)

    def _seconds_each(self) -> list[float]:
        return [seconds / amount for amount, seconds in zip(self.amounts, self.seconds, strict=True)]


@dataclass
class Row:
    """One figure. ``beside`` and ``limit`` are of the same run and in the same unit."""

    name: str
    unit: str
    median: float | None = None
    slowest: float | None = None
    repeats: int = 0
    first: float | None = None
    """Seconds until the first result: compiling and warming up."""
    beside: dict[str, float] = field(default_factory=dict)
    limit: float | None = None
    """What the machine allows."""
    wanted: float | None = None
    reached: bool | None = None
    more_is_better: bool = False
    note: str = ""


@dataclass
class Table:
    title: str
    text: str
    rows: list[Row] = field(default_factory=list)


@dataclass
class Curve:
    """Seconds and memory of one thing as one number grows."""

    what: str
    at: list[float] = field(default_factory=list)
    median: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)
    memory: list[float | None] = field(default_factory=list)
    """MiB that it needs above what was there before; None where that cannot be told."""


class Point(NamedTuple):
    """Works by name, where what grows is at this number."""

    at: float
    works: Mapping[str, Work]
    states: int | None = None
    """Reachable states of the level set there, if it is one."""


@dataclass
class Growth:
    against: str
    text: str
    states: list[int | None]
    curves: list[Curve]


class Bench:
    """Measures for one part, prints what it finds as it comes, and keeps it."""

    def __init__(
        self,
        device: str = "cpu",
        *,
        quick: bool = False,
        followup: Path | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.device = torch.device(device)
        self.quick, self.followup, self.clock = quick, followup, clock
        self.repeats = 2 if quick else REPEATS
        self.tables: list[Table] = []
        self.growths: list[Growth] = []

    @property
    def on_cpu(self) -> bool:
        """Baselines that know no GPU are measured in the run on the CPU alone."""
        return self.device.type == "cpu"

    @property
    def on_wall(self) -> bool:
        """Whether seconds are the wall's: the processor's leave out processes that go on."""
        return self.clock is not processor_seconds

    def size(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def results(self) -> dict[str, Any]:
        return {"tables": [asdict(each) for each in self.tables], "growths": [asdict(each) for each in self.growths]}

    # ------------------------------------------------------------------------------------- measuring

    def measure(self, contenders: Mapping[str, Work], *, repeats: int | None = None) -> dict[str, Times]:
        """Each contender is called once, then all take turns, so that a disturbance is one for all."""
        first = {name: self._took(work, 1)[1] for name, work in contenders.items()}
        calls = {name: self._calls(work, first[name]) for name, work in contenders.items()}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
        for _ in range(repeats or self.repeats):
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
        self.wait()
        began = self.clock()
        amount = sum(work() for _ in range(calls))
        self.wait()
        return amount, self.clock() - began

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def memory(self, work: Work) -> float | None:
        """MiB that a call needs at its peak, above what was there before."""
        if self.device.type == "cuda":
            before = torch.cuda.memory_allocated(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            work()
            self.wait()
            return (torch.cuda.max_memory_allocated(self.device) - before) / 2**20
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # or the call would be given what earlier ones have left
            _CLEAR.write_text("5")  # the peak is from now on
            before = _resident("VmRSS")
            work()
            return (_resident("VmHWM") - before) / 1024
        return None

    # ------------------------------------------------------------------------------------- reporting

    def table(self, title: str, text: str = "") -> None:
        """The rows from here on stand in this table."""
        self.tables.append(Table(title, text))
        print(f"\n{title}", flush=True)

    def compare(
        self,
        times: Mapping[str, Times],
        unit: Unit,
        *,
        baselines: Sequence[str] = (),
        limit: str | None = None,
        wanted: Mapping[str, float] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        """A row for each contender; those that are neither baseline nor limit have these beside them."""
        medians = {name: statistics.median(_values(each, unit)) for name, each in times.items()}
        for name, each in times.items():
            own = name not in (*baselines, limit)
            self.figure(
                name,
                unit,
                each,
                beside={other: medians[other] for other in baselines if other in medians} if own else {},
                limit=medians[limit] if own and limit else None,
                wanted=(wanted or {}).get(name),
                note=(notes or {}).get(name, ""),
            )

    def figure(self, name: str, unit: Unit, times: Times, *, wanted: float | None = None, **further: Any) -> None:
        """What is wanted has to hold in the slowest repeat."""
        values = _values(times, unit)
        slowest = unit.worst(values)
        self._add(
            Row(
                name,
                unit.name,
                median=statistics.median(values),
                slowest=slowest,
                repeats=len(values),
                first=times.first or None,
                wanted=wanted,
                reached=None if wanted is None else unit.reached(slowest, wanted),
                more_is_better=unit.more_is_better,
                **further,
            )
        )

    def numbers(
        self, name: str, unit: str, values: Sequence[float], *, wanted: float | None = None, note: str = ""
    ) -> None:
        """A figure of which less is better, found without turns: once, or once for each seed."""
        reached = None if wanted is None else max(values) <= wanted
        middle = statistics.median(values)
        self._add(Row(name, unit, middle, max(values), len(values), wanted=wanted, reached=reached, note=note))

    def missing(self, name: str, unit: str, reason: str, *, wanted: float | None = None) -> None:
        """A row without a figure, and why."""
        self._add(Row(name, unit, wanted=wanted, reached=None, note=reason))

    @contextmanager
    def optional(self, names: Sequence[str], unit: Unit) -> Iterator[None]:
        """Within it a baseline is made; where its package is not installed, its rows say so and the rest goes on."""
        try:
            yield
        except ModuleNotFoundError as error:
            for name in names:
                self.missing(
                    name,
                    unit.name,
                    f"not measured: {error.name} is not installed; pip install -c constraints.txt -e .[gym]",
                )

    def _add(self, row: Row) -> None:
        self.tables[-1].rows.append(row)
        value = "" if row.median is None else f"{row.median:>12.5g}{row.slowest:>12.5g}"
        held = {True: "reached", False: "MISSED", None: ""}[row.reached]
        print(f"  {row.name:<64}{value:<24} {row.unit} {held} {row.note}".rstrip(), flush=True)

    def growth(self, against: str, text: str, points: Sequence[Point]) -> None:
        """Curves of time and memory at these points."""
        print(f"\nGrowth with {against}", flush=True)
        curves: dict[str, Curve] = {}
        for at, works, _ in points:
            for what, times in self.measure(works).items():
                curve = curves.setdefault(what, Curve(what))
                values = _values(times, SECONDS)
                curve.at.append(at)
                curve.median.append(statistics.median(values))
                curve.slowest.append(max(values))
                curve.memory.append(self.memory(works[what]))
                print(f"  {at:>10g}  {what:<40}{curve.median[-1]:>12.5g} s", flush=True)
        self.growths.append(Growth(against, text, [point.states for point in points], list(curves.values())))


def processor_seconds() -> float:
    """Of this process and of those that it has started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _values(times: Times, unit: Unit) -> list[float]:
    return [unit.value(amount, seconds) for amount, seconds in zip(times.amounts, times.seconds, strict=True)]


def _resident(which: str) -> int:
    """kB of this process's memory: now (VmRSS), or the most there was (VmHWM)."""
    found = re.search(rf"{which}:\s+(\d+) kB", _STATUS.read_text())
    assert found is not None
    return int(found[1])


def once(work: Callable[[], object]) -> Work:
    """Work that is counted as 1, whatever it returns."""

    def run() -> float:
        work()
        return 1.0

    return run
