"""The shutdownability tax of the paper's worlds: times until a share of usefulness, and the ratios of their medians.

Every curve is 0 until a first time, then 0.6 of the agent's final usefulness, and the final usefulness from a second
time on.
"""

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.studies.example import tax
from drest_torch.studies.example.world_rows import EARLY, Key
from drest_torch.studies.shared import AS_REPORTED, MOVES, RANDOM_FIRST

WORLDS = ("example", "spacious")
FINAL = {"default": (1.0, 0.9, 0.8), "drest": (0.6, 0.7, 0.72)}
TIMES = {  # of three agents: until 0.6 of the final usefulness, and until all of it
    ("example", "moves", "default"): ((1000, 2000, 3000), (4000, 5000, 9000)),
    ("example", "moves", "drest"): ((3000, 1000, 5000), (9000, 7000, 8000)),
    ("spacious", "moves", "default"): ((1000, 2000, 2000), (3000, 4000, 5000)),
    ("spacious", "moves", "drest"): ((1000, 2000, 2000), (2000, 3000, 9000)),
    ("example", "steps", "default"): ((2000, 2000, 2000), (3000, 3000, 4000)),
    ("example", "steps", "drest"): ((1000, 5000, 4000), (5000, 7000, 9000)),
}
RANDOM_EPISODES = 1000


def result(times, episodes, final, on_steps=1.0):
    first, second = (np.array(time) for time in times)
    since, final = episodes[:, None], np.array(final)
    useful = np.where(since >= second, final, np.where(since >= first, 0.6 * final, 0.0))
    return Result({}, {"moves/usefulness": useful, "steps/usefulness": on_steps * useful, "episodes": episodes})


def runs(times=TIMES):
    """Return the results of the runs of the tax, evaluated every 1000 mini-episodes, and every 500 at first."""
    done = {}
    for (name, clock, reward), both in times.items():
        if clock == "steps":
            key = Key(name, clock, reward, tax.RANDOM_PLAY)
            done[key] = result(both, np.arange(0, 11_001, 1000), FINAL[reward])
        else:
            done[Key(name, clock, reward)] = result(both, np.arange(0, 10_001, 1000), FINAL[reward], 0.5)
            done[Key(name, clock, reward, EARLY)] = result(both, np.arange(0, 3001, 500), FINAL[reward], 0.5)
    return done


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(tax, "FINAL_EVALUATIONS", 2)
    monkeypatch.setattr(tax, "WINDOW", 1)
    monkeypatch.setattr(tax, "SHARES", (0.5, 0.9))


def taxes(done=None):
    return pd.DataFrame(tax.tax_rows(done or runs(), WORLDS, RANDOM_EPISODES, 200))


@pytest.fixture
def rows():
    return taxes()


def estimates(rows, clocks, definition="own"):
    chosen = rows[(rows.clocks == clocks) & (rows.definition == definition)]
    return {(row.world, row.share): row.estimate for row in chosen.itertuples()}


def test_the_tax_is_the_ratio_of_medians(rows):
    assert estimates(rows, MOVES) == {
        ("example", 0.5): 1.5,
        ("example", 0.9): 8000 / 5000,
        ("spacious", 0.5): 1,
        ("spacious", 0.9): 3000 / 4000,
    }
    assert estimates(rows, AS_REPORTED) == estimates(rows, MOVES)
    assert (rows.low <= rows.estimate)[rows.estimate.notna()].all()


def test_time_is_counted_from_the_end_of_random_play(rows):
    assert estimates(rows, RANDOM_FIRST) == {("example", 0.5): 3000 / 1000, ("example", 0.9): 6000 / 2000}


def test_the_difference_of_medians_is_in_mini_episodes(rows):
    chosen = rows[(rows.clocks == MOVES) & (rows.definition == "own")]
    assert chosen.later.tolist() == [1000, 3000, 0, -1000]


def test_a_common_mark_is_the_default_agents_usefulness(rows):
    """DReST agents reach half of the default agents' final usefulness, and never 0.9 of it."""
    common = estimates(rows, MOVES, "common")
    assert common["spacious", 0.5] == 3000 / 2000
    assert common["spacious", 0.9] == np.inf


def test_early_evaluations_come_first():
    done = runs()
    done[Key("spacious", "moves", "drest", EARLY)].arrays["moves/usefulness"][1:] = 1.0
    episodes, useful = tax.curve(done, "spacious", MOVES, "drest", RANDOM_EPISODES)
    assert episodes.tolist() == [*range(0, 3001, 500), *range(4000, 10_001, 1000)]
    assert useful[:8, 0].tolist() == [0, 1, 1, 1, 1, 1, 1, 0.6]


def test_a_world_with_a_missing_run_is_left_out():
    done = runs()
    del done[Key("spacious", "moves", "drest")]
    assert {*taxes(done).world} == {"example"}


def test_worlds_without_a_time_have_no_tax():
    """Default agents reach the share before training."""
    done = runs({**TIMES, ("spacious", "moves", "default"): ((0, 0, 0), (0, 0, 0))})
    rows = taxes(done)
    assert tax.taxes_of(rows, MOVES).world.tolist() == ["example"]
    both = runs({**TIMES, **{("spacious", "moves", reward): ((0, 0, 0), (0, 0, 0)) for reward in FINAL}})
    table = tax.tax_table(taxes(both), MOVES)
    assert table.rows[1][1:] == ["–", "–"]


def claim(beginning):
    (function,) = (function for sentence, function in tax.CLAIMS.items() if sentence.startswith(beginning))
    return function


@pytest.mark.parametrize(
    ("beginning", "clocks", "good", "bad"),
    [
        ("On the paper's clocks", AS_REPORTED, {"estimate": 1.4}, {"estimate": 1.6}),
        ("The tax is not small everywhere", AS_REPORTED, {"estimate": 1.6}, {"estimate": 1.4}),
        ("At a smaller share", AS_REPORTED, {"estimate": 1.6}, {"estimate": 1.4}),
        ("After random play", RANDOM_FIRST, {"high": 0.9}, {"high": 1.1}),
    ],
)
def test_other_ratios_refute_the_claim(rows, beginning, clocks, good, bad):
    chosen = (rows.clocks == clocks) & rows.estimate.notna()
    for values, expected in ((good, True), (bad, False)):
        columns = {name: rows[name].mask(chosen, value) for name, value in values.items()}
        assert claim(beginning)(rows.assign(**columns)) == expected


def test_equal_taxes_refute_the_claim(rows):
    spread = rows.assign(
        low=np.where(rows.world == "example", 1.6, 0.5), high=np.where(rows.world == "example", 2, 0.9)
    )
    assert claim("Evaluated on moves")(spread)
    assert not claim("Evaluated on moves")(rows.assign(low=0.9, high=1.1))


def test_the_papers_column_is_shown_on_its_clocks(rows):
    table = tax.tax_table(rows, AS_REPORTED)
    assert table.header == ["world", "50%", "90%", "the paper"]
    assert [row[0] for row in table.rows] == ["Running example", "Spacious"]
    assert table.rows[0][1].startswith("1.50 (")
    assert table.rows[0][3] == "about 1, by eye"
    assert tax.tax_table(rows, MOVES).header == ["world", "50%", "90%"]
