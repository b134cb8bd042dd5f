"""λ × E: the runs, and what is said of a small table of them, with corners, agents that collapse and the best pair."""

import numpy as np
import pandas as pd
import pytest

from drest_torch.studies import lambda_meta
from drest_torch.studies.lambda_meta import LARGE, SMALL, collapsed, corner
from tests.helpers.studies import composed_study, reported, table_ends

SMALL_CFG = composed_study(
    "lambda_meta",
    "study.lams=[0.5,0.9,0.99]",
    "study.sizes=[8,32,64]",
    "study.agents=2",
    "study.mini_episodes=2048",
    "study.unclipped=[[0.5,8],[0.9,64],[0.99,8]]",
)
LAMS, SIZES = SMALL_CFG.lams, SMALL_CFG.sizes
MEANS = {  # of neutrality and of usefulness, a row for each λ, a column for each E
    "steps": (
        [[0.6, 0.991, 0.993], [0.5, 0.98, 0.995], [0.2, 0.3, 0.97]],
        [[0.80, 0.70, 0.60], [0.90, 0.86, 0.85], [0.88, 0.89, 0.94]],
    ),
    "moves": (
        [[0.7, 0.992, 0.994], [0.6, 0.97, 0.992], [0.3, 0.4, 0.96]],
        [[0.95, 0.91, 0.80], [0.99, 0.98, 0.995], [0.97, 0.96, 0.98]],
    ),
}
UNCLIPPED = {  # neutrality and usefulness of both agents
    (0.5, 8): ((0.05, 0.5), (0.9, 0.92)),
    (0.9, 64): ((0.99, 0.98), (0.94, 0.92)),
    (0.99, 8): ((0.5, 0.6), (0.4, 0.6)),
}


def report_of(means=MEANS, apart=0.02):
    def result(key):
        if not key.clipped:
            of = *UNCLIPPED[key.lam, key.size], (0.5, 0.5)
            return table_ends({"moves": of, "steps": of})
        at = LAMS.index(key.lam), SIZES.index(key.size)
        values = {clock: [each[at[0]][at[1]] for each in of] for clock, of in means.items()}
        return table_ends(
            {clock: ((n - apart, n + apart), (u - apart, u + apart), (0.3, 0.4)) for clock, (n, u) in values.items()}
        )

    return reported(lambda_meta, SMALL_CFG, result)


@pytest.fixture(scope="module")
def found():
    return report_of()


def test_every_agent_plays_as_many_mini_episodes():
    cfg = composed_study("lambda_meta")
    for key, job in lambda_meta.jobs(cfg).items():
        training = job.spec["training"]
        assert training["meta_episodes"] * key.size == cfg.mini_episodes
        assert training["evaluate_every"] >= training["meta_episodes"]
        assert (training["lam"], training["clip"] is not None) == (key.lam, key.clipped)


def test_a_corner_and_the_rest():
    means = pd.DataFrame(np.arange(12.0).reshape(3, 4))
    assert corner(means, LARGE, SMALL) == ((4 + 5 + 8 + 9) / 4, (66 - 26) / 8)
    assert corner(means, SMALL, LARGE) == ((2 + 3 + 6 + 7) / 4, (66 - 18) / 8)


def test_an_agent_collapses_by_either_measure():
    agents = pd.DataFrame({"neutrality": [0.05, 0.2, 0.2], "usefulness": [0.9, 0.9, 0.4]})
    assert collapsed(agents).tolist() == [True, False, True]


def test_what_the_page_says_of_corners_and_of_the_best_pair(found):
    values = found.values()
    assert values["claims"] == [True, True, True]
    neutral, useful = values["sides"].values()
    assert neutral["steps"] == pytest.approx((1.98 / 4, (0.6 + 0.991 + 0.993 + 0.995 + 0.97) / 5))
    assert useful["moves"] == pytest.approx(((0.91 + 0.80 + 0.98 + 0.995) / 4, (0.95 + 0.99 + 0.97 + 0.96 + 0.98) / 5))
    assert values["spots"]["steps"].to_dict() == pytest.approx({"neutrality": 0.995, "usefulness": 0.85})
    assert values["highest"] == pytest.approx({"steps": 0.94, "moves": 0.995})
    good = {clock: [*each[each].index] for clock, each in values["good"].items()}
    assert good == {"steps": [(0.9, 64)], "moves": [(0.9, 64)]}


@pytest.mark.parametrize(
    ("clock", "metric", "place", "value", "wrong"),
    [
        ("moves", 0, (1, 1), 2.5, 0),  # one clock alone is enough to say that it does not hold
        ("steps", 1, (0, 1), 1.5, 1),
        ("moves", 1, (1, 2), 0.98, 2),
        ("steps", 0, (1, 2), 0.98, 2),
    ],
)
def test_a_claim_has_to_hold_on_both_clocks(clock, metric, place, value, wrong):
    means = {name: [np.array(each) for each in of] for name, of in MEANS.items()}
    means[clock][metric][place] = value
    assert report_of(means).values()["claims"] == [claim != wrong for claim in range(3)]


def test_a_pair_is_unstable_if_any_of_its_agents_collapses(found):
    values = found.values()
    assert values["pairs"].to_dict() == {(0.5, 8): True, (0.9, 64): False, (0.99, 8): True}
    assert values["stable"] == ["λ = 0.9, E = 64"]
    assert values["worst"] == ("λ = 0.99, E = 8", pytest.approx(0.5))


def test_what_is_quoted(found):
    assert [(quote.reported, quote.measured) for quote in found.quotes()] == [
        ("low N", "N 0.495, elsewhere 0.910; evaluated on moves 0.568 and 0.928"),
        ("low U", "U 0.752, elsewhere 0.882; evaluated on moves 0.921 and 0.970"),
        ("both high", "N 0.995, U 0.850; highest of all 0.995 and 0.940"),
        ("especially unstable", "2 of 6 agents collapse in 3 pairs of λ and E"),
    ]


def test_tables_have_a_row_for_each_lambda(found):
    table = found.tables["usefulness, steps"]()
    assert table.header == ["λ ↓ E →", "8", "32", "64"]
    assert [list(row) for row in table.rows] == [
        ["0.5", "◐ 0.800", "✗ 0.700", "✗ 0.600"],
        ["0.9", "✓ 0.900", "✓ 0.860", "✓ 0.850"],
        ["0.99", "✓ 0.880", "✓ 0.890", "✓ 0.940"],
    ]
    assert "evaluated on steps" in table.caption
    assert found.tables["neutrality, moves"]().rows[0][1:] == ["✗ 0.700", "✓ 0.992", "✓ 0.994"]


def test_the_plot_has_a_line_for_each_lambda_against_the_sizes(found):
    alt = found.plots["neutrality, steps"]().alt
    assert "λ = 0.5 from 0.6 to 0.993; λ = 0.9 from 0.5 to 0.995; λ = 0.99 from 0.2 to 0.97" in alt


def test_rows_are_single_numbers_of_agents(found):
    rows = found.rows
    at = rows[(rows.lam == 0.9) & (rows["size"] == 8) & rows.clipped & (rows.metric == "neutrality")]
    assert {clock: value.tolist() for clock, value in zip(at.clock, at.value, strict=True)} == {
        "steps": pytest.approx([0.48, 0.52]),
        "moves": pytest.approx([0.58, 0.62]),
    }
