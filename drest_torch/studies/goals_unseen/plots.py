"""What every seed reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drest_torch.report.blocks import Plot
from drest_torch.studies.goals_report import goals_plot
from drest_torch.studies.study import Analysis

if TYPE_CHECKING:
    from drest_torch.studies.goals_unseen.study import Config


def plots(cfg: Config, analysis: Analysis) -> dict[str, Plot]:
    """Return a plot of all goals, where there are results."""
    return {"goals": goals_plot(analysis.extra, cfg.path)} if analysis.extra else {}
