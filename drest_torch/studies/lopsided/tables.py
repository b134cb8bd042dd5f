"""The tables of the study of lopsided rewards, and numbers in them as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from drest_torch.report.blocks import Table
from drest_torch.report.tables import MISSING, Column, mean, mean_sd, select, table
from drest_torch.studies.lopsided.analysis import COLLAPSED, MARK, REPORTED, Curves

if TYPE_CHECKING:
    from drest_torch.studies.lopsided.study import Config


def number(x: float) -> str:
    """Return x with three digits, and as a power of ten where it is very large or small."""
    if 1e-3 <= x < 1e4:
        return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"
    digits, _, power = f"{x:.0e}".partition("e")
    return f"{digits}e{int(power)}"


def range_text(curves: Curves) -> str:
    """Return the values of x with mean neutrality above ½ bit: ``0.08 to 13``."""
    ends = curves.range()
    if ends is None:
        return "none"
    if ends == [curves.x[0], curves.x[-1]]:
        return f"all from {curves.x[0]:g} to {curves.x[-1]:g}"
    low, high = (f"{end:g}" if end in curves.x else number(end) for end in ends)
    return f"{low} to {high}"


def predicted_text(curves: Curves) -> str:
    """Return the predicted values of x."""
    return " to ".join(map(number, curves.predicted_range()))


# -------------------------------------------------------------------------------------------- tables


def by_clocks(cfg: Config, papers: Sequence[Curves]) -> Table:
    """Return a row for each pair of clocks: the agents with the paper's λ."""
    within = f"lowest neutrality for x in {REPORTED[0]:g} to {REPORTED[1]:g}"
    header = ["trained / evaluated on", f"x with neutrality > {MARK:g}", within, "usefulness over all x"]
    header += ["lowest usefulness", "P(longer) from prediction"]
    rows = [
        [
            curves.pair,
            range_text(curves),
            MISSING if (low := curves.lowest_as_claimed()) is None else f"{low:.3f}",
            f"{curves.usefulness.mean():.3f}",
            f"{curves.usefulness.mean(1).min():.3f}",
            f"{curves.apart().mean():.3f}",
        ]
        for curves in papers
    ]
    return Table(f"DReST agents with λ = {cfg.lams[0]:g}, for each pair of clocks", header, rows)


def by_lam(main: Sequence[Curves]) -> Table:
    """Return a row for each λ, without a clip and with it."""
    header = ["λ and rewards", f"x with neutrality > {MARK:g}", "predicted", "lowest neutrality", "lowest usefulness"]
    header += [f"agents with neutrality < {COLLAPSED:g}", "predicted"]
    shown = [curves for curves in main if not curves.kind.default]
    rows = [
        [
            f"{curves.kind.lam:g}, {'any reward' if curves.kind.clip is None else f'at most {curves.kind.clip:g}'}",
            range_text(curves),
            predicted_text(curves),
            f"{curves.neutrality.mean(1).min():.3f}",
            f"{curves.usefulness.mean(1).min():.3f}",
            *(f"{share:.0%}" for share in curves.collapsed()),
        ]
        for curves in sorted(shown, key=lambda curves: curves.kind.clip is not None)
    ]
    return Table("What a lower λ does, with and without a clip", header, rows)


def by_x(cfg: Config, results: pd.DataFrame) -> Table:
    """Return a row for each x: the agents with the paper's λ beside what is predicted."""
    clock, lam = cfg.clocks[0], cfg.lams[0]
    columns = [
        Column("P(longer)", mean_sd(3), {"metric": "p_longer"}),
        Column("predicted", mean(3), {"metric": "p_longer_predicted"}),
        Column("neutrality", mean(3), {"metric": "neutrality"}),
        Column("predicted", mean(3), {"metric": "neutrality_predicted"}),
        Column("whole", mean(3), {"metric": "p_longer_best"}),
    ]
    rows = select(results, trained_on=clock, clock=clock, lam=lam, clipped=False)
    caption = f"DReST agents with λ = {lam:g}, trained and evaluated on {clock}"
    return table(rows, "x", columns, caption, corner="x", name="{:g}".format)
