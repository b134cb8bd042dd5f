"""The tables of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.statistics.bootstrap import Interval
from drest_torch.statistics.intervals import t_interval

if TYPE_CHECKING:
    from drest_torch.studies.alternatives.points import Point
    from drest_torch.studies.alternatives.study import Config


def unseen_table(cfg: Config, points: Mapping[str, Point], apart: Mapping[str, Interval]) -> Table:
    """Return all agents on unseen levels."""
    rows = []
    for title, each in points.items():
        difference = apart.get(title)
        rows.append(
            [
                literal(title),
                "" if each.value is None else f"{cfg.rivals[title]['strength'].split('.')[-1]}={each.value:g}",
                _mean(each.useful),
                _mean(each.neutral),
                _mean(each.own),
                "–" if np.isnan(each.short).any() else f"{each.short.mean():.0%}",
                ""
                if difference is None or title == "DReST"
                else f"{difference.estimate:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})",
                f"{each.seconds:.0f}",
            ]
        )
    header = [
        "objective",
        "strength",
        "usefulness",
        "neutrality",
        "given the bit",
        "levels with N < 0.9",
        "(U + N) / 2, less DReST's",
        "seconds",
    ]
    return Table("On unseen levels", header, rows)


def strength_table(cfg: Config, curves: Mapping[str, Sequence[Point]]) -> Table:
    """Return usefulness and neutrality of each rival at each strength."""
    rows = [
        [
            literal(title),
            f"{cfg.rivals[title]['strength'].split('.')[-1]}={each.value:g}",
            f"{each.useful.mean():.3f}",
            f"{each.neutral.mean():.3f}",
            str(len(each.useful)),
        ]
        for title, curve in curves.items()
        if len(curve) > 1
        for each in curve
    ]
    return Table("Over strengths", ["objective", "strength", "usefulness", "neutrality", "agents"], rows)


def reach(curve: Sequence[Point], wanted: float) -> list[float]:
    """Return how many strengths reach both, of how many, and the ratio of the largest that does to the smallest."""
    good = [each.value for each in curve if min(each.useful.mean(), each.neutral.mean()) >= wanted]
    known = [value for value in good if value]
    return [len(good), len(curve), max(known) / min(known) if known else 0.0]


def _mean(values: np.ndarray) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    it: Any = t_interval(values)
    return f"{it.estimate:.3f} ({it.low:.3f}–{min(it.high, 1):.3f})"
