"""The tables of the study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drest_torch.choices.arms import ARMS
from drest_torch.envs.levels import PAPER_WORLDS
from drest_torch.jobs.job import Result
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.statistics.bootstrap import Interval
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.alternatives.predictions import Row, scores

if TYPE_CHECKING:
    from drest_torch.studies.alternatives.points import Point
    from drest_torch.studies.alternatives.study import Config

USEFUL = 0.95
"""The usefulness that a price on divergence has to keep, for its best neutrality."""


def closed_table(rows: Sequence[Row]) -> Table:
    """Return each closed form beside what was found."""
    made = [
        [
            literal(row.method),
            literal(row.what),
            f"{row.predicted:.3f}",
            f"{row.found:.3f}",
            f"± {row.within:g}",
            "✓ yes" if row.holds else "✗ no",
        ]
        for row in rows
    ]
    return Table(
        "Closed forms, and what exact gradients come to", ["method", "what", "predicted", "found", "within", ""], made
    )


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


def pays_table(arms: Mapping[str, Mapping[str, np.ndarray]]) -> Table:
    """Return what agents that were trained in menus of lotteries pay."""
    suites = {
        "main": "pays, later",
        "shift_earlier": "pays, earlier",
        "joint_noshift": "pays, no shift",
        "dominance": "takes what dominates",
    }
    rows = [
        [
            literal(ARMS[arm].title),
            *(f"{np.median(arrays[name]):.1%}" for name in suites),
            f"{np.median(arrays['usefulness']):.3f}",
            f"{np.median(arrays['neutrality']):.3f}",
        ]
        for arm, arrays in arms.items()
    ]
    header = ["trained for", *suites.values(), "usefulness", "neutrality"]
    return Table("Menus of lotteries: who pays for a shift of the length", header, rows)


def reference_table(cfg: Config, soft: Result | None) -> Table:
    """Return the best neutrality with enough usefulness over β, for each reference and world."""
    rows = []
    for reference in cfg.references if soft is not None else ():
        assert soft is not None
        best = soft.arrays["best_return"]
        found = [
            scores({"probability": p, "given": given, "best_return": best})
            for p, given in zip(soft.arrays[f"{reference}/probability"], soft.arrays[f"{reference}/given"], strict=True)
        ]
        useful, neutral = (np.stack(each) for each in zip(*found, strict=True))
        most = np.where(useful >= USEFUL, neutral, -1).max(0)
        rows.append([reference, *("–" if each < 0 else f"{each:.3f}" for each in most)])
    return Table(f"The best neutrality over β that keeps usefulness at {USEFUL:g}", ["reference", *PAPER_WORLDS], rows)


def _mean(values: np.ndarray) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    it: Any = t_interval(values)
    return f"{it.estimate:.3f} ({it.low:.3f}–{min(it.high, 1):.3f})"
