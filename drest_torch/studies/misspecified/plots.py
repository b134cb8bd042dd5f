"""P(longer) against what wrong values make of it, and neutrality against what is left of the goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.style import Style
from drest_torch.studies.misspecified.analysis import LOST, NEUTRAL, Kind, Row
from drest_torch.studies.study import Analysis
from drest_torch.theory import balance

if TYPE_CHECKING:
    from drest_torch.studies.misspecified.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return the picture of the study: one panel for each way to a wrong goal."""
    rows, kinds = analysis.extra
    several = [part for part in (rows, kinds) if part]
    if not several:
        return {}

    def draw(figure: Figure, style: Style) -> None:
        axes = iter(np.atleast_1d(figure.subplots(1, len(several))))
        if rows:
            _draw_worlds(next(axes), style, rows, cfg.climb["reward"])
        if kinds:
            _draw_kinds(next(axes), style, kinds)

    alt = " ".join([*([_worlds_text(rows)] if rows else []), *([_kinds_text(kinds)] if kinds else [])])
    return {"both": Plot(alt, "", draw, (4.6 * len(several), 3.8))}


def _worlds_text(rows: list[Row]) -> str:
    most = max(row.error for row in rows)
    return f"P(longer) against the ratio x lies on the predicted curve: no run is further away from it than {most:.3f}."


def _kinds_text(kinds: list[Kind]) -> str:
    ends = "; ".join(
        f"{kind.title} U {kind.mean('reversed/usefulness').mean():.2f}, N {kind.mean('reversed/neutrality').mean():.2f}"
        for kind in kinds
    )
    return f"Neutrality against usefulness where the feature misleads, means over seeds: {ends}."


def _draw_worlds(ax, style: Style, rows: list[Row], reward: Any) -> None:  # type: ignore[no-untyped-def]
    x = np.geomspace(min(0.1, *(row.x for row in rows)), max(10.0, *(row.x for row in rows)), 200)
    ax.plot(
        x,
        balance(1.0, torch.from_numpy(x), reward["lam"], reward["episodes_per_meta"]).numpy(),
        color=style.muted,
        label="predicted, b(x)",
    )
    for index, (divisor, marker) in enumerate((("paid", "o"), ("actual", "s"))):
        several = [row for row in rows if row.divisor == divisor]
        found = [row.found for row in several]
        ax.plot(
            [row.x for row in several],
            found,
            marker,
            color=style.series[index],
            alpha=0.7,
            label=f"m of {divisor} coins",
        )
    ax.set_xscale("log")
    ax.set_ylim(0, 1)
    ax.set_xlabel("x, what the longer length pays ÷ the shorter")
    ax.set_ylabel("P(longer)")
    ax.set_title("Wrong coin values", fontsize=10)
    ax.legend(fontsize=8)


def _draw_kinds(ax, style: Style, kinds: list[Kind]) -> None:  # type: ignore[no-untyped-def]
    for index, kind in enumerate(kinds):
        colour = style.series[index % len(style.series)]
        points = [
            (kind.mean(f"{order}/usefulness"), kind.mean(f"{order}/neutrality")) for order in ("coincides", "reversed")
        ]
        for before, after in zip(*(np.stack(pair, -1) for pair in points), strict=True):
            ax.plot(*zip(before, after, strict=True), color=colour, alpha=0.25, linewidth=1)
        ax.plot(*points[0], "o", markerfacecolor="none", color=colour)
        ax.plot(*points[1], "o", color=colour, label=kind.title)
    ax.axvline(LOST, color=style.grid, zorder=0)
    ax.axhline(NEUTRAL, color=style.grid, zorder=0)
    ax.set_xlim(0, 1.03)
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("usefulness on test levels")
    ax.set_ylabel("neutrality on test levels")
    ax.set_title("A goal that generalises wrongly", fontsize=10)
    ax.legend(fontsize=8, loc="center left")
