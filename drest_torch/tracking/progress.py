"""The progress of a run: live lines in a terminal, plain lines elsewhere.

We use rich.live rather than rich.progress, which computes its rate from the most recent samples: it has none for a
study whose runs take minutes, and it jumps when a run pauses for an evaluation.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from time import monotonic
from typing import Any, TextIO, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from drest_torch.tracking.effort import Pace
from drest_torch.tracking.stages import stamped

_SECONDS_BETWEEN = 0.2
"""Minimum time between two refreshes of the live lines."""
SECONDS_BETWEEN_LINES = 60.0
"""Minimum time between two plain lines outside a terminal."""
_EVALUATION = re.compile(r"eval/(?P<split>.+)/(?P<measure>usefulness|neutrality)")
_TRAINING = {"train/return": "return", "policy/entropy": "entropy"}
_Self = TypeVar("_Self", bound="LiveLines")


class LiveLines(ABC):
    """Progress lines at the bottom of a terminal; a context manager.

    Without a terminal that can move its cursor, only notes are written. There is no background thread: :meth:`refresh`
    writes the lines. Work ``done`` before the start does not count for the rate.
    """

    def __init__(self, title: str, total: int, stream: TextIO | None, *, done: int = 0) -> None:
        self.title, self.total = title, total
        self.done = self.done_before = done
        self._start = self._written = monotonic()
        stream = stream or sys.stderr
        self._console = Console(file=stream, force_terminal=stream.isatty())
        self.is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        # Output to a terminal is printed above the live lines; redirected output is left alone.
        self._live = Live(
            self,
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def __rich__(self) -> Group:
        share = 1.0
        if self.done < self.total:
            share = self.done / self.total
        head = Table.grid("", Column(no_wrap=True), Column(no_wrap=True), padding=(0, 2))  # the title is shortened
        title = Text(self.title, style="bold", no_wrap=True, overflow="ellipsis")
        head.add_row(title, ProgressBar(total=1, completed=share, width=30), f"{share:.0%}")
        return Group(head, *(Text(line, no_wrap=True, overflow="ellipsis") for line in self._lines()))

    def __enter__(self: _Self) -> _Self:
        self._start = monotonic()
        if self.is_live:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *error: Any) -> None:
        """Stop updating, and leave the cursor below the last lines."""
        self._live.stop()

    def refresh(self, seconds: float = 0.0) -> None:
        """Write the lines if the last ones are this old; outside a terminal, a plain line each minute."""
        if not self.is_live:
            seconds = SECONDS_BETWEEN_LINES
        if monotonic() - self._written < seconds:
            return
        self._written = monotonic()
        if self.is_live:
            self._live.refresh()
        else:
            self.note(self._plain())

    def note(self, text: str) -> None:
        """Write a line above the live lines."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        """Write the current stage and the elapsed time, if there are live lines."""
        if self.is_live:
            self.note(stamped(text))

    def end(self, text: str) -> None:
        """Stop the live lines and write a final line below them."""
        self._live.stop()
        self.note(text)

    @property
    def rate(self) -> float:
        """Progress per second since the start; 0 at the start."""
        seconds = monotonic() - self._start
        if seconds <= 0:
            return 0.0
        return (self.done - self.done_before) / seconds

    def time_left(self) -> timedelta:
        """Return the remaining time at the current rate."""
        return timedelta(seconds=round(max(self.total - self.done, 0) / self.rate))

    @abstractmethod
    def _lines(self) -> list[str]:
        """Return the lines below the title."""

    def _plain(self) -> str:
        """Return the line that is written outside a terminal."""
        return f"{self.title}: {self._lines()[0]}"


class Progress(LiveLines):
    """The progress of a training run; a context manager.

    ``done`` is the number of steps in earlier sessions, which do not count for the rate. ``pace`` is the unit of steps.
    """

    def __init__(
        self, total_steps: int, pace: Pace | None = None, *, done: int = 0, title: str, stream: TextIO | None = None
    ) -> None:
        super().__init__(title, total_steps, stream, done=done)
        self.pace = pace or Pace()
        self._metrics: dict[str, float] = {}

    def update(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Show the number of completed steps and the latest value of every metric."""
        self.done = steps
        self._metrics.update(metrics)
        self.refresh(_SECONDS_BETWEEN)

    def _plain(self) -> str:
        return stamped("   ".join(self._lines()))

    def _lines(self) -> list[str]:
        """Return the number of steps, the latest usefulness and neutrality of every split, and training metrics."""
        pace = self.pace
        state = f"{pace.count(self.done):,} / {pace.text(self.total)}"
        if rate := self.rate / pace.steps_per_update:
            speed = f"{rate:,.1f} updates/s"
            if pace.levels_per_update is None and pace.noun == "steps":
                speed = f"{rate:,.0f} steps/s"
            elif rate < 1:
                speed = f"{60 * rate:,.1f} updates/min"
            state += f"   {speed}   {self.time_left()} left"
        metrics: dict[str, list[str]] = {"usefulness": [], "neutrality": [], "training": []}
        for name, value in self._metrics.items():
            if match := _EVALUATION.fullmatch(name):
                metrics[match["measure"]].append(f"{match['split']} {value:.3f}")
            elif name in _TRAINING:
                metrics["training"].append(f"{_TRAINING[name]} {value:.3f}")
        return [state, *(f"{label} {', '.join(values)}" for label, values in metrics.items() if values)]
