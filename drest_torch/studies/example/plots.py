"""Training curves on each pair of clocks, the collapse on every step, and typical policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from drest_torch.jobs.job import Result
from drest_torch.jobs.tabular_job import p_longest
from drest_torch.report.blocks import Plot
from drest_torch.report.plots import Curves, training_plot
from drest_torch.report.style import Style
from drest_torch.studies.clock_pairs import CLOCKS, CURVES, REWARDS, curve_plot, typical_policy
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.example.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return ``METRIC, CLOCKS``, ``policy, REWARD``, and two plots of DReST agents on the clock of every step."""
    runs: dict[tuple[str, str], Result] = analysis.extra
    shown = {}
    for (trained, evaluated), pair in CLOCKS.items():
        results = {reward: runs[trained, reward] for reward in REWARDS if (trained, reward) in runs}
        if results:
            for metric in CURVES:
                shown[f"{metric}, {pair}"] = curve_plot(cfg, results, evaluated, pair, metric)
    if (collapsing := runs.get(("steps", "drest"))) is not None:
        shown["p_longer"] = log_p_longer(cfg, collapsing)
        shown["share_of_best"] = share_of_best(cfg, collapsing)
    for reward in REWARDS:
        if (result := runs.get(("moves", reward))) is not None:
            shown[f"policy, {reward}"] = typical_policy(cfg.world, cfg.training.gamma, result, reward)
    return shown


def log_p_longer(cfg: Config, result: Result) -> Plot:
    """Plot P(longer) on a logarithmic scale."""
    p = np.maximum(p_longest(result, "steps"), 1e-12)
    return training_plot(
        result.arrays["episodes"] / cfg.training.episodes_per_meta,
        [Curves("DReST", "drest", p)],
        title="P(longer), steps / steps",
        xlabel="meta-episodes",
        alt=f"P(longer) on a logarithmic scale; the median agent ends at {np.median(p[-1]):.1g}.",
        limits=None,
        log=True,
    )


def share_of_best(cfg: Config, result: Result) -> Plot:
    """Plot the share of m(l) that agents collect when they choose the shortest and the longest length."""
    shares = result.arrays["steps/share_of_best"].astype(float)
    lengths = result.numbers["lengths"]

    def draw(figure: Figure, style: Style) -> None:
        ax = figure.add_subplot()
        metas = result.arrays["episodes"] / cfg.training.episodes_per_meta
        for column, colour in ((0, style.series[2]), (-1, style.series[4])):
            ax.plot(metas, shares[:, :, column].mean(1), color=colour, label=f"length {lengths[column]}")
        ax.set_title("share of m(l) collected, given the length")
        ax.set_xlabel("meta-episodes")
        ax.set_ylim(-0.03, 1.03)
        ax.legend(loc="best")

    ends = ", ".join(f"length {length}: {shares[-1, :, i].mean():.2f}" for i, length in enumerate(lengths))
    return Plot(alt=f"Share of the best return collected given each length; at the end {ends}.", caption="", draw=draw)
