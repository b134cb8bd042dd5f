"""The figures and tables of the study of generalization."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from drest_torch.report.blocks import Plot
from drest_torch.report.figures import RANGE, curve_figure, curves_of
from drest_torch.studies.generalization.evaluation import MEASURES, TRAINING, UNSEEN
from drest_torch.studies.generalization.runs import FOLLOWUP_LIKE, PPO, SYMMETRIC

UNITS = {"usefulness": "usefulness", "neutrality": "neutrality, bits"}
K = "number of training levels, k"


def of_part(rows: pd.DataFrame, part: str, **where: Any) -> pd.DataFrame:
    """Return the rows of a part, with these values in their columns."""
    chosen = rows[rows.part == part].dropna(axis=1, how="all")
    for column, wanted in where.items():
        chosen = chosen[chosen[column] == wanted]
    return chosen


def curve_ends(rows: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Return what agents of the curve reach, by the number of training levels."""
    return of_part(rows, "end", network=SYMMETRIC, kind=FOLLOWUP_LIKE, **where)


def by_number(rows: pd.DataFrame, metric: str) -> Plot:
    """Plot what PPO reaches on training and unseen levels, by the number of training levels."""
    colours = {TRAINING: "muted", UNSEEN: "drest"}
    labels = {name: f"{name} levels" for name in colours}
    ends = curve_ends(rows, agent=PPO)
    curves = curves_of(ends, x="levels", y=metric, by="set", spread=RANGE, colours=colours, labels=labels)
    return curve_figure(curves, title="PPO, training and unseen levels", xlabel=K, ylabel=UNITS[metric], log="x")


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {
    **{f"{metric}_by_number": partial(by_number, metric=metric) for metric in MEASURES},
}
