"""Figures and tables of the study."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from drest_torch.report.blocks import Plot, Table
from drest_torch.report.figures import RANGE, curve_figure, curves_of


def profile(rows: pd.DataFrame) -> Plot:
    """Plot the performance profile of each objective."""
    points = rows[rows.part == "profile"]
    curves = curves_of(points, x="tau", y="share", by="objective", spread=RANGE, look="-")
    title, ylabel = "Performance profile, unseen levels", "share of levels with neutrality ≥ τ"
    return curve_figure(curves, title=title, xlabel="τ, bits", ylabel=ylabel)


FIGURES: dict[str, Callable[[pd.DataFrame], Plot]] = {"profile": profile}
TABLES: dict[str, Callable[[pd.DataFrame], Table]] = {}
