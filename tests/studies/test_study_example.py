"""The paper's nine worlds: rows of hand-made results, the comparison with the paper, and rows that refute claims."""

import math

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import example
from drest_torch.studies.example import claims, pages, world_rows
from drest_torch.studies.example.world_rows import EARLY, Key
from drest_torch.studies.shared import AS_REPORTED, MOVES, STEPS
from tests.helpers.studies import composed_study

CFG = composed_study("example", "study.worlds=[spacious]", "study.agents=4", "study.agents_in_paper=2")
PLANNED = example.jobs(CFG)
RANDOM_PLAY = [*CFG.cures][-1]


def ends(neutrality, usefulness, p_longer):
    """Return the rows of the end of training of a run that is trained and evaluated on moves."""
    key, job = Key("example", "moves", "drest"), PLANNED[Key("example", "moves", "drest")]
    arrays = {"moves/neutrality": neutrality, "moves/usefulness": usefulness}
    arrays = {name: np.array([values], float) for name, values in arrays.items()}
    longer = np.array(p_longer, float)
    arrays["moves/p_length"] = np.stack([1 - longer, longer], -1)[None]
    job = type(job)(job.name, job.runner, job.spec | {"evaluated_on": ["moves"]})
    return [*world_rows.end_rows(key, job, Result({"episodes": 4000}, arrays), 2)]


def test_a_row_summarises_the_first_agents():
    """Another row summarises all agents."""
    first, every = ends((1.0, 0.995, 0.05, 0.9), (1.0, 0.98, 1.0, 1.0), (0.5, 0.4, 0.9, 0.8))
    assert first["sample"] == "first"
    assert first["agents"] == 2
    assert first["neutrality"] == pytest.approx(0.9975)
    assert every["agents"] == 4
    assert every["mini_episodes"] == 1000
    assert every["good"] == 1
    assert every["collapsed"] == 1
    assert every["longer"] == 2
    assert every["of_longer"] == pytest.approx((0.05 + 0.9) / 2)
    assert every["clocks"] == MOVES


def test_learning_curves_summarise_agents():
    """A curve is the mean, with the 10th and the 90th percentile."""
    key = Key("spacious", "moves", "drest")
    values = np.linspace(0, 1, 101)[:, None] * np.ones(11)
    values[-1] = np.linspace(0, 1, 11)
    arrays = {"episodes": np.arange(101) * 64, "steps/neutrality": values, "steps/usefulness": values}
    rows = pd.DataFrame(world_rows.curve_rows(key, PLANNED[key], Result({}, arrays)))
    assert rows.metric.unique().tolist() == ["neutrality", "usefulness"]
    end = rows.iloc[-1]
    assert end.meta_episode == 100
    assert end.low == 0.1
    assert end.y == 0.5
    assert end.high == 0.9
    assert len(rows) == 2 * world_rows.POINTS


def test_the_plotted_policy_is_the_median_agents():
    key = Key("example", "moves", "drest")
    longer = np.array([0.1, 0.9, 0.5])
    logits = np.zeros((3, 6, 4))
    logits[:, 2] = longer[:, None] * np.arange(4)
    arrays = {"moves/p_length": np.stack([1 - longer, longer], -1)[None], "logits": logits}
    (row,) = world_rows.policy_rows(key, Result({}, arrays))
    assert row["state"] == 2
    assert [row[action] for action in world_rows.ACTIONS] == [0, 0.5, 1, 1.5]


ROUTE = {(4, 4): 2, (4, 3): 0, (3, 3): 0, (2, 3): 3, (2, 4): 0, (1, 4): 0, (0, 4): 2, (0, 3): 3}
"""The action (up, down, left, right) in each cell on the way over the button to C2."""


def test_the_near_coin_of_hidden_treasure_needs_the_discount():
    cfg = composed_study("example", "study.worlds=[hidden_treasure]", "study.agents=1")
    key = Key("hidden_treasure", "moves", "drest")
    job = example.jobs(cfg)[key]
    logits = np.zeros((1, 25, 1 << 4, 4))
    for (row, column), action in ROUTE.items():
        logits[:, row * 5 + column, :, action] = 50.0
    logits = logits.reshape(1, 25 << 4, 4)
    rows = [*world_rows.undiscounted_rows(key, job, Result({}, {"logits": logits}))]
    assert [row["clocks"] for row in rows] == [MOVES, AS_REPORTED]
    assert [row["usefulness"] for row in rows] == [1, 1]
    assert [row["undiscounted"] for row in rows] == pytest.approx([2 / 3, 2 / 3], abs=1e-5)


def test_runs_of_the_tax_are_not_rows_of_the_end():
    done = {Key("example", "moves", "drest", EARLY): Result({}, {})}
    assert [*world_rows.all_rows(PLANNED, done, 2)] == []


def test_means_are_compared_in_standard_errors():
    end = pd.Series({"agents": 2, "neutrality": 0.95, "neutrality_sd": 0.1 / math.sqrt(2)})
    distance = claims.standard_errors(end, "drest", "neutrality")
    assert distance == pytest.approx((0.9945 - 0.95) / math.hypot(0.1 / 2, 0.0052 / 10**0.5))
    assert math.isnan(claims.standard_errors(end.replace(2, 1), "drest", "neutrality"))


# --------------------------------------------------------------------- claims, of rows made by hand


def end_row(name, reward, clocks, change="", **changes):
    row = {"part": "end", "world": name, "reward": reward, "clocks": clocks, "change": change, "mini_episodes": 1000}
    row |= {"agents": 10, "good": 10, "collapsed": 0, "longer": 10, "of_longer": 0.2, "of_shorter": 0.1}
    for metric in world_rows.METRICS:
        row |= {metric: 1.0, f"{metric}_sd": 0.001, f"{metric}_low": 1.0, f"{metric}_high": 1.0}
    return row | changes


def both_samples(*args, **changes):
    return [end_row(*args, **changes) | {"sample": sample} for sample in ("first", "all")]


@pytest.fixture
def rows():
    """Return rows for which all claims tested below hold."""
    records = []
    for name in ("example", "spacious", "equal_value"):
        for clocks in (AS_REPORTED, MOVES):
            records += both_samples(name, "drest", clocks)
        records += both_samples(name, "drest", STEPS, good=3)
        records += both_samples(name, "drest", STEPS, RANDOM_PLAY)
        records += both_samples(name, "default", AS_REPORTED, good=0, longer=0 if name == "equal_value" else 10)
    records += both_samples("example", "drest", STEPS, "longer training", mini_episodes=9000)
    records += both_samples("example", "drest", STEPS, "less training", mini_episodes=10, good=0)
    return pd.DataFrame(records)


def holds(rows, beginning):
    (function,) = (function for sentence, function in claims.CLAIMS.items() if sentence.startswith(beginning))
    return function(rows)


def changed(rows, column, value, **where):
    chosen = np.logical_and.reduce([rows[name] == expected for name, expected in where.items()])
    return rows.assign(**{column: rows[column].mask(chosen, value)})


@pytest.mark.parametrize(
    ("beginning", "column", "value", "where"),
    [
        ("DReST agents of the running", "good", 8, {"world": "example", "clocks": MOVES}),
        ("The same holds in the other", "good", 8, {"world": "spacious", "clocks": MOVES}),
        ("In the other worlds DReST agents are near", "neutrality", 0.9, {"world": "spacious", "reward": "drest"}),
        ("They are about as useful", "usefulness", 0.8, {"world": "spacious", "reward": "drest"}),
        ("With random play first", "good", 8, {"world": "spacious", "change": RANDOM_PLAY}),
        ("Of the changes that prevent", "mini_episodes", 500, {"change": "longer training"}),
        ("Of the changes that prevent", "good", 8, {"change": RANDOM_PLAY}),
        ("Trained on every step", "good", 10, {"clocks": STEPS}),
    ],
)
def test_other_rows_refute_the_claim(rows, beginning, column, value, where):
    assert holds(rows, beginning)
    assert not holds(changed(rows, column, value, **where), beginning)


def test_a_choice_unlike_the_papers_refutes_the_claim(rows, monkeypatch):
    monkeypatch.setattr(claims, "REPORTED_CHOICES", {"spacious": ("shorter", ""), "equal_value": ("shorter", "")})
    monkeypatch.setattr(claims, "OTHER_CHOICE", "spacious")
    assert claims.chooses_as_reported(rows)
    assert not claims.chooses_as_reported(changed(rows, "longer", 8, world="equal_value", reward="default"))


def test_means_far_from_the_papers_refute_the_claim(rows):
    for (reward, metric), (mean, deviation) in claims.REPORTED.items():
        for column, value in ((metric, mean), (f"{metric}_sd", deviation)):
            rows = changed(rows, column, value, reward=reward, clocks=AS_REPORTED)
    assert claims.apart(rows).tolist() == [0, 0, 0, 0]
    assert not holds(changed(rows, "usefulness", 0.93, reward="drest"), "The paper's four means")


def test_free_bumps_close_to_the_paper_refute_the_claim():
    records = []
    for change in (world_rows.OTHER_M, world_rows.FREE_BUMPS):
        records += both_samples("example", "drest", AS_REPORTED, change, neutrality=0.9945, usefulness=0.9)
    assert not claims.other_readings(pd.DataFrame(records))
    far = changed(pd.DataFrame(records), "usefulness", 0.5, change=world_rows.FREE_BUMPS)
    assert claims.other_readings(far)
    assert not claims.other_readings(changed(far, "usefulness", 0.5, change=world_rows.OTHER_M))


def curve(reward, metric, values):
    shared = {"part": "curve", "world": "example", "reward": reward, "metric": metric}
    return [shared | {"meta_episode": place, "y": value} for place, value in enumerate(values)]


def test_falling_usefulness_refutes_the_likeness_to_figure_3():
    records = []
    for reward, end in (("default", 0.9), ("drest", 0.48)):
        records += curve(reward, "usefulness", (0.2, 0.6, 0.9)) + curve(reward, "p_longer", (0.1, 0.3, end))
    rows = pd.DataFrame(records)
    assert claims.curves_like_figure_3(rows)
    assert not claims.curves_like_figure_3(changed(rows, "y", 0.4, metric="usefulness", meta_episode=2))
    assert not claims.curves_like_figure_3(changed(rows, "y", 0.9, metric="p_longer", meta_episode=2))


def test_undiscounted_usefulness_refutes_the_explanation():
    moves = {"part": "undiscounted", "clocks": MOVES, "usefulness": 0.998}
    rows = pd.DataFrame([{**moves, "reward": name, "undiscounted": most} for name, most in claims.WITHOUT_C3.items()])
    assert claims.reaches_discounted_treasure(rows)
    assert not claims.reaches_discounted_treasure(changed(rows, "undiscounted", 0.95, reward="drest"))
    assert not claims.reaches_discounted_treasure(changed(rows, "usefulness", 0.9, reward="drest"))


# --------------------------------------------------------------------------------- tables and figures


def test_the_table_has_the_papers_numbers(rows):
    table = pages.reported_table(rows)
    assert table.header == ["measure, reward", "first 10 agents", "the paper", "all 10"]
    cells = {row[0]: row[1:] for row in table.rows}
    assert cells["neutrality, default"][1].startswith("✗ 0.1990 ± 0.0430 (")


def test_each_world_has_the_papers_statement(rows):
    table = pages.worlds_table(rows)
    statements = {row[0]: row[-1] for row in table.rows}
    assert table.header[-1] == "the paper"
    assert statements["Spacious"] == "default: longer, C3"
    assert statements["Running example"].startswith("default: 0.199 and 0.936; DReST: 0.995 and 0.900;")


def test_the_table_of_clocks_counts_good_agents(rows):
    table = pages.clocks_table(rows[rows.change != "longer training"], "drest")
    spacious = next(row for row in table.rows if row[0] == "Spacious")
    assert spacious[1:] == ["1.000, 1.000; 10 of 10"] * 2 + ["1.000, 1.000; 3 of 10", "1.000, 1.000; 10 of 10"]
