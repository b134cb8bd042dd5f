"""Figures of studies: the values that are plotted, and a legend that explains each mark."""

import re

import numpy as np
import pandas as pd
import pytest

from drest_torch.report.figures import (
    AGENTS,
    CONFIDENCE,
    EXACT,
    RANGE,
    WORST_CASE,
    Curve,
    curve_figure,
    curves_of,
    dot_figure,
    dots_of,
    profile_of,
)
from drest_torch.report.html import plot_picture

SPREADS = (CONFIDENCE, RANGE, AGENTS, WORST_CASE)
ROWS = pd.DataFrame(
    {"k": [1, 1, 1, 4, 4, 4], "seed": [0, 1, 2] * 2, "split": "test", "value": [0.1, 0.2, 0.6, 0.5, 0.5, 0.8]}
)
AXES = {"title": "Worlds", "xlabel": "levels", "ylabel": "neutrality"}


def texts(plot):
    return re.findall(r"<text[^>]*>([^<]*)</text>", str(plot_picture(plot, "p").elements))


def curves(spread):
    return curves_of(ROWS, x="k", y="value", by="split", spread=spread)


def test_a_curve_has_the_mean_of_its_seeds():
    (curve,) = curves(RANGE)
    assert curve.x.tolist() == [1, 4]
    assert curve.y == pytest.approx([0.3, 0.6])


@pytest.mark.parametrize(
    ("spread", "low", "high"),
    [(RANGE, [0.1, 0.5], [0.6, 0.8]), (WORST_CASE, [0.1, 0.5], [0.3, 0.6]), (AGENTS, [0.12, 0.5], [0.52, 0.74])],
    ids=["range", "worst case", "agents"],
)
def test_a_curve_has_the_spread_of_its_seeds(spread, low, high):
    (curve,) = curves(spread)
    assert curve.low == pytest.approx(low)
    assert curve.high == pytest.approx(high)


def test_a_confidence_interval_is_student_t():
    (curve,) = curves(CONFIDENCE)
    half = 4.303 * np.std([0.1, 0.2, 0.6], ddof=1) / np.sqrt(3)
    assert curve.high[0] - curve.y[0] == pytest.approx(half, rel=1e-3)


def test_summarised_rows_keep_their_interval():
    rows = pd.DataFrame({"k": [1, 4], "split": "test", "value": [0.3, 0.6], "low": [0.2, 0.5], "high": [0.4, 0.9]})
    (curve,) = curves_of(rows, x="k", y="value", by="split", spread=AGENTS)
    assert curve.low.tolist() == [0.2, 0.5]
    assert curve.high.tolist() == [0.4, 0.9]


def test_each_kind_of_spread_has_its_own_mark():
    marks = {(spread.marker, spread.end, str(spread.dashes)) for spread in SPREADS}
    bands = {(spread.fill, spread.edge, str(spread.dashes)) for spread in SPREADS}
    assert len(marks) == len(bands) == len({spread.meaning for spread in SPREADS}) == len(SPREADS)


@pytest.mark.parametrize("spread", SPREADS, ids=lambda spread: spread.meaning)
def test_a_legend_names_the_spread_of_curves(spread):
    labels = texts(curve_figure(curves(spread), **AXES))
    assert {spread.meaning, "test", *AXES.values()} <= {*labels}


@pytest.mark.parametrize("spread", SPREADS, ids=lambda spread: spread.meaning)
def test_a_legend_names_the_spread_of_dots(spread):
    dots = dots_of(ROWS, row="k", value="value", by="split", spread=spread)
    labels = texts(dot_figure(dots, lines={0.5: "half"}, **AXES))
    assert {spread.meaning, "test", "half", "1", "4", *AXES.values()} <= {*labels}


def test_an_exact_curve_needs_no_mark_for_its_spread():
    figure = curve_figure([Curve("p", [0, 1], [0, 1], spread=EXACT)], **AXES)
    assert [text for text in texts(figure) if "mean" in text] == []


def test_a_curve_without_a_label_is_refused():
    with pytest.raises(ValueError, match="needs a label"):
        Curve(" ", [0], [0])


@pytest.mark.parametrize("plot", [lambda: curve_figure([], **AXES), lambda: dot_figure([], **AXES)])
def test_an_empty_figure_is_refused(plot):
    with pytest.raises(ValueError, match="the figure 'Worlds' has no"):
        plot()


def test_a_profile_is_the_share_of_levels_above_each_threshold():
    rows = pd.DataFrame({"k": 4, "seed": [0, 0, 0, 0, 1, 1], "value": [0.0, 0.5, 0.5, 1.0, 1.0, 0.2]})
    (curve,) = profile_of(rows, value="value", by="k", spread=RANGE, points=5)
    assert curve.x.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert curve.low == pytest.approx([1, 0.5, 0.5, 0.25, 0.25])
    assert curve.high == pytest.approx([1, 0.75, 0.75, 0.5, 0.5])
    assert curve.y == pytest.approx([1, 0.625, 0.625, 0.375, 0.375])


def test_a_long_legend_makes_the_figure_higher():
    few, many = (curve_figure([Curve(f"a long label {n}", [0], [0]) for n in range(size)], **AXES) for size in (2, 12))
    assert many.size[1] > few.size[1] + 0.5
    assert many.size[0] == few.size[0]
