"""The benchmark of growing work: its theory, its stored rows and their page."""

import pytest

from benchmarks import growing
from benchmarks.growing import AXES, Cost, Theory, exponent, fitted
from benchmarks.page import parts_of
from benchmarks.run import PAGE
from drest_torch.config.compose import compose
from tests.helpers.documents import ROOT

LINEAR = Theory("n", lambda size: size)
SIZES = (1, 2, 4, 8)


def test_a_linear_cost_is_fitted():
    constant, factor = fitted(LINEAR, SIZES, [3.0 + 0.5 * size for size in SIZES])
    assert constant == pytest.approx(3.0)
    assert factor == pytest.approx(0.5)


def test_no_fitted_constant_is_negative():
    constant, factor = fitted(LINEAR, SIZES, [0.1, 0.5, 2.0, 8.0])
    assert constant == 0
    assert factor > 0


def test_an_exponent_is_fitted_to_the_largest_sizes():
    assert exponent(SIZES, [100.0, 4.0, 16.0, 64.0]) == 2.0


def test_rows_are_read_as_they_were_written(tmp_path):
    costs = [Cost("map", 4, 0.25, 0.5, 1.5, 32.0, 64.0)]
    growing.write(costs, tmp_path / "rows.csv")
    assert growing.read(tmp_path / "rows.csv") == costs


@pytest.mark.parametrize("name", AXES)
def test_each_axis_is_a_configuration(name, tmp_path):
    words = AXES[name].words(AXES[name].sizes[0], tmp_path)
    assert compose(*growing.BASE, *words).algo.name == "ppo"


def test_every_size_has_a_stored_row():
    stored = {(cost.axis, cost.size) for cost in growing.read(ROOT / growing.ROWS)}
    assert stored == {(name, size) for name, axis in AXES.items() for size in axis.sizes}


@pytest.mark.parametrize("name", AXES)
def test_the_page_shows_the_stored_rows(name):
    costs = [cost for cost in growing.read(ROOT / growing.ROWS) if cost.axis == name]
    page = parts_of((ROOT / PAGE).read_text("utf-8"))["growing"]
    *_, exponents, rows = growing.report(name, costs)
    assert exponents in page
    assert rows in page


def test_estimates_hold_within_the_stated_factors():
    for cost in growing.read(ROOT / growing.ROWS):
        assert 0.4 < cost.memory_mib / cost.estimate_mib < 1.2, cost


def test_figures_have_marks_for_all_sizes(tmp_path):
    growing.draw(growing.read(ROOT / growing.ROWS), tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"growing-{name}{ending}.svg" for name in AXES for ending in ("", "-dark")}
    assert all((ROOT / growing.IMAGES / name).is_file() for name in drawn)
