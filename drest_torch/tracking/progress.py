"""The progress of a run: a few live lines in a terminal, a plain line for each note elsewhere.

We use rich.live and not rich.progress, whose rate is that of the last samples: none for a study whose runs take
minutes, and restless for a run that stops to be evaluated. Nothing but the bar would be left for it to do.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import TextIO, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

_SECONDS_BETWEEN = 0.2
"""The live lines of a run are written at most so often."""
_EVALUATION = re.compile(r"eval/(?P<split>.+)/(?P<measure>usefulness|neutrality)")
_TRAINING = {"train/return": "return", "policy/entropy": "entropy"}


_Self = TypeVar("_Self", bound="LiveLines")


class LiveLines(ABC):
    """Lines at the end of a terminal that tell how far something has come; a context manager.

    Elsewhere than in a terminal that can move its cursor there are none, and notes alone are written. Nothing runs
    beside the program: the lines are written in :meth:`refresh`. What is ``done`` from the start is not counted for
    the rate.
    """

    def __init__(self, title: str, total: int, stream: TextIO | None, *, done: int = 0) -> None:
        self.title, self.total = title, total
        self.done = self.done_before = done
        self._began = monotonic()
        stream = stream or sys.stderr
        self._console = Console(file=stream, force_terminal=stream.isatty())
        self.is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        # What the program prints goes above the live lines, but only if it was on its way to a terminal.
        self._live = Live(
            self,
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def __rich__(self) -> Group:
        return Group(self._head(), *self._lines())

    def __enter__(self: _Self) -> _Self:
        self.begin()
        if self.is_live:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the last state of the lines in the terminal, its cursor below them."""
        self._live.stop()

    def begin(self) -> None:
        """Count the time from now."""
        self._began = monotonic()

    def refresh(self) -> None:
        """Write the lines as they are now."""
        if self.is_live:
            self._live.refresh()

    def note(self, text: str) -> None:
        """Write a line for the user, above the live lines."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def end(self, text: str) -> None:
        """Write a last line for the user, below the lines, which stay as they are."""
        self._live.stop()
        self.note(text)

    @property
    def rate(self) -> float:
        """What was done per second since the beginning; 0 before anything was."""
        seconds = monotonic() - self._began
        return (self.done - self.done_before) / seconds if seconds > 0 else 0.0

    def time_left(self) -> timedelta:
        """Return the time that the rest takes at this rate."""
        return timedelta(seconds=round(max(self.total - self.done, 0) / self.rate))

    @abstractmethod
    def _lines(self) -> list[RenderableType]:
        """Return the lines below the head, as they are now."""

    def _head(self) -> Table:
        """Return the title, and a bar that shows how much is done."""
        share = min(self.done / self.total, 1.0) if self.total else 1.0
        head = Table.grid("", Column(no_wrap=True), Column(no_wrap=True), padding=(0, 2))  # the title gives way
        title = Text(self.title, style="bold", no_wrap=True, overflow="ellipsis")
        head.add_row(title, ProgressBar(total=1, completed=share, width=30), f"{share:.0%}")
        return head


class Progress(LiveLines):
    """The progress of a training run; a context manager.

    ``done`` are the environment steps of earlier sessions: they count as done, but not for the rate.
    """

    def __init__(self, total_steps: int, *, done: int = 0, title: str, stream: TextIO | None = None) -> None:
        super().__init__(title, total_steps, stream, done=done)
        self._metrics: dict[str, float] = {}
        self._written = monotonic()

    def update(self, steps: int, metrics: Mapping[str, float]) -> None:
        """Show that ``steps`` environment steps are done in all; of every metric the last value is shown."""
        self.done = steps
        self._metrics.update(metrics)
        if monotonic() - self._written >= _SECONDS_BETWEEN:
            self.refresh()
            self._written = monotonic()

    def _lines(self) -> list[RenderableType]:
        text = f"{self.done:,} / {self.total:,} steps"
        if rate := self.rate:
            text += f"   {rate:,.0f} steps/s   {self.time_left()} left"
        return [Text(text, no_wrap=True, overflow="ellipsis"), self._table()]

    def _table(self) -> Table:
        """Return the metrics so far: a line each for usefulness and neutrality on every split, and for the training."""
        rows: dict[str, list[str]] = {"usefulness": [], "neutrality": [], "training": []}
        for name, value in self._metrics.items():
            if match := _EVALUATION.fullmatch(name):
                rows[match["measure"]].append(f"{match['split']} {value:.3f}")
            elif name in _TRAINING:
                rows["training"].append(f"{_TRAINING[name]} {value:.3f}")
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        for label, cells in rows.items():
            if cells:
                table.add_row(label, *map(Text, cells))
        return table
