"""λ × E: the runs, the rows of a small table, and rows that refute each claim."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from drest_torch.studies import lambda_meta as study
from drest_torch.studies.engine import Done
from tests.helpers.studies import composed_study, table_ends

CFG = composed_study(
    "lambda_meta",
    "study.lams=[0.5,0.9,0.99]",
    "study.sizes=[8,64,256]",
    "study.agents=2",
    "study.mini_episodes=2048",
    "study.unclipped=[[0.5,256],[0.9,64]]",
)
LAMS, SIZES = list(CFG.lams), list(CFG.sizes)
NEUTRALITY = [[0.95, 0.991, 0.993], [0.5, 0.995, 0.98], [0.05, 0.3, 0.97]]
USEFULNESS = {
    "steps": [[0.80, 0.70, 0.60], [0.90, 0.86, 0.85], [0.88, 0.89, 0.94]],
    "moves": [[0.95, 0.91, 0.80], [0.99, 0.992, 0.995], [0.97, 0.96, 0.98]],
}
UNCLIPPED = {(0.5, 256): ((0.05, 0.5), (0.9, 0.92)), (0.9, 64): ((0.99, 0.98), (0.94, 0.92))}
"""Neutrality and usefulness of both agents, by λ and E."""


def result(key):
    if not key.clipped:
        agents = *UNCLIPPED[key.lam, key.size], (0.5, 0.5)
        return table_ends({"moves": agents, "steps": agents})
    row, column = LAMS.index(key.lam), SIZES.index(key.size)
    n = NEUTRALITY[row][column]
    ends = {}
    for clock, table in USEFULNESS.items():
        u = table[row][column]
        ends[clock] = ((n - 0.01, n + 0.01), (u - 0.001, u + 0.001), (0.3, 0.4))
    return table_ends(ends)


@pytest.fixture(scope="module")
def rows():
    planned = study.jobs(CFG)
    results = {job.digest(): result(key) for key, job in planned.items()}
    return study.rows(CFG, Done(planned, SimpleNamespace(get=lambda job: results[job.digest()])))


def changed(rows, metric, lam, size, number):
    """Return rows in which the clipped agents of a pair have this value."""
    cell = rows.clipped & (rows.lam == lam) & (rows["size"] == size)
    return rows.assign(**{metric: rows[metric].mask(cell, number)})


def test_every_agent_has_the_same_budget_of_mini_episodes():
    cfg = composed_study("lambda_meta")
    planned = study.jobs(cfg)
    assert len(planned) == 40 + 7
    for key, job in planned.items():
        training = job.spec["training"]
        assert training["meta_episodes"] * key.size == cfg.mini_episodes
        assert training["evaluate_every"] >= training["meta_episodes"]
        assert training["lam"] == key.lam
        assert (training["clip"] is not None) == key.clipped


def test_every_agent_has_a_row_for_each_clock(rows):
    assert len(rows) == (9 + 2) * 2 * 2
    cell = rows[rows.clipped & (rows.lam == 0.9) & (rows["size"] == 8)]
    assert cell.groupby("clock").neutrality.apply(list).to_dict() == {"steps": [0.49, 0.51], "moves": [0.49, 0.51]}
    assert cell[cell.clock == "moves"].usefulness.tolist() == pytest.approx([0.989, 0.991])
    assert cell[cell.clock == "moves"].seed.tolist() == [0, 1]


def test_a_corner_is_compared_with_the_rest():
    table = pd.DataFrame(np.arange(12.0).reshape(3, 4))
    assert study.corner(table, study.WEAK) == ((4 + 5 + 8 + 9) / 4, (66 - 26) / 8)
    assert study.corner(table, study.STRONG) == ((2 + 3 + 6 + 7) / 4, (66 - 18) / 8)


def test_an_agent_collapses_by_either_measure():
    agents = pd.DataFrame({"lam": 0.9, "size": 64, "neutrality": [0.05, 0.2, 0.2], "usefulness": [0.9, 0.9, 0.4]})
    assert study.collapsed(agents).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("claim", "metric", "lam", "size", "number"),
    [
        (study.weak_incentive_costs_neutrality, "neutrality", 0.9, 8, 3.0),
        (study.strong_incentive_costs_usefulness, "usefulness", 0.5, 256, 2.0),
        (study.sweet_spot_is_high, "usefulness", 0.9, 64, 0.84),
        (study.sweet_spot_is_high, "neutrality", 0.9, 64, 0.98),
        (study.neutrality_rises_at_large_lambda, "neutrality", 0.99, 64, 0.02),
        (study.usefulness_falls_at_small_lambda, "usefulness", 0.5, 256, 0.92),
    ],
)
def test_a_cell_refutes_a_claim(claim, metric, lam, size, number, rows):
    assert claim(rows)
    assert not claim(changed(rows, metric, lam, size, number))


def test_partly_neutral_agents_are_counted(rows):
    assert study.between(rows).sum() == 2 + 2  # at λ = 0.9 with E = 8, and at λ = 0.99 with E = 64
    assert len(study.between(rows)) == 2 * 2 * 2


def test_runs_without_the_clip_are_compared_with_clipped_twins(rows):
    without, clipped = study.twins(rows)
    assert without.tolist() == [True, False, False, False]
    assert clipped.tolist() == [False] * 4
    assert study.stable(rows) == "λ = 0.9, E = 64"


def test_tables_have_the_cells_of_the_figure(rows):
    table = study.grid(rows, "steps", "usefulness")
    assert table.header == ["λ ↓ E →", "8", "64", "256"]
    assert [*table.rows[0]] == ["0.5", "◐ 0.800", "✗ 0.700", "✗ 0.600"]
    assert [*table.rows[2]] == ["0.99", "✓ 0.880", "✓ 0.890", "✓ 0.940"]


def test_the_table_has_the_papers_statements(rows):
    table = study.paper_table(rows)
    assert table.header == ["cells", "every step counts", "the paper", "moves count"]
    assert [*table.rows[2]] == [
        *("λ = 0.9, E = 64", "N 0.995, U 0.860", "both high; N 0.9945, U 0.900 in Figure 3", "N 0.995, U 0.992")
    ]


def test_a_figure_has_a_curve_for_each_lambda(rows):
    alt = study.against_size(rows, "steps", "neutrality").alt
    assert "λ = 0.5 from 0.95 to 0.993; λ = 0.9 from 0.5 to 0.98; λ = 0.99 from 0.05 to 0.97" in alt
