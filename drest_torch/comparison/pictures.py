"""Pictures of runs: learning curves and performance profiles, one page each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drest_torch.comparison.aggregation import MEAN_OVER_SEEDS, OVER, Aggregation, profile
from drest_torch.comparison.configurations import configurations, curves_over_training, labels, splits_of
from drest_torch.comparison.records import RunRecord, title_of_split
from drest_torch.errors import UserError
from drest_torch.plots.curves import compare_curves
from drest_torch.plots.profiles import PROFILE_MEASURES, plot_profiles
from drest_torch.statistics.aggregates import SEEDS


def write_picture(
    path: Path,
    runs: Sequence[RunRecord],
    plot: str = "curves",
    choice: Aggregation = MEAN_OVER_SEEDS,
    across: str | None = None,
) -> None:
    """Write the learning curves or the performance profiles of runs."""
    compared = configurations(runs, across)
    names = labels(compared)
    titles = {split: title_of_split(split, runs) for split in splits_of(runs)}
    if plot == "curves":
        axis, curves = curves_over_training(compared)
        compare_curves(curves, names, path, axis, aggregate=choice.aggregate, titles=titles)
        return
    profiles = []
    for configuration in compared:
        by_axes = {}
        for split in titles:
            for measure in PROFILE_MEASURES:
                shares = profile(configuration, split, measure, choice)
                if shares is not None:
                    by_axes[split, measure] = shares
        profiles.append(by_axes)
    if not any(profiles):
        raise UserError(f"{path}: no run has scores; performance profiles need finished runs")
    over = "seeds" if OVER[choice.over] == (SEEDS,) else "seeds and levels"
    plot_profiles(profiles, names, titles, path, over)
