"""What a run is doing: a few live lines in a terminal, a plain line for each note elsewhere."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import TextIO, TypeVar

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

_SECONDS_BETWEEN = 0.2
"""The live lines are drawn at most so often."""
_EVALUATION = re.compile(r"eval/(?P<split>.+)/(?P<measure>usefulness|neutrality)")
_TRAINING = {"train/return": "return", "policy/entropy": "entropy"}


_Lines = TypeVar("_Lines", bound="LiveLines")


class LiveLines(ABC):
    """Lines at the end of a terminal that tell how far something has come; a context manager.

    Elsewhere than in a terminal that can move its cursor there are none, and notes alone are written.
    """

    def __init__(self, title: str, stream: TextIO | None) -> None:
        self.title = title
        self._console, self._live = screen(stream or sys.stderr)

    def __enter__(self: _Lines) -> _Lines:
        if self._live is not None:
            self._live.update(self._lines())
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the last state of the lines in the terminal, its cursor below them."""
        if self._live is not None:
            try:
                self._live.update(self._lines())
            finally:
                self._live.stop()

    def note(self, text: str) -> None:
        """A line for the user, above the live lines."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @abstractmethod
    def _lines(self) -> Group:
        """The lines as they are now."""

    def _head(self, done: float, total: float) -> Table:
        """The title, and a bar that shows how much is done."""
        share = min(done / total, 1.0) if total else 1.0
        head = Table.grid("", Column(no_wrap=True), Column(no_wrap=True), padding=(0, 2))  # the title gives way
        title = Text(self.title, style="bold", no_wrap=True, overflow="ellipsis")
        head.add_row(title, ProgressBar(total=1, completed=share, width=30), f"{share:.0%}")
        return head


class Progress(LiveLines):
    """Shows how far a run has come; a context manager.

    ``done`` are the environment steps of earlier sessions: they count as done, but not for the rate.
    Nothing runs beside the training: the lines are drawn in :meth:`update`, or not at all.
    """

    def __init__(self, total_steps: int, *, done: int = 0, title: str, stream: TextIO | None = None) -> None:
        super().__init__(title, stream)
        self.total_steps = total_steps
        self._done_before = self._done = done
        self._metrics: dict[str, float] = {}
        self._began = self._drawn = monotonic()

    def __enter__(self) -> Progress:
        self._began = self._drawn = monotonic()
        return super().__enter__()

    def update(self, steps: int, metrics: Mapping[str, float]) -> None:
        """The run has now done ``steps`` environment steps in all; of every metric the last value is shown."""
        self._done = steps
        if self._live is not None:
            self._metrics.update(metrics)
            if monotonic() - self._drawn >= _SECONDS_BETWEEN:
                self._live.update(self._lines(), refresh=True)
                self._drawn = monotonic()

    @property
    def rate(self) -> float:
        """Environment steps per second of this session; 0 before the first."""
        seconds = monotonic() - self._began
        return (self._done - self._done_before) / seconds if seconds > 0 else 0.0

    def _lines(self) -> Group:
        head = self._head(self._done, self.total_steps)
        return Group(head, Text(self._steps(), no_wrap=True, overflow="ellipsis"), self._table())

    def _steps(self) -> str:
        text = f"{self._done:,} / {self.total_steps:,} steps"
        rate = self.rate
        if rate > 0:
            left = timedelta(seconds=round(max(self.total_steps - self._done, 0) / rate))
            text += f"   {rate:,.0f} steps/s   {left} left"
        return text

    def _table(self) -> Table:
        """The metrics so far: a line each for usefulness and neutrality on every split, and for the training."""
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


def screen(stream: TextIO) -> tuple[Console, Live | None]:
    """Where notes are written, and the live lines if it is a terminal that can move its cursor."""
    console = Console(file=stream, force_terminal=stream.isatty())
    if not console.is_terminal or console.is_dumb_terminal:
        return console, None
    # What the program prints goes above the live lines, but only if it was on its way to a terminal.
    return console, Live(
        console=console, auto_refresh=False, redirect_stdout=sys.stdout.isatty(), redirect_stderr=sys.stderr.isatty()
    )
