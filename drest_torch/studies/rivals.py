"""DReST beside its alternatives (section 8.1 of the paper): a part of the study `goals`, compared seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, groupby

import numpy as np
import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import PALETTE, Line, beside, lines_plot
from drest_torch.statistics.intervals import Interval, t_interval
from drest_torch.studies.engine import Quote, as_table
from drest_torch.studies.scores import METRICS, Score

FIRST = "DReST"
"""What the others are compared with."""
BIT = "private_bits"
"""Agents with this among their arguments are no alternative."""
LONGER = "p_longer"
"""P(longer) in the tidy table."""
CLEARLY = 0.005
"""Differences in the mean of usefulness and neutrality below this count as none."""
SHORT = 0.9
"""Levels with less neutrality are counted."""
CORNER = 0.8
"""From where on both measures are shown enlarged."""
SHAPES = "osD^v<>PX*hdp"


def seed_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over levels by title and seed, a column for each metric, and how many levels are ``short``."""
    means = rows.assign(value=rows.value.map(np.mean)).set_index(["title", "seed", "metric"]).value.unstack("metric")
    neutrality = rows[rows.metric == METRICS["neutrality"]].set_index(["title", "seed"]).value
    means["short"] = neutrality.map(lambda levels: np.mean(levels < SHORT))
    return means.loc[rows.title.unique()]


def differences(means: pd.DataFrame) -> dict[str, Interval]:
    """Return by title (U + N) / 2 less that of DReST, seed by seed, with its interval."""
    score = means[["usefulness", METRICS["neutrality"]]].mean(axis=1)
    apart = score - score.loc[FIRST].reindex(score.index, level="seed")
    return {title: t_interval(each.dropna()) for title, each in apart.groupby("title", sort=False)}


def sides(rows: pd.DataFrame, goals: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, float]]:
    """Return the alternatives that are better than DReST, alike and worse, and by how much; {} without DReST."""
    if FIRST not in {*rows.title}:
        return {}
    found: dict[str, dict[str, float]] = {"better": {}, "alike": {}, "worse": {}}
    for title, it in differences(seed_means(rows)).items():
        if title != FIRST and not goals[title].get("seeds") and BIT not in str(goals[title]["arguments"]):
            clear = abs(it.estimate) >= CLEARLY and not it.low <= 0 <= it.high
            side = "alike" if not clear else "better" if it.estimate > 0 else "worse"
            found[side][title] = abs(it.estimate)
    return found


def quotes(rows: pd.DataFrame, goals: Mapping[str, Mapping[str, object]]) -> list[Quote]:
    """Return how many are on each side."""
    words = [
        f"{len(titles)} {side}" + (f" (by at most {max(titles.values()):.3f})" if titles else "")
        for side, titles in sides(rows, goals).items()
    ]
    return [Quote("alternatives to DReST on unseen levels, U and N", "", ", ".join(words))] if words else []


def rivals_table(rows: pd.DataFrame) -> Table:
    """Return what each has, and its difference to DReST."""
    means = seed_means(rows)
    columns = {
        METRICS["usefulness"]: "usefulness",
        METRICS["neutrality"]: "neutrality ÷ log2 k",
        METRICS["neutrality_own"]: "given the bit",
        "short": f"share of levels with N < {SHORT:g}",
        LONGER: "P(longer)",
    }

    def cell(values: pd.Series) -> str:
        return t_interval(values).within(0, 1).text() if len(values) > 1 else f"{values.iloc[0]:.3f}"

    cells = means.groupby("title", sort=False)[[*columns]].agg(cell)
    cells["apart"] = [
        "" if title == FIRST else f"{it.estimate:+.3f} ({it.low:+.3f} to {it.high:+.3f})"
        for title, it in differences(means).items()
    ]
    return as_table(cells, "On unseen levels", ["objective", *columns.values(), "(U + N) / 2, less DReST's"])


def frontier(made: Sequence[Score]) -> Plot:
    """Plot usefulness against neutrality on unseen levels, a curve over strengths for each objective."""
    plain = [score for score in made if BIT not in score.arguments]
    curves = [[*curve] for _, curve in groupby(plain, lambda score: score.arguments.rpartition("=")[0])]

    def of(least: float, title: str) -> Plot:
        lines = []
        for curve, colour, shape in zip(curves, cycle(PALETTE), cycle(SHAPES), strict=False):
            points = sorted((np.mean(it.neutrality), np.mean(it.usefulness)) for it in curve)
            inside = [point for point in points if min(point) >= least]
            neutral, useful = [n for n, _ in inside], [u for _, u in inside]
            lines += [Line(curve[0].title, neutral, useful, colour, f"{shape}-")] if inside else []
        limits = (least - 0.01, 1.01)
        return lines_plot(lines, title=title, xlabel="neutrality", limits=limits, size=(4.8, 5.2))

    return beside(of(0.0, "usefulness"), of(CORNER, "usefulness, enlarged"))
