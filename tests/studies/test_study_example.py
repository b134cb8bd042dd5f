"""The paper's nine worlds: the comparison with the paper."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies import example
from drest_torch.studies.engine import Done
from drest_torch.studies.example import split, standard_errors
from drest_torch.studies.shared import at_the_end
from tests.helpers.studies import composed_study, reported, table_ends


def test_means_are_compared_with_the_paper_s_in_standard_errors():
    sd = 0.1 / math.sqrt(2)
    apart = standard_errors(np.array([0.9, 1.0]), (0.9945, 0.0052))
    assert apart == pytest.approx((0.9945 - 0.95) / math.hypot(sd / math.sqrt(2), 0.0052 / 10**0.5))
    assert math.isnan(standard_errors(np.array([0.9]), (0.9945, 0.0052)))


def test_worlds_are_split_by_what_holds_in_them():
    assert split(pd.Series({"a": True, "b": False, "c": True})) == {"yes": ["a", "c"], "no": ["b"]}


def test_the_end_of_training_is_read_on_each_clock():
    key, job = next(iter(example.jobs(composed_study("example")).items()))
    numbers = {"steps": (0.1, 0.2, 0.3), "moves": (0.4, 0.5, 0.6)}
    arrays = {}
    for clock, (neutral, useful, longer) in numbers.items():
        both = {"neutrality": neutral, "usefulness": useful}
        arrays |= {f"{clock}/{name}": np.array([[0.0, 0.0], [value, value]]) for name, value in both.items()}
        arrays[f"{clock}/p_length"] = np.array([[[0.0, 0.0]] * 2, [[1 - longer, longer]] * 2])
    ends = at_the_end(Done({key: job}, SimpleNamespace(get=lambda job: Result({}, arrays))))
    assert ends.clocks.tolist() == ["moves / moves", "moves / steps"]
    for (_, found), expected in zip(ends.iterrows(), (numbers["moves"], numbers["steps"]), strict=True):
        assert found[["neutrality", "usefulness", "p_longer"]].map(list).tolist() == [[each] * 2 for each in expected]


CFG = composed_study("example", "study.worlds=[spacious,last_moment]", "study.agents=4", "study.agents_in_paper=2")
*OTHERS, CURE = CFG.cures
MENDS = OTHERS[2]
"""The only other change after which nearly all agents are useful and neutral."""
BAD, GOOD = ((0.8, 0.05, 0.9, 0.995), (0.99, 0.7, 0.9, 0.995)), ((0.995, 0.99, 1.0, 0.992), (0.999, 1.0, 0.99, 0.995))
"""Neutrality and usefulness of four agents; in the second all are good enough, and in the first one is."""
DEFAULT = {
    "neutrality": (0.18, 0.26, 0.5, 0.1),
    "usefulness": (0.93, 0.95, 0.9, 0.92),
    "longer": (0.9, 0.95, 0.3, 0.98),
}


def ends_of(key, clock):
    """Neutrality, usefulness and P(longer) of the agents of a run on a clock of evaluation."""
    if key.reward == "default":
        return tuple(DEFAULT.values())
    longer = (0.4, 0.5, 0.6, 0.55)
    if key.clock == "steps":
        good = key.change in (CURE, MENDS)
        if key.world == "last_moment" and key.change == CURE:
            return (0.99, 0.98, 1.0, 0.992), GOOD[1], longer  # one of the first two agents is not neutral
        if key.world == "last_moment":
            return (0.05, 0.01, 0.02, 0.9), BAD[1], longer  # most have collapsed
        return *(GOOD if good else BAD), longer
    if clock == "steps":
        return (0.99, 1.0, 0.8, 0.7), (0.9, 0.91, 0.99, 0.6), longer
    return *GOOD, longer


@pytest.fixture(scope="module")
def found():
    planned = example.jobs(CFG)

    def result(key):
        agents = planned[key].spec["agents"]
        of = {clock: ends_of(key, clock) for clock in planned[key].spec["evaluated_on"]}
        cut = {clock: tuple(np.resize(values, agents) for values in each) for clock, each in of.items()}
        return table_ends(cut, episodes=agents * (4000 if key.change == MENDS else 1000))

    return reported(example, CFG, result)


def test_the_page_s_sentences_are_of_the_shown_world(found):
    values = found.values()
    few = {name: np.array(numbers[:2]) for name, numbers in DEFAULT.items()}
    drest = np.array([0.99, 1.0]), np.array([0.9, 0.91])
    samples = [few["neutrality"], few["usefulness"], *drest]
    papers = [each for measures in example.REPORTED.values() for each in measures.values()]
    expected = [
        abs(sample.mean() - mean) / math.hypot(sample.std(ddof=1) / math.sqrt(2), sd / math.sqrt(10))
        for sample, (mean, sd) in zip(samples, papers, strict=True)
    ]
    assert values["apart"] == pytest.approx(expected)
    assert values["spread"] == pytest.approx(0.08 / math.sqrt(2))
    assert values["longer"] == 0.75
    assert values["of_longer"] == f"0.180 ± {np.std([0.18, 0.26, 0.1], ddof=1):.3f}"
    assert values["of_shorter"] == "0.500 ± 0.000"
    assert values["cure"] == CURE


def test_a_cure_mends_where_nearly_all_agents_are_useful_and_neutral(found):
    values = found.values()
    assert values["cures"] == {"yes": [CURE, MENDS], "no": [name for name in OTHERS if name != MENDS]}
    assert values["least"] == 1000  # of mini-episodes of an agent
    assert values["good"] == {
        "moves / steps": {"yes": [], "no": ["Spacious", "Last Moment"]},
        "moves / moves": {"yes": ["Spacious", "Last Moment"], "no": []},
        "steps / steps": {"yes": [], "no": ["Spacious", "Last Moment"]},
        f"steps / steps, {CURE}": {"yes": ["Spacious"], "no": ["Last Moment"]},
    }
    assert values["collapsed"] == {"yes": ["Last Moment"], "no": ["Spacious"]}


def test_what_is_quoted_of_the_first_agents_and_of_all(found):
    said = [(quote.reported, quote.measured) for quote in found.quotes()]
    assert said[0] == ("N 0.199 ± 0.043, U 0.9364 ± 0.0096", "N 0.220 ± 0.057, U 0.940 ± 0.014")
    assert said[1] == ("N 0.9945 ± 0.0052, U 0.900 ± 0.011", "N 0.995 ± 0.007, U 0.905 ± 0.007")
    assert said[2] == ("", "N 0.994 ± 0.004, U 0.996 ± 0.005; both ≥ 0.99 in 4")
    assert (
        said[3][1] == f"N {np.mean(BAD[0]):.3f} ± {np.std(BAD[0], ddof=1):.3f}, U 0.896 ± {np.std(BAD[1], ddof=1):.3f}"
        "; both ≥ 0.99 in 1"
    )
    assert said[4][1].endswith("both ≥ 0.99 in 4")
    lowest = [measured for _, measured in said[5:]]
    assert lowest[0] == "lowest mean of a world N 0.873, U 0.850"
    assert lowest[1] == "lowest mean of a world N 0.994, U 0.996; both ≥ 0.99 in 8 of 8 agents"
    assert lowest[2] == "lowest mean of a world N 0.245, U 0.896; both ≥ 0.99 in 1 of 8 agents"
    assert lowest[3] == "lowest mean of a world N 0.990, U 0.996; both ≥ 0.99 in 7 of 8 agents"


def test_the_table_beside_the_paper_marks_what_is_close(found):
    rows = {(row[0], row[1]): row[2:] for row in found.tables["reported"]().rows}
    apart = found.values()["apart"]
    first = rows["default", "neutrality"]
    assert first[:3] == ["0.199 ± 0.043", "0.2200 ± 0.0566", f"✓ {apart[0]:.1f}"]
    of_all = np.array(DEFAULT["neutrality"])
    everyone = abs(of_all.mean() - 0.199) / math.hypot(of_all.std(ddof=1) / 2, 0.043 / math.sqrt(10))
    assert first[3:] == [f"{of_all.mean():.4f} ± {of_all.std(ddof=1):.4f}", f"✓ {everyone:.1f}"]
    assert ("DReST", "usefulness") in rows


def test_tables_have_a_row_for_each_world_and_pair_of_clocks(found):
    table = found.tables["drest"]()
    assert len(table.rows) == 3 * 4
    rows = {str(row[0]).replace("\\", ""): row[1:] for row in table.rows}
    assert rows["Running example, moves / moves"][0] == "1,000"
    assert rows["Running example, moves / moves"][3:] == ["0.512", "4 of 4", "2 of 2"]
    assert rows[f"Last Moment, steps / steps, {CURE}"][4:] == ["3 of 4", "1 of 2"]
    cures = {str(row[0]): row[1:] for row in found.tables["cures"]().rows}
    assert cures[f"{MENDS}, DReST"][0] == "4,000"
    assert len(cures) == len(CFG.cures) + 1  # of the cure also the default agents
    assert found.tables["default"]().caption == "Default agents at the end of training, means of 4"


def test_plots_are_of_their_metric(found):
    names = [name for name in found.plots if name.startswith(("example/", "spacious/"))]
    of_curves = [name for name in names if "," in name]
    assert [sum(name.startswith(where) for name in of_curves) for where in ("example/", "spacious/")] == [9, 3]
    assert "spacious/usefulness, moves / steps" in of_curves
    assert [name for name in names if "," not in name] == [
        f"{where}/{reward}" for where in ("example", "spacious") for reward in ("default", "drest")
    ]
    alt = found.plots["example/p_longer, moves / steps"]().alt
    assert "default from 0 to 0.782; DReST from 0 to 0.512" in alt
    assert "neutrality, moves / moves" in found.plots["all, neutrality"]().alt
    assert "default from 0.26 to 0.26; DReST from 0.99 to 0.99" in found.plots["all, neutrality"]().alt
