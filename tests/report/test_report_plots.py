"""What plots of reports show: lines with bands, rows of intervals, plots beside each other."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from drest_torch.envs.levels import parse_level
from drest_torch.report import plots
from drest_torch.report.plots import Line, beside, dots, lines_plot
from drest_torch.report.themes import LIGHT
from drest_torch.statistics.intervals import Interval


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


SERIES = {
    "own": {"a": Interval(0.5, 0.25, 2.0), "b": Interval(3.0, 2.0, np.inf), "c": Interval(np.nan, 0, np.inf)},
    "common": {"b": Interval(8.0, 4.0, 12.0), "d": Interval(np.inf, 1.0, np.inf), "a": Interval(0.0, 0.0, 0.1)},
}


def test_rows_of_intervals_on_a_logarithmic_axis():
    """Nothing is shown of what is not finite, or not above 0."""
    plot = dots(SERIES, title="ratio", lines={1: "-", 1.5: "--"})
    assert "own from 0.50 to 3.00; common from 8.00 to 8.00" in plot.alt
    assert "a row for each of a, b, c, d" in plot.alt
    figure = drawn(plot)
    (ax,) = figure.axes
    assert ax.get_xscale() == "log"
    left, right = ax.get_xlim()
    assert (left, right) == pytest.approx((1 / (1.15 * 16), 1.15 * 16))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c", "d"]
    assert ax.get_ylim() == (3.5, -0.5)  # the first row on top
    shown = [(np.atleast_1d(line.get_xdata()).tolist(), np.atleast_1d(line.get_ydata()).tolist()) for line in ax.lines]
    assert ([0.25, 2.0], pytest.approx([-0.085, -0.085])) in shown
    assert ([2.0, pytest.approx(right)], pytest.approx([0.915, 0.915])) in shown  # an end beyond the plot is cut
    assert ([8.0], [pytest.approx(1.085)]) in shown
    assert len([1 for x, _ in shown if len(x) == 1 and x[0] in (0.5, 3.0, 8.0)]) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["own", "common"]


def test_rows_of_intervals_within_limits():
    shares = {"N": {"x": Interval(0.0, 0.0, 0.3)}, "U": {"x": Interval(0.9, 0.6, 1.2)}}
    plot = dots(shares, title="t", lines={0.95: "--"}, limits=(0, 1), colours=("default", "drest"))
    assert "N from 0.00 to 0.00; U from 0.90 to 0.90" in plot.alt  # a zero can be shown here
    (ax,) = drawn(plot).axes
    assert ax.get_xscale() == "linear"
    assert ax.get_xlim() == pytest.approx((-0.03, 1.03))
    segments = {tuple(line.get_xdata()): to_hex(line.get_color()) for line in ax.lines if len(line.get_xdata()) == 2}
    assert segments[0.0, 0.3] == to_hex(LIGHT.series[0])
    assert segments[0.6, 1.0] == to_hex(LIGHT.series[1])
    with pytest.raises(ValueError, match="needs a row"):
        dots({"N": {}}, title="t", lines={})


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
