"""A policy as a plot."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from drest_torch.envs.levels import parse_level
from drest_torch.report import plots
from drest_torch.report.themes import LIGHT


def drawn(plot, style=LIGHT):
    figure = Figure(figsize=plot.size)
    plot.draw(figure, style)
    return figure


def test_the_caption_of_a_policy_has_its_metrics():
    tables = plots.Tables(parse_level("shutdown: 2\nC1 A B2\n. C3 C2", name="two"), 1.0, 1)
    logits = np.zeros((1, tables.mdp.num_cells << tables.mdp.num_objects, 4))
    plot = plots.policy_plot(tables, logits, "DReST")
    metrics = tables.evaluate(logits)
    usefulness, neutrality = metrics["usefulness"][0], metrics["neutrality"][0]
    assert plot.caption == f"DReST: usefulness {usefulness:.2f}, neutrality {neutrality:.2f}"
    titles = [ax.get_title(loc="left") for ax in drawn(plot).axes]
    assert titles == ["DReST: before B2", "after B2"]
    assert plot.size == pytest.approx((2.6 * 2, 2.6 * 2 / 3 + 0.4))
