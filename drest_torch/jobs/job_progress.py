"""Progress of a list of runs."""

from __future__ import annotations

from typing import TextIO

from drest_torch.jobs.executor import Again, Event, Started
from drest_torch.tracking.progress import LiveLines


class JobProgress(LiveLines):
    """The progress of a study: live lines in a terminal; elsewhere one plain line a minute, and one for each failure.

    Pass it to `run_jobs` as ``report``. The lines are written when a run starts or ends.
    """

    def __init__(self, total: int, *, title: str, stream: TextIO | None = None) -> None:
        super().__init__(title, total, stream)
        self.failed = 0
        self.running: dict[str, None] = {}  # a set that keeps its order

    def __call__(self, event: Event) -> None:
        """Record the start or the end of a run."""
        if isinstance(event, Started):
            self.running[event.job.name] = None
        elif isinstance(event, Again):
            self.running.pop(event.job.name, None)
            self.note(f"{self.title}: {event.job.name} begins again: {event.reason}")
        else:
            self.done += 1
            self.running.pop(event.job.name, None)
            if event.existed:
                self.done_before += 1
                return  # there can be hundreds at once
            if event.failure:
                self.failed += 1
                self.note(f"{self.title}: {event.job.name} failed: {event.failure.reason}")
        self.refresh()

    def _lines(self) -> list[str]:
        parts = [f"{self.done} / {self.total} runs"]
        if self.done_before:
            parts.append(f"{self.done_before} from before")
        if self.failed:
            parts.append(f"{self.failed} failed")
        rate = self.rate
        if rate:
            parts += [_rate_text(rate), f"{self.time_left()} left"]
        lines = ["   ".join(parts)]
        if self.running:
            lines.append(f"running {', '.join(self.running)}")
        return lines


def _rate_text(per_second: float) -> str:
    if per_second >= 1:
        return f"{per_second:.3g} runs/s"
    return f"{60 * per_second:.3g} runs/min"
