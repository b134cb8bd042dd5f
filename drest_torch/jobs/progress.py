"""Show the progress of a list of runs."""

from __future__ import annotations

from time import monotonic
from typing import TextIO

from rich.console import RenderableType
from rich.text import Text

from drest_torch.jobs.executor import Again, Event, Started
from drest_torch.tracking.progress import SECONDS_BETWEEN_LINES, LiveLines


class JobProgress(LiveLines):
    """The progress of a study: live lines in a terminal; elsewhere a plain line for each failure and each tenth of the
    runs, and once a minute if runs end.

    It is the ``report`` of `run_jobs`. The lines are written when a run starts or ends.
    """

    def __init__(self, total: int, *, title: str, stream: TextIO | None = None) -> None:
        super().__init__(title, total, stream)
        self.existed = self.failed = 0
        self.running: dict[str, None] = {}  # a set that keeps its order
        self._tenths: int | None = None
        self._written = monotonic()

    def __call__(self, event: Event) -> None:
        """Record the start or the end of a run."""
        if isinstance(event, Started):
            if self._tenths is None:  # the first
                self.begin()
                self._note_state()
            self.running[event.job.name] = None
        elif isinstance(event, Again):
            self.running.pop(event.job.name, None)
            self.note(f"{self.title}: {event.job.name} begins again: {event.reason}")
        else:
            self.done += 1
            self.running.pop(event.job.name, None)
            if event.existed:
                self.existed += 1
                self.done_before += 1
                return  # there can be hundreds at once
            if event.failure:
                self.failed += 1
                self.note(f"{self.title}: {event.job.name} failed: {event.failure.reason}")
            self._note_state()
        self.refresh()

    def _note_state(self) -> None:
        """Write a plain line at each tenth, or after a minute, if there are no live lines."""
        tenths = 10 * self.done // max(self.total, 1)
        is_due = tenths != self._tenths or monotonic() - self._written >= SECONDS_BETWEEN_LINES
        if is_due and not self.is_live:
            self._written = monotonic()
            self.note(f"{self.title}: {self._state()}")
        self._tenths = tenths

    def _state(self) -> str:
        parts = [f"{self.done} / {self.total} runs"]
        if self.existed:
            parts.append(f"{self.existed} from before")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if rate := self.rate:
            per, unit = (rate, "s") if rate >= 1 else (60 * rate, "min")
            parts += [f"{per:.3g} runs/{unit}", f"{self.time_left()} left"]
        return "   ".join(parts)

    def _lines(self) -> list[RenderableType]:
        lines = [self._state()] + ([f"running {', '.join(self.running)}"] if self.running else [])
        return [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
