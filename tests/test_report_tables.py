"""The tidy table of results, and the tables of a report made from it."""

from __future__ import annotations

import numpy as np
import pytest

from drest_torch.report.tables import (
    Column,
    at_least,
    below,
    grid,
    interval,
    marked,
    mean,
    mean_sd,
    median_range,
    pivot,
    select,
    table,
    values,
)
from drest_torch.statistics.intervals import t_interval
from drest_torch.studies.results import COLUMNS, Results


@pytest.fixture
def results():
    collected = Results("one", "lam", "size")
    for lam, size, final in ((0.5, 8, [0.1, 0.3]), (0.5, 64, [0.5, 0.5]), (0.9, 8, [0.9, 1.0])):
        collected.add(np.array(final), "neutrality", variant=f"{lam}-{size}", level="example", lam=lam, size=size)
        collected.add(1 - np.array(final), "usefulness", variant=f"{lam}-{size}", level="example", lam=lam, size=size)
    return collected.table()


# ------------------------------------------------------------------------------------------- tidy table


def test_each_value_is_a_row(results):
    assert list(results.columns) == ["study", "variant", "lam", "size", *COLUMNS[2:]]
    assert len(results) == 12
    row = results.iloc[1]
    assert (row.study, row.variant, row.lam, row["size"], row.seed) == ("one", "0.5-8", 0.5, 8, 1)
    assert (row.split, row.level, row.metric, row.value) == ("train", "example", "neutrality", 0.3)
    assert results["step"].isna().all()


def test_values_of_levels_and_of_curves_keep_their_places():
    collected = Results("one")
    collected.add([[1, 2, 3], [4, 5, 6]], "coins", variant="a", level=["x", "y", "z"], split="test", seeds=[7, 9])
    collected.add([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], "curve", variant="a", steps=[0, 10, 20])
    rows = collected.table()
    assert values(rows, metric="coins", seed=9, level="y").tolist() == [5]
    assert values(rows, metric="coins", level="z").tolist() == [3, 6]
    assert values(rows, metric="curve", step=10).tolist() == [0.3, 0.4]
    assert values(rows, metric="curve", seed=1).tolist() == [0.2, 0.4, 0.6]
    assert set(select(rows, metric="coins")["split"]) == {"test"}


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0.3, 0.1, 0.9], "0.30 (0.10 to 0.90)"),
        ([0.3001, 0.2999, float("nan")], "0.30"),
        ([1.0, float("inf"), float("inf")], "∞ (1.00 to ∞)"),
        ([-0.001, 0.001], "0.00"),
        ([float("nan")], "–"),
        ([], "–"),
    ],
)
def test_a_median_stands_with_the_lowest_and_the_highest_of_what_is_known(numbers, text):
    assert median_range(np.array(numbers), 2) == text


def test_a_study_without_results_has_an_empty_table_with_all_columns():
    rows = Results("one", "lam").table()
    assert list(rows.columns) == ["study", "variant", "lam", *COLUMNS[2:]]
    assert values(rows, lam=0.5, metric="neutrality").tolist() == []
    assert pivot(rows, "lam", "variant", mean(), "c", rows=[0.5], columns=["a"]).rows == [["0.5", "–"]]


def test_a_factor_that_was_not_declared_is_refused():
    with pytest.raises(ValueError, match=r"\['mu'\] are not among the factors of this table: \['lam'\]"):
        Results("one", "lam").add([1], "coins", variant="a", mu=1)


# ------------------------------------------------------------------------------------- report tables


def test_a_pivot_has_a_cell_for_each_pair(results):
    neutral = select(results, metric="neutrality")
    made = pivot(neutral, "lam", "size", mean(2), "Means", corner="λ", name="λ = {:g}".format, note="n")
    assert (made.caption, made.note) == ("Means", "n")
    assert list(made.header) == ["λ", "8", "64"]
    assert made.rows == [["λ = 0.5", "0.20", "0.50"], ["λ = 0.9", "0.95", "–"]]
    chosen = pivot(neutral, "lam", "size", mean(2), "Means", rows=[0.9, 0.1], columns=[64, 8])
    assert chosen.rows == [["0.9", "–", "0.95"], ["0.1", "–", "–"]]
    assert np.array_equal(
        grid(neutral, "lam", "size", [0.9, 0.5], [8, 64]), [[0.95, np.nan], [0.2, 0.5]], equal_nan=True
    )


def test_columns_of_a_table_have_their_own_cells_and_rows(results):
    columns = [
        Column("N", mean_sd(2), {"metric": "neutrality"}),
        Column("U ≥ 0.5", at_least(0.5), {"metric": "usefulness"}),
        Column("U < 0.9", below(0.9), {"metric": "usefulness"}),
    ]
    made = table(results, ["lam", "size"], columns, "c", name=lambda key: f"{key[0]:g}*{key[1]}")
    assert list(made.header) == ["", "N", "U ≥ 0.5", "U < 0.9"]
    assert made.rows == [
        ["0.5\\*8", "0.20 ± 0.14", "2 of 2", "1 of 2"],
        ["0.5\\*64", "0.50 ± 0.00", "2 of 2", "2 of 2"],
        ["0.9\\*8", "0.95 ± 0.07", "0 of 2", "2 of 2"],
    ]


@pytest.mark.parametrize(("value", "cell"), [(0.95, "✓ 0.95"), (0.90, "◐ 0.90"), (0.8, "✗ 0.80")])
def test_marks_say_how_good_a_mean_is(value, cell):
    assert marked(0.95, 0.9, 2)(np.array([value])) == cell


def test_an_interval_is_that_of_t_within_the_range_of_the_measure():
    sample = np.array([0.1, 0.5, 0.7])
    assert interval(2)(sample) == t_interval(sample).text(2)
    assert interval(2, least=0, most=1)(sample) == "0.43 (0.00-1.00)"
