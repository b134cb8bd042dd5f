"""The study of the tax: curves from random play on, times until a share of usefulness, and the ratios of their medians.

Every curve is 0 before a first time, 0.6 of the agent's final usefulness until a second one, and then all of it.
"""

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.statistics.intervals import Interval
from drest_torch.studies import tax
from drest_torch.studies.shared import AS_REPORTED, MOVES, RANDOM_FIRST
from drest_torch.studies.tax import Key
from tests.helpers.studies import composed_study, reported

CFG = composed_study(
    "tax",
    "study.worlds=[spacious]",
    "study.agents=3",
    "study.shares=[0.5,0.9]",
    "study.final_evaluations=2",
    "study.window=1",
    "study.cure.random_episodes=1000",
)
FINAL = {"default": (1.0, 0.9, 0.8), "drest": (0.6, 0.7, 0.72)}
TIMES = {  # of the three agents: until 0.6 of it, and until all
    ("example", "moves", "default"): ((1000, 2000, 3000), (4000, 5000, 9000)),
    ("example", "moves", "drest"): ((3000, 1000, 5000), (9000, 7000, 8000)),
    ("spacious", "moves", "default"): ((1000, 2000, 2000), (3000, 4000, 5000)),
    ("spacious", "moves", "drest"): ((1000, 2000, 2000), (2000, 3000, 9000)),
    ("example", "cured", "default"): ((2000, 2000, 2000), (3000, 3000, 4000)),
    ("example", "cured", "drest"): ((1000, 5000, 4000), (5000, 7000, 9000)),
}
EPISODES = {"moves": np.arange(0, 10_001, 1000), "early": np.arange(0, 3001, 500), "cured": np.arange(0, 11_001, 1000)}


def result(key, times=TIMES):
    first, second = (np.array(each) for each in times[key.world, key.part.replace("early", "moves"), key.reward])
    episodes = EPISODES[key.part]
    since, final = episodes[:, None], np.array(FINAL[key.reward])
    useful = np.where(since >= second, final, np.where(since >= first, 0.6 * final, 0.0))
    arrays = {"moves/usefulness": useful, "steps/usefulness": useful * 0.5 if key.part != "cured" else useful}
    return Result({}, arrays | {"episodes": episodes})


@pytest.fixture(scope="module")
def found():
    return reported(tax, CFG, result)


def rows(found, metric, **where):
    rows = found.rows[found.rows.metric == metric]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return [value.tolist() for value in rows.value]


def test_final_usefulness_is_the_mean_of_the_last_evaluations(found):
    assert rows(found, "final_usefulness", level="spacious", clocks=MOVES, reward="default") == [[1.0, 0.9, 0.8]]
    # The last two evaluations of the third agent, of which the first is before its second time.
    times = {**TIMES, ("spacious", "moves", "drest"): ((1000, 2000, 2000), (2000, 3000, 10_000))}
    found = reported(tax, CFG, lambda key: result(key, times))
    (values,) = rows(found, "final_usefulness", level="spacious", clocks=AS_REPORTED, reward="drest")
    assert values == pytest.approx([0.3, 0.35, 0.5 * 0.8 * 0.72])


def test_times_are_those_of_each_definition(found):
    spacious = {"level": "spacious", "clocks": MOVES}
    own, common = ({**spacious, "share": 0.5, "definition": definition} for definition in ("own", "common"))
    assert rows(found, "mini_episodes", reward="drest", **own) == [[1000, 2000, 2000]]
    # Half of the default agents' median of 0.9 is more than 0.6 of an own final 0.6 to 0.72.
    assert rows(found, "mini_episodes", reward="drest", **common) == [[2000, 3000, 9000]]
    assert rows(found, "mini_episodes", reward="default", **common) == [[1000, 2000, 2000]]
    assert rows(found, "mini_episodes", reward="drest", **own | {"share": 0.9}) == [[2000, 3000, 9000]]
    assert rows(found, "mini_episodes", reward="drest", **common | {"share": 0.9}) == [[np.inf] * 3]
    assert rows(found, "mini_episodes", reward="default", **common | {"share": 0.9}) == [[3000, 4000, np.inf]]


def test_the_first_mini_episodes_are_those_that_are_evaluated_more_often():
    def changed(key):
        found = result(key)
        if key.part == "early" and key.reward == "drest":
            found.arrays["moves/usefulness"][1:] = 1.0  # at 500, before anything of the other run
        return found

    done = {key: changed(key) for key in tax.jobs(CFG)}
    episodes, useful = tax.curve(CFG, done, "spacious", MOVES, "drest")
    assert episodes.tolist() == [*range(0, 3001, 500), *range(4000, 10_001, 1000)]
    assert useful[:8, 0].tolist() == [0, 1, 1, 1, 1, 1, 1, 0.6]
    del done[Key("spacious", "early", "drest")]
    assert tax.curve(CFG, done, "spacious", MOVES, "drest")[0].tolist() == EPISODES["moves"].tolist()


def test_time_is_counted_from_the_end_of_random_play(found):
    done = {key: result(key) for key in tax.jobs(CFG)}
    episodes, useful = tax.curve(CFG, done, "example", RANDOM_FIRST, "default")
    assert episodes.tolist() == [0, 0, *range(1000, 10_001, 1000)]
    assert useful.shape == (12, 3)
    where = {"clocks": RANDOM_FIRST, "share": 0.5, "definition": "own"}
    assert rows(found, "mini_episodes", reward="drest", **where) == [[0, 4000, 3000]]


def test_the_tax_is_the_ratio_of_medians():
    taxes = tax.compare(CFG, reported(tax, CFG, result).rows).set_index(["clocks", "level", "share", "definition"])
    own = taxes.estimate.xs("own", level="definition")
    assert own[MOVES].to_dict() == {
        ("example", 0.5): 1.5,
        ("example", 0.9): 8000 / 5000,
        ("spacious", 0.5): 1,
        ("spacious", 0.9): 3000 / 4000,
    }
    assert own[RANDOM_FIRST].to_dict() == {("example", 0.5): 3000 / 1000, ("example", 0.9): 6000 / 2000}
    later = taxes.later.xs("own", level="definition")[MOVES]
    assert later.tolist() == [1, 3, 0, -1]  # thousands of mini-episodes
    assert (taxes.low <= taxes.estimate)[taxes.estimate.notna()].all()
    assert taxes.loc[MOVES, "example", 0.9, "own"].low < 1.5


def test_what_is_quoted_is_the_headline_share_on_each_pair_of_clocks(found):
    said = {quote.what: (quote.reported, quote.measured) for quote in found.quotes}
    what = "time to 90% of final usefulness, DReST ÷ default, "
    assert said[f"{what}{AS_REPORTED}, 2 worlds"] == ("about 1, by eye", "0.75 to 1.60, most in Running example")
    assert said[f"{what}{MOVES}, 2 worlds"] == ("", "0.75 to 1.60, most in Running example")
    assert said[f"{what}{RANDOM_FIRST}, running example"][1].startswith("3.00 (")
    assert len(said) == 3


def test_the_page_s_sentences(found):
    values = found.values()
    assert values["papers"] == {
        "range": "0.75 to 1.60",
        "most": "Running example",
        "small": 1,
        "of": 2,
        "later": 3,
    }
    assert values["common"]["range"] == "∞ to ∞"  # DReST agents never have 0.9 of what default agents have
    assert values["common"]["small"] == 0
    apart = values["differences"][RANDOM_FIRST]
    assert apart["slower"].world.tolist() == ["Running example"]
    assert apart["faster"].empty
    assert values["differences"][MOVES]["large"].share.tolist() == [0.9]
    assert tax.summary(CFG, tax.compare(CFG, found.rows).iloc[:0]) == {"of": 0}


def test_slower_and_faster_are_beyond_the_interval():
    ends = {"a": (1.2, 1.0, 1.4), "b": (1.7, 1.1, 2.0), "c": (0.8, 0.6, 1.0), "d": (0.7, 0.5, 0.9)}
    taxes = pd.DataFrame([(name, *each) for name, each in ends.items()], columns=["level", "estimate", "low", "high"])
    own = pd.DataFrame({"level": ["a", "a", "d", "e"], "estimate": [1.2, 1.6, 1.5, 9.0]})
    found = tax.differences(CFG, taxes, own)
    assert found["slower"].level.tolist() == ["b"]
    assert found["faster"].level.tolist() == ["d"]
    assert found["large"].estimate.tolist() == [1.6]  # of any share; 1.5 is small still


def test_where_the_ratio_is_not_known_there_is_nothing_to_quote():
    """Default agents were there at once, or nobody ever is."""
    times = {**TIMES, ("spacious", "moves", "default"): ((0, 0, 0), (0, 0, 0))}
    quotes = reported(tax, CFG, lambda key: result(key, times)).quotes
    assert [quote.what.rpartition(", ")[2] for quote in quotes] == ["running example"] * 3
    assert tax.text(Interval(np.nan, 0, np.inf)) == "–"
    assert tax.text(Interval(2.0, 0.5, np.inf)) == "2.00 (0.50-∞)"


def test_a_row_of_the_table_has_each_share_and_final_usefulness(found):
    table = found.tables[f"ratios, {MOVES}"]
    assert table.header == ["world", "50%", "90%", "final usefulness, default", "DReST"]
    assert [row[0] for row in table.rows] == ["Running example", "Spacious"]
    example, spacious = table.rows
    assert example[1].startswith("1.50 (")
    assert example[2].startswith("1.60 (")
    assert spacious[2].startswith("0.75 (")
    assert example[3:] == ["0.900", "0.700"]
    assert found.tables[f"ratios, {AS_REPORTED}"].rows[0][3:] == ["0.450", "0.350"]


def test_the_plot_has_the_agents_own_share_alone(found):
    plot = found.plots[f"ratios, {MOVES}"]()
    assert "50% from 1.00 to 1.50; 90% from 0.75 to 1.60" in plot.alt
