"""The table at the end of a run: how useful and how neutral the agent is, beside what is possible."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

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


def optimum(num_lengths: Sequence[int]) -> Score:
    """The optimum of a split whose levels have so many lengths: usefulness 1, and log2 k bits on average."""
    return Score(1.0, sum(math.log2(k) for k in num_lengths) / len(num_lengths))


def final_table(rows: Sequence[Row]) -> Table:
    """Usefulness and neutrality, a line a split."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        caption="neutrality in bits",
        caption_justify="left",
    )
    table.add_column("\nsplit", overflow="fold")
    table.add_column("\nlevels", justify="right", no_wrap=True)
    for measure in ("usefulness", "neutrality"):
        table.add_column(f"{measure}\nagent", style="bold", no_wrap=True)
        table.add_column("\nuniform", style="dim", no_wrap=True)
        table.add_column("\noptimum", style="dim", no_wrap=True)
    for row in rows:
        scores = (row.agent, row.uniform, row.optimum)
        usefulness = (f"{score.usefulness:.3f}" for score in scores)
        neutrality = (f"{score.neutrality:.3f}" for score in scores)
        table.add_row(row.split, f"{row.levels:,}", *usefulness, *neutrality)
    return table


def print_table(rows: Sequence[Row], stream: TextIO | None = None) -> None:
    """Print the final table: in colour to a terminal, as plain text of at most 100 columns elsewhere."""
    stream = stream or sys.stdout
    is_terminal = stream.isatty()
    console = Console(file=stream, force_terminal=is_terminal, width=None if is_terminal else _WIDEST, markup=False)
    console.print(final_table(rows))
