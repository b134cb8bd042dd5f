"""The table at the end of a run: usefulness and neutrality of the agent, the random policy and the optimum."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from drest_torch.errors import printable
from drest_torch.statistics.intervals import Interval

_WIDEST = 100
"""Width of the table in characters outside a terminal."""
SPLITS = {"train": "training"}
"""Labels of splits in the table, where they differ from the name."""
MEASURES = ("usefulness", "neutrality")
LEAST_DIFFERENCE = 5e-4
"""Minimum difference at which the neutrality given the private bits is printed."""


def print_table(splits: Mapping[str, Mapping[str, Any]], gamma: float, stream: TextIO | None = None) -> None:
    """Print usefulness at γ and neutrality, one line per split, from the numbers of a summary."""
    rows = splits.values()
    sampled = [numbers["sampled"] for numbers in rows if "sampled" in numbers]
    notes = [_gammas(splits, gamma), "neutrality in bits; uniform: random actions; optimum: the best possible"]
    if {"train", "test"} <= splits.keys():
        notes.append("test levels are not trained on; paper: the worlds of the paper")
    if sampled:
        notes.append(f"sampled, {sampled[0]:,} mini-episodes a level, 95 % intervals")
    has_own = any(_own_differs(numbers) for numbers in rows)
    if has_own:
        notes.append("own: neutrality given its private bits, the randomness of the agent itself")
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
    for measure in MEASURES:
        table.add_column(f"{measure}\nagent", style="bold", no_wrap=not sampled)
        for name in ("uniform", "optimum"):
            table.add_column(f"\n{name}", style="dim", no_wrap=True)
    if has_own:
        table.add_column("\nown", style="bold", no_wrap=True)
    for split, numbers in splits.items():
        cells = [SPLITS.get(split, split), f"{numbers['levels']:,}"]
        for measure in MEASURES:
            cells.append(with_interval(numbers, measure))
            cells += [f"{numbers[policy][measure]:.3f}" for policy in ("uniform", "optimum")]
        neutrality_own = numbers.get("neutrality_own")
        if has_own and neutrality_own is None:
            cells.append("–")
        elif has_own:
            cells.append(f"{neutrality_own:.3f}")
        table.add_row(*cells)
    console_for(stream or sys.stdout).print(table)


def _own_differs(numbers: Mapping[str, Any]) -> bool:
    """Return whether the neutrality given the private bits is lower than the neutrality."""
    return bool(numbers.get("neutrality_own", math.inf) < numbers["neutrality"] - LEAST_DIFFERENCE)


def with_interval(numbers: Mapping[str, Any], measure: str) -> str:
    """Return a measure of a split as text, such as ``0.873``, with its interval if it was sampled."""
    ends = numbers.get("ranges", {}).get(measure)
    if ends is None:
        return f"{numbers[measure]:.3f}"
    return str(Interval(numbers[measure], ends["low"], ends["high"]))


def _gammas(splits: Mapping[str, Mapping[str, Any]], gamma: float) -> str:
    """Return the note on usefulness at the discount γ of the run and at others."""
    note = f"usefulness at gamma = {gamma:g}"
    for split, numbers in splits.items():
        at_gammas = [f"{value:.3f} at gamma = {other:g}" for other, value in numbers.get("usefulness_at", {}).items()]
        if not at_gammas:
            continue
        note += "; "
        if len(splits) > 1:
            note += f"{split}: "
        note += ", ".join(at_gammas)
    return note


def console_for(stream: TextIO) -> Console:
    """Return a console for tables: coloured in a terminal, plain text of at most 100 columns elsewhere."""
    if stream.isatty():
        return _Console(file=stream, force_terminal=True, markup=False, emoji=False)
    return _Console(file=stream, force_terminal=False, width=_WIDEST, markup=False, emoji=False)


class _Console(Console):
    """A console that escapes control sequences in the names of runs and levels."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)
