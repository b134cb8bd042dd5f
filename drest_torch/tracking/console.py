"""Print the table at the end of a run: the agent's usefulness and neutrality beside what is possible."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from drest_torch.errors import shown

if TYPE_CHECKING:
    from drest_torch.evaluation.results import SplitScores

_WIDEST = 100
"""The width of the table in characters, if it is not printed to a terminal."""
LESS = 5e-4
"""The difference from which on the neutrality given the private bits is printed."""


def final_table(rows: Sequence[SplitScores]) -> Table:
    """Return the table of usefulness and neutrality, one line per split."""
    sampled = [row.sampled for row in rows if row.sampled is not None]
    notes = [_gammas(rows), "neutrality in bits; uniform: random actions; optimum: the best possible"]
    if {"train", "test"} <= {row.split for row in rows}:
        notes.append("test levels are not trained on; paper: the worlds of the paper")
    if sampled:
        notes.append(f"sampled, {sampled[0]:,} mini-episodes a level, 95 % intervals")
    owns = [row.agent.neutrality_own for row in rows]
    shows_own = any(own is not None and own < row.agent.neutrality - LESS for own, row in zip(owns, rows, strict=True))
    if shows_own:
        notes.append("own: neutrality given its private bits, which the agent itself leaves to chance")
    shows_committed = any(row.agent.usefulness_committed is not None for row in rows)
    if shows_committed:
        notes.append("sure: usefulness over what a policy can expect that is sure of its length")
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        header_style="bold",
        caption="\n".join(notes),
        caption_justify="left",
    )
    table.add_column("\nlevels", overflow="fold")
    table.add_column("\nnumber", justify="right", no_wrap=True)
    parts = (
        ("usefulness", "sure", "usefulness_committed", shows_committed),
        ("neutrality", "own", "neutrality_own", shows_own),
    )
    for measure, further, _, is_shown in parts:
        table.add_column(f"{measure}\nagent", style="bold", no_wrap=not sampled)
        if is_shown:
            table.add_column(f"\n{further}", style="bold", no_wrap=True)
        for name in ("uniform", "optimum"):
            table.add_column(f"\n{name}", style="dim", no_wrap=True)
    for row in rows:
        cells = ["training" if row.split == "train" else row.split, f"{row.levels:,}"]
        for measure, _, attribute, is_shown in parts:
            value = getattr(row.agent, attribute)
            cells += [row.of_agent(measure)]
            cells += ["–" if value is None else f"{value:.3f}"] if is_shown else []
            cells += [f"{getattr(score, measure):.3f}" for score in (row.uniform, row.optimum)]
        table.add_row(*cells)
    return table


def _gammas(rows: Sequence[SplitScores]) -> str:
    """Name the discounts γ of the usefulness."""
    note = "usefulness at " + ", ".join(dict.fromkeys(f"gamma = {row.gamma:g}" for row in rows))
    for row in rows:
        if row.usefulness_at:
            name = f"{row.split}: " if len(rows) > 1 else ""
            note += f"; {name}" + ", ".join(
                f"{value:.3f} at gamma = {gamma:g}" for gamma, value in row.usefulness_at.items()
            )
    return note


def print_table(rows: Sequence[SplitScores], stream: TextIO | None = None) -> None:
    """Print the final table: in colour to a terminal, as plain text of at most 100 columns elsewhere."""
    console_for(stream or sys.stdout).print(final_table(rows))


def console_for(stream: TextIO) -> Console:
    """Return a console for tables: in colour to a terminal, as plain text of at most 100 columns elsewhere."""
    is_terminal = stream.isatty()
    width = None if is_terminal else _WIDEST
    return _Console(file=stream, force_terminal=is_terminal, width=width, markup=False, emoji=False)


class _Console(Console):
    """A console that shows names of runs and levels as they are: no escape sequence in them reaches the terminal."""

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(shown(text), **how)
