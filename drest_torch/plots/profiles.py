"""Performance profiles of several configurations: the share of scores that reach each threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from drest_torch.errors import printable
from drest_torch.plots.style import BAND, GREY, Colour, distinct_colours, legend_below, tidy, write_figure
from drest_torch.statistics.aggregates import Profile

PROFILE_MEASURES = {"usefulness": "usefulness", "neutrality_normalised": "normalised neutrality"}
"""Titles of the measures from 0 to 1 that a profile shows."""


def plot_profiles(
    profiles: Sequence[Mapping[tuple[str, str], Profile]],
    names: Sequence[str],
    titles: Mapping[str, str],
    picture: Path,
    over: str,
) -> None:
    """Plot performance profiles, with a row for each split and a colour for each configuration.

    ``profiles`` are those of each configuration by split and measure; ``over`` says what the intervals are over.
    """
    splits = [split for split in titles if any((split, measure) in p for p in profiles for measure in PROFILE_MEASURES)]
    legend_rows = len(names) // 2 + 1
    figure = Figure(figsize=(10, 0.4 + 2.9 * len(splits) + 0.22 * legend_rows), facecolor="white")
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    axes = figure.subplots(len(splits), len(PROFILE_MEASURES), squeeze=False, sharex=True, sharey=True)
    colours = distinct_colours(len(names))
    for split, row in zip(splits, axes, strict=True):
        for (measure, title), ax in zip(PROFILE_MEASURES.items(), row, strict=True):
            for colour, by_axes in zip(colours, profiles, strict=True):
                _plot_profile(ax, by_axes.get((split, measure)), colour)
            tidy(ax, printable(f"{title}, {titles[split]}"), size=10)
            ax.xaxis.set_major_formatter("{x:.1f}")
            ax.set(xlim=(-0.02, 1.02), ylim=(-0.03, 1.05))
    for ax in axes[-1]:
        ax.set_xlabel("threshold τ", fontsize=9, color=GREY)
    for ax in axes[:, 0]:
        ax.set_ylabel("share of scores ≥ τ", fontsize=9, color=GREY)
    legend_below(figure, axes[0][0].lines, names, f"band: 95 % interval over {over}")
    write_figure(figure, picture)


def _plot_profile(ax: Axes, profile: Profile | None, colour: Colour) -> None:
    """Plot a profile in its band; an absent one is an empty line, for the legend."""
    if profile is None:
        ax.plot([], [], color=colour, linewidth=1.8)
        return
    ax.plot(profile.thresholds, profile.share, color=colour, linewidth=1.8, alpha=0.85)
    ax.fill_between(profile.thresholds, profile.low, profile.high, color=colour, alpha=BAND, linewidth=0)
