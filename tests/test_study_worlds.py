"""The eight other worlds: the report says in which of them agents end useful and neutral, as the numbers have it."""

from __future__ import annotations

import numpy as np
import pytest

from drest_torch.report.tables import values
from drest_torch.studies.worlds import study as worlds
from tests.helpers.clock_pairs import PretendedTables
from tests.helpers.studies import composed, publish

FEWER, SPACIOUS = "Fewer For Longer", "Spacious"
GOOD = "end useful and neutral in every world, 2 of 2."
POOR = "do not end useful and neutral in every world: they do in {} of 2 worlds ".format


@pytest.fixture(scope="module")
def cfg():
    return composed("worlds")


def ends(poor=(), useful_on_steps=0.9, default=0.05):
    """Return ends: DReST agents are useful and neutral, except in runs whose names contain one of ``poor``."""

    def of(job):
        if "default" in job.name:
            return {"neutrality": default, "usefulness": 0.99}
        good = not any(part in job.name for part in poor)
        on_steps = useful_on_steps if "-moves-" in job.name else 0.995 if good else 0.5
        return {
            "neutrality": 0.999 if good else [0.05, 0.05, 0.7],
            "moves/usefulness": 0.995,
            "steps/usefulness": on_steps,
            "p_length": [0.5, 0.5],
        }

    return of


def text(cfg, **changes):
    return publish(worlds, cfg, PretendedTables(cfg.agents, ends=ends(**changes))).text


def test_agents_that_are_useful_and_neutral_everywhere(cfg):
    published = publish(worlds, cfg, PretendedTables(cfg.agents, ends=ends()))
    assert f"on the clock that counts moves, DReST agents {GOOD}" in published.text
    assert f"with the paper's schedules, they {GOOD}" in published.text
    assert f"With 2,048 mini-episodes of random play first, they {GOOD}" in published.text
    assert "most agents collapse onto one length in no world." in published.text
    assert "That mends" not in published.text
    assert "nan" not in published.text
    table = published.tables["DReST agents at the end of training, means of 3"]
    assert table[f"{SPACIOUS}, moves / steps"] == [
        "0.999 (0.999-0.999)",
        "0.900 (0.900-0.900)",
        "0.500",
        "0 of 3",
        "0 of 2",
    ]
    assert table[f"{SPACIOUS}, moves / moves"][-2:] == ["3 of 3", "2 of 2"]
    assert published.opens_with_its_answer()
    assert published.plots[0].alt.endswith("The lowest of DReST agents: neutrality 1.00 and usefulness 0.99.")


def test_agents_that_are_not(cfg):
    words = text(cfg, poor=["spacious-moves-drest"])
    assert f"counts moves, DReST agents {POOR(1)}(not in {SPACIOUS})." in words
    assert f"paper's schedules, they {GOOD}" in words


def test_random_play_mends_what_collapses(cfg):
    collapse = ends(poor=["-steps-drest"])

    def mended(job):
        return ends()(job) if "cured" in job.name else collapse(job)

    words = publish(worlds, cfg, PretendedTables(cfg.agents, ends=mended)).text
    assert f"most agents collapse onto one length in 2 worlds ({FEWER}; {SPACIOUS})." in words
    assert "paper's schedules, they do not end useful and neutral in every world: they do in none of 2 worlds." in words
    assert "do not suffice for 2 worlds. Random play first is enough in 2 of them." in words


def test_random_play_may_mend_nothing(cfg):
    words = text(cfg, poor=["spacious-steps-drest"])  # also those that play at random first
    assert f"most agents collapse onto one length in 1 world ({SPACIOUS})." in words
    assert f"random play first, they {POOR(1)}" in words
    assert "do not suffice for 1 world. Random play first is enough in none of them." in words


@pytest.mark.parametrize(
    ("useful", "words"),
    [
        (0.9, "look less useful in every world when"),
        (0.995, "look no less useful when"),
    ],
)
def test_usefulness_is_compared_between_the_clocks(cfg, useful, words):
    assert words in text(cfg, useful_on_steps=useful)


@pytest.mark.parametrize(
    ("neutrality", "words"), [(0.05, "or less in all 2 worlds."), (0.5, "or less in none of 2 worlds.")]
)
def test_default_agents_prefer_a_length_or_not(cfg, neutrality, words):
    assert f"Default agents, moves / moves: mean neutrality is 0.1 {words}" in text(cfg, default=neutrality)


def test_the_paper_s_number_of_agents_decides(cfg):
    """The third agent of the poor run is not among the first two."""

    def of(job):
        last_is_poor = {"neutrality": [1.0, 1.0, 0.0], "usefulness": 1.0}
        return last_is_poor if "drest" in job.name else {}

    analysis = worlds.analyse(cfg, PretendedTables(cfg.agents, ends=of))
    assert analysis.findings["pairs"]["moves / moves"]["not_good"] == []
    numbers = analysis.findings["worlds"]["spacious"]["moves / moves"]["drest"]
    assert numbers["both"] == pytest.approx(2 / 3)
    assert numbers["both_of_first"] == 2
    assert numbers["neutrality"] == pytest.approx([2 / 3, np.std([1, 1, 0], ddof=1)])
    assert values(analysis.results, level="spacious", clocks="moves / moves", reward="drest", metric="both").sum() == 2
    assert [quote.measured for quote in analysis.quotes][:2] == [
        "lowest mean of a world N 0.667, U 1.000",
        "lowest mean of a world N 0.667, U 1.000; both ≥ 0.99 in 4 of 6 agents",
    ]


def test_nothing_is_claimed_without_results(cfg):
    published = publish(worlds, cfg, PretendedTables(cfg.agents, lost=lambda job: True))
    assert "Too few runs have finished to say whether the results hold in other worlds." in published.text
    assert published.analysis.findings["worlds"]["spacious"]["moves / moves"] == {}
    assert published.plots == []


def test_a_run_that_failed_is_left_out(cfg):
    published = publish(
        worlds, cfg, PretendedTables(cfg.agents, lambda job: job.name == "spacious-moves-drest", ends())
    )
    assert "counts moves, DReST agents end useful and neutral in every world, 1 of 1." in published.text
    assert f"{SPACIOUS}, moves / moves" not in published.tables["DReST agents at the end of training, means of 3"]
    assert "nan" not in published.text
