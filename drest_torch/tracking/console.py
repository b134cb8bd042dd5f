"""The table at the end of a run: how useful and how neutral the agent is, beside what is possible."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

from drest_torch.statistics.bootstrap import Interval

_WIDEST = 100
"""Columns of the table where it is not written to a terminal."""


@dataclass(frozen=True)
class Score:
    """The mean over a split's levels."""

    usefulness: float
    neutrality: float
    """In bits."""


@dataclass(frozen=True)
class Row:
    """One split of the levels: the agent, beside a policy that knows nothing and the best there is."""

    split: str
    levels: int
    agent: Score
    uniform: Score
    optimum: Score
    sampled: int | None = None
    """Mini-episodes that were played on each level, where the agent's scores are estimates."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Their 95 % intervals, by the name of the measure."""

    def of_agent(self, measure: str) -> str:
        """``0.873``, with its interval if there is one."""
        estimate: float = getattr(self.agent, measure)
        return str(Interval(estimate, *self.ranges[measure])) if measure in self.ranges else f"{estimate:.3f}"


def optimum(num_lengths: Sequence[int]) -> Score:
    """The optimum of a split whose levels have so many lengths: usefulness 1, and log2 k bits on average."""
    return Score(1.0, sum(math.log2(k) for k in num_lengths) / len(num_lengths))


def final_table(rows: Sequence[Row]) -> Table:
    """Usefulness and neutrality, a line a split."""
    sampled = [row.sampled for row in rows if row.sampled is not None]
    how = f"; sampled, {sampled[0]:,} mini-episodes a level, 95 % intervals" if sampled else ""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        caption=f"neutrality in bits{how}",
        caption_justify="left",
    )
    table.add_column("\nsplit", overflow="fold")
    table.add_column("\nlevels", justify="right", no_wrap=True)
    for measure in ("usefulness", "neutrality"):
        table.add_column(f"{measure}\nagent", style="bold", no_wrap=not sampled)
        table.add_column("\nuniform", style="dim", no_wrap=True)
        table.add_column("\noptimum", style="dim", no_wrap=True)
    for row in rows:
        scores = (row.uniform, row.optimum)
        usefulness = (row.of_agent("usefulness"), *(f"{score.usefulness:.3f}" for score in scores))
        neutrality = (row.of_agent("neutrality"), *(f"{score.neutrality:.3f}" for score in scores))
        table.add_row(row.split, f"{row.levels:,}", *usefulness, *neutrality)
    return table


def print_table(rows: Sequence[Row], stream: TextIO | None = None) -> None:
    """Print the final table: in colour to a terminal, as plain text of at most 100 columns elsewhere."""
    stream = stream or sys.stdout
    is_terminal = stream.isatty()
    console = Console(file=stream, force_terminal=is_terminal, width=None if is_terminal else _WIDEST, markup=False)
    console.print(final_table(rows))
