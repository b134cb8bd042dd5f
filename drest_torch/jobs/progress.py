"""How far a list of runs has come."""

from __future__ import annotations

from typing import TextIO

from rich.console import RenderableType
from rich.text import Text

from drest_torch.jobs.executor import Again, Event, Started
from drest_torch.tracking.progress import LiveLines


class JobProgress(LiveLines):
    """The progress of a study: live lines in a terminal, elsewhere a plain line for each tenth and each failure.

    ``run_jobs`` reports to it. The lines are written when a run begins or ends.
    """

    def __init__(self, total: int, *, title: str, stream: TextIO | None = None) -> None:
        super().__init__(title, total, stream)
        self.existed = self.failed = 0
        self.running: dict[str, None] = {}  # a set that keeps its order
        self._tenths: int | None = None

    def __call__(self, event: Event) -> None:
        """Take note of the beginning or the end of a run."""
        if isinstance(event, Started):
            if self._tenths is None:  # the first
                self.begin()
                self._tell_tenth()
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
                return  # hundreds at once, perhaps
            if event.failure:
                self.failed += 1
                self.note(f"{self.title}: {event.job.name} failed: {event.failure.reason}")
            self._tell_tenth()
        self.refresh()

    def _tell_tenth(self) -> None:
        """Write a plain line where there are no live ones, and another tenth is done."""
        tenths = 10 * self.done // max(self.total, 1)
        if tenths != self._tenths and not self.is_live:
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
