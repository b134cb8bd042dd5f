"""The four plots of the study: each measure against the factor by which m is wrong, for one length and for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.report.blocks import Plot
from drest_torch.report.plots import COLOURS
from drest_torch.report.style import Style
from drest_torch.report.tables import select
from drest_torch.studies.study import Analysis
from drest_torch.studies.unknown_m.analysis import MEASURES, level_means, means_of, predict, predicted_curve
from drest_torch.studies.unknown_m.study import TITLES, patient, with_known

if TYPE_CHECKING:
    from drest_torch.studies.unknown_m.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return a plot for each measure, and for a wrong m of the longer length and of both, where there are results."""
    if not analysis.findings["worlds"]:
        return {}
    kinds = {"longer": False, "both": True}
    return {
        f"{metric}_{kind}": factor_plot(cfg, analysis, metric, both)
        for kind, both in kinds.items()
        for metric in MEASURES
    }


def factor_plot(cfg: Config, analysis: Analysis, metric: str, both: bool) -> Plot:
    """Plot the mean of each world, that of all worlds, and the prediction against the factor of m."""
    variants, moves = with_known(cfg, both), select(analysis.results, clock="moves")
    factors = np.array(list(variants))
    values = means_of(moves, list(analysis.findings["worlds"]), variants.values(), metric)
    known = ~np.isnan(values).all(0)
    mean = np.array(
        [np.nanmean(column) if any_known else np.nan for column, any_known in zip(values.T, known, strict=True)]
    )
    fine = np.geomspace(factors.min(), factors.max(), 101)
    longer_training = [] if both else level_means(moves, patient(cfg).label, metric)

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        colour = COLOURS["drest"](style)
        for row in values:
            ax.plot(factors, row, color=colour, linewidth=0.8, alpha=0.45)
        ax.plot(factors, mean, color=colour, marker="o", markersize=4, linewidth=2, label="mean of the worlds")
        if metric == "neutrality":
            curve = predicted_curve(cfg, fine, both)
            ax.plot(fine, curve, color=style.text, linewidth=1.1, linestyle="--", label="predicted")
            if len(longer_training):
                label = f"mean, trained {cfg.patience} times as long"
                place = max(factors), np.mean(longer_training)
                ax.plot(*place, "o", color=colour, markerfacecolor="none", label=label)
        ax.set_xscale("log")
        ax.set_xticks(factors, [f"{factor:g}" for factor in factors])
        ax.minorticks_off()
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(TITLES[metric])
        ax.set_xlabel(f"f, by which m of {'both lengths' if both else 'the longer length'} is wrong")
        ax.legend(loc="lower right" if both or metric == "usefulness" else "lower center", fontsize=9)

    means = ", ".join(f"{y:.2f} at {x:g}" for x, y in zip(factors, mean, strict=True) if not np.isnan(y))
    alt = f"{TITLES[metric]} against the factor by which m is wrong, mean of the worlds: {means}."
    if metric == "neutrality":
        predictions = ", ".join(f"{predict(cfg, variant)[1]:.2f} at {x:g}" for x, variant in variants.items())
        alt += f" Predicted: {predictions}."
    return Plot(alt, "Faint lines are the worlds." if metric == "neutrality" else "", draw)
