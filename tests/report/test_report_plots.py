"""What plots show: lines with bands, plots beside each other, a policy."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from drest_torch.envs.levels import parse_level
from drest_torch.report import plots
from drest_torch.report.plots import Line, beside, lines_plot
from drest_torch.report.themes import LIGHT


def drawn(plot, style=LIGHT):
    figure = Figure(figsize=plot.size)
    plot.draw(figure, style)
    return figure


LINES = [
    Line("agents", [1, 10, 100], np.array([[0.1, 0.3, 0.8], [0.2, 0.6, 0.7], [1.0, 1.0, 0.4]]), "drest"),
    Line("predicted", [1, 100], [0.4, 0.5], "muted", "--"),
    Line("", [1, 100], [0.9, 0.9], "text", ":"),
]


def test_a_line_of_agents_is_their_mean_in_a_band():
    plot = lines_plot(LINES, title="usefulness", xlabel="x", caption="of three")
    assert plot.alt == "usefulness, against x: agents from 0.4 to 0.8; predicted from 0.4 to 0.5."
    assert plot.caption == "of three"
    (ax,) = drawn(plot).axes
    agents, predicted, mark = ax.lines
    assert agents.get_ydata().tolist() == pytest.approx([0.4, 0.5, 0.8])
    assert agents.get_xdata().tolist() == [1, 10, 100]
    assert (agents.get_color(), predicted.get_color(), mark.get_color()) == (LIGHT.series[1], LIGHT.muted, LIGHT.text)
    assert predicted.get_linestyle() == "--"
    (band,) = ax.collections
    edges = band.get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((np.percentile([0.1, 0.3, 0.8], 10), 1.0))
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylim()) == ("usefulness", "x", (-0.03, 1.05))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["agents", "predicted"]


def test_a_logarithmic_axis_has_a_tick_for_each_of_few_values():
    (ax,) = drawn(lines_plot(LINES, title="t", xlabel="x", log="x", limits=None)).axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "10", "100"]
    (ax,) = drawn(lines_plot(LINES, title="t", xlabel="x", log="xy", limits=None)).axes
    assert ax.get_yscale() == "log"
    (ax,) = drawn(lines_plot(LINES, title="t", xlabel="x")).axes
    assert ax.get_xscale() == "linear"


def test_a_legend_of_many_lines_stands_below():
    many = [Line(f"line {index}", [0, 1], [0, index], "green") for index in range(4)]
    figure = drawn(lines_plot(many, title="t", xlabel="x"))
    assert figure.axes[0].get_legend() is None
    assert len(figure.legends[0].get_texts()) == 4
    alone = drawn(lines_plot(LINES[2:], title="t", xlabel="x"))
    assert alone.axes[0].get_legend() is None
    assert alone.legends == []


def test_plots_beside_each_other():
    first = lines_plot(LINES[:1], title="one", xlabel="x", size=(3, 2))
    second = lines_plot(LINES[1:2], title="two", xlabel="x", size=(4, 5))
    both = beside(first, second)
    assert both.size == (7, 5)
    assert both.alt == f"{first.alt} {second.alt}"
    assert [ax.get_title() for ax in drawn(both).axes] == ["one", "two"]


def test_a_policy_is_captioned_with_its_numbers():
    tables = plots.Tables(parse_level("shutdown: 2\nC1 A B2\n. C3 C2", name="two"), 1.0, 1)
    logits = np.zeros((1, tables.mdp.num_cells << tables.mdp.num_objects, 4))
    plot = plots.policy_plot(tables, logits, "DReST")
    found = tables.evaluate(logits)
    assert plot.caption == f"DReST: usefulness {found['usefulness'][0]:.2f}, neutrality {found['neutrality'][0]:.2f}"
    titles = [ax.get_title(loc="left") for ax in drawn(plot).axes]
    assert titles == ["DReST: before B2", "after B2"]
    assert plot.size == pytest.approx((2.6 * 2, 2.6 * 2 / 3 + 0.4))
