"""Training curves and typical policies of each world, on the paper's pair of clocks."""

from __future__ import annotations

from typing import Any

from drest_torch.report.blocks import Plot
from drest_torch.studies.clock_pairs import curve_plot, typical_policy
from drest_torch.studies.study import Analysis
from drest_torch.studies.worlds.study import AS_REPORTED

METRICS = ("neutrality", "usefulness")


def plots(cfg: Any, analysis: Analysis) -> dict[str, Plot]:
    """Return for each world with results ``WORLD/METRIC`` and ``WORLD/REWARD``."""
    shown = {}
    for name, results in analysis.extra.items():
        if results:
            for metric in METRICS:
                shown[f"{name}/{metric}"] = curve_plot(cfg, results, "steps", AS_REPORTED, metric)
        for reward, result in results.items():
            shown[f"{name}/{reward}"] = typical_policy(name, cfg.training.gamma, result, reward)
    return shown
