"""Shapes of curves that claims test."""

import math

import pytest

from drest_torch.studies.shapes import falls, rises, within


@pytest.mark.parametrize(
    ("values", "tolerance", "expected"),
    [
        ([3, 2, 2, 1], 0, True),
        ([3, 2, 2.5, 1], 0, False),
        ([3, 2, 2.5, 1], 0.5, True),
        ([1, 1], 0, False),
        ([1, 2], 5, False),
    ],
)
def test_a_curve_falls(values, tolerance, expected):
    assert falls(values, tolerance) == expected
    assert rises([-value for value in values], tolerance) == expected


@pytest.mark.parametrize("values", [[1, math.nan, 0], [math.nan, 1]])
def test_a_curve_with_a_missing_value_has_no_shape(values):
    assert not falls(values)
    assert not rises(values)
    assert not within(values, 0, 10)


@pytest.mark.parametrize(("values", "expected"), [([1.0, 1.05], True), ([1.0, 1.2], False), ([], False)])
def test_values_lie_within_a_prediction(values, expected):
    assert within(values, 1, 0.1) == expected
