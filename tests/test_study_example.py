"""The running example: the comparison with the paper, and what the report says of each outcome."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from drest_torch.jobs.job import Result
from drest_torch.report.tables import values
from drest_torch.studies.example import analysis
from drest_torch.studies.example import study as example
from tests.helpers.clock_pairs import PretendedTables
from tests.helpers.studies import composed, publish

RECOMMENDED = "random play first"


@pytest.fixture(scope="module")
def cfg():
    return composed("example")


GOOD = {"neutrality": 1.0, "usefulness": 1.0, "p_length": [0.5, 0.5]}
POOR = {"neutrality": 0.01, "usefulness": 0.6, "p_length": [0.999, 0.001]}
AS_PAPER = {
    "default": {"steps/neutrality": [0.19, 0.2, 0.21], "steps/usefulness": 0.9364, "p_length": [0.03, 0.97]},
    "drest": {"neutrality": [0.993, 0.995, 0.996], "moves/usefulness": 1.0, "steps/usefulness": [0.89, 0.9, 0.91]},
}


def ends(**changed):
    """Return ends as the paper has them, and agents that collapse on steps until cured; ``changed`` is by label."""

    def of(job):
        for label, numbers in changed.items():
            if job.name.startswith(label.replace("_", "-")):
                return numbers
        if job.spec["clock"] == "moves":
            return AS_PAPER["drest" if job.name.endswith("drest") else "default"]
        return GOOD if job.name.startswith("cure-6") else POOR

    return of


def text(cfg, **changed):
    return publish(example, cfg, PretendedTables(cfg.agents, ends=ends(**changed))).text


# ---------------------------------------------------------------------------------------- analysis


def column(metric, numbers):
    return pd.DataFrame({"metric": metric, "value": numbers})


def test_means_are_compared_with_the_paper_s_in_standard_errors():
    frame = pd.concat([column("neutrality", [0.9, 1.0, 0.2]), column("usefulness", [0.9, 0.9, 0.9])])
    few, every, *_ = analysis.comparisons(frame, "drest", 2)
    assert (few["agents"], few["mean"], every["agents"]) == (2, 0.95, 3)
    sd = 0.1 / math.sqrt(2)
    assert few["standard_errors"] == pytest.approx((0.9945 - 0.95) / math.hypot(sd / math.sqrt(2), 0.0052 / 10**0.5))
    assert math.isnan(analysis.comparisons(frame, "drest", 1)[0]["standard_errors"])


def test_the_paper_is_reproduced_by_the_first_agents_only():
    rows = [{"standard_errors": errors} for errors in (1.9, 50.0, 2.1, 0.0, math.nan, 0.0)]
    assert analysis.reproduced(rows) == {"close": 1, "of": 3}


def test_default_agents_of_either_kind():
    frame = pd.concat([column("neutrality", [0.2, 0.3, 0.01, 0.03]), column("p_longer", [0.9, 0.8, 0.1, 0.1])])
    lengths = analysis.default_lengths(frame)
    assert lengths["share"] == 0.5
    assert lengths["neutrality"][0] == pytest.approx(0.25)
    assert lengths["neutrality_shorter"][0] == pytest.approx(0.02)
    assert lengths["all_of_ten"] == 0.5**10


def collapsing(p_longer, share_longer):
    p = np.array(p_longer, float)[:, None].repeat(3, 1)
    shares = np.stack((np.full(p.shape, 0.75), np.array(share_longer, float)[:, None].repeat(3, 1)), -1)
    arrays = {
        "episodes": np.arange(len(p)) * 100,
        "steps/p_length": np.stack((1 - p, p), -1),
        "steps/share_of_best": shares,
    }
    return Result({}, arrays)


@pytest.mark.parametrize(
    ("p_longer", "mini_episodes", "share"),
    [
        ([0.5, 0.005, 0.2, 0.001, 0.0], 300, 0.4),
        ([0.004, 0.003, 0.0003, 0.0, 0.0], 200, 0.3),
        ([0.5, 0.0, 0.0, 0.0, 0.06], None, None),
        ([0.004, 0.003, 0.003, 0.002, 0.002], None, None),
    ],
)
def test_when_the_longer_trajectory_is_given_up_for_good(p_longer, mini_episodes, share):
    numbers = analysis.collapse(collapsing(p_longer, [0.1, 0.2, 0.3, 0.4, 0.5]))
    assert numbers["mini_episodes"] == mini_episodes
    assert numbers.get("share_longer") == (None if share is None else pytest.approx(share))
    assert numbers["final_p_longer"] == p_longer[-1]


# ------------------------------------------------------------------------------------------ report


def test_the_report_when_all_is_as_in_the_paper(cfg):
    published = publish(example, cfg, PretendedTables(cfg.agents, ends=ends()))
    words = published.text
    assert "DReST agents become useful and neutral when they are trained and evaluated" in words
    assert "on a clock that counts moves: 100 % of 3 agents have" in words
    assert "The paper's numbers are reproduced when the same agents" in words
    assert "4 of 4 means of the first 2 agents are within 2 standard errors of the paper's." in words
    assert "With these clocks all of the paper's 4 means appear in the first 2 agents." in words
    assert "is 1.000 when evaluated on moves, and 0.900 when evaluated on every step." in words
    assert "So the clock of evaluation explains the usefulness that is missing in the reported numbers" in words
    assert "100 % collapse onto one length (neutrality below 0.1); mean P(longer) is 0.001" in words
    assert "so most of them choose the shorter trajectory." in words
    assert "From mini-episode 2,048 on, it stays below 10 % of its first value." in words
    assert f"These changes prevent it: {RECOMMENDED} (4,096 mini-episodes)." in words
    assert f"The last change in the table, {RECOMMENDED}, prevents the collapse: 100 % of 3 agents" in words
    assert "With that gradient, random play does not prevent the collapse." in words
    assert "All default agents prefer the longer trajectory. Their neutrality is 0.200 ± 0.010" in words
    assert "nan" not in words
    row = published.tables["The end of training: trained on moves, evaluated on every step"]["DReST"]
    assert row == ["usefulness", "0.900 ± 0.011", "0.8950 ± 0.0071", "✓ 0.8", "0.9000 ± 0.0100", "✓ 0.0"]
    assert published.opens_with_its_answer()
    alts = " ".join(plot.alt for plot in published.plots)
    assert "P(longer) on a logarithmic scale; the median agent ends at 0.001." in alts
    assert "neutrality over training, moves / steps: default ends at 0.20; DReST ends at 0.99." in alts


def test_a_paper_that_is_not_reproduced(cfg):
    words = text(cfg, as_in_paper_moves_drest=POOR)
    assert "DReST agents do not become useful and neutral as a group when they are trained" in words
    assert "on a clock that counts moves: 0 % of 3 agents" in words
    assert "The paper's numbers are not all reproduced" in words
    assert "2 of 4 means of the first 2 agents are within" in words
    assert "With these clocks 2 of the paper's 4 means appear" in words
    assert "So the clock of evaluation does not make these agents look less useful." in words


def test_agents_that_are_poor_on_both_clocks(cfg):
    words = text(cfg, as_in_paper_moves_drest={"neutrality": 1.0, "moves/usefulness": 0.9, "steps/usefulness": 0.8})
    assert "but not all of these agents are useful and neutral on moves either." in words
    assert "comes from the clock of evaluation" not in words


@pytest.mark.parametrize(
    ("p_longer", "words"),
    [
        ([0.0, 0.2, 0.4], "No default agent prefers the longer trajectory."),
        (
            [0.9, 0.9, 0.2],
            "67 % of them prefer the longer trajectory, with neutrality 0.195 ± 0.007.",
        ),
    ],
)
def test_what_default_agents_prefer(cfg, p_longer, words):
    chances = [[1 - p, p] for p in p_longer]
    assert words in text(cfg, as_in_paper_moves_default=AS_PAPER["default"] | {"p_length": chances})


@pytest.mark.parametrize(
    ("end", "collapse", "given_up"),
    [
        (GOOD, "None of them collapses onto one length", "does not give up the longer trajectory: its P(longer) is"),
        (
            GOOD | {"neutrality": [0.01, 1, 1]},
            "33 % collapse onto one length (neutrality below 0.1).",
            "does not give up the longer trajectory",
        ),
        (
            POOR | {"p_length": [0.001, 0.999]},
            "so most of them choose the longer trajectory.",
            "does not give up the longer trajectory",
        ),
        (
            POOR | {"steps/share_of_best": [0.9, 0.2]},
            "100 % collapse",
            "stop pressing the button before",
        ),
        (
            POOR | {"steps/share_of_best": [0.5, 0.9]},
            "100 % collapse",
            "do not stop pressing the button",
        ),
    ],
)
def test_the_collapse_on_every_step(cfg, end, collapse, given_up):
    words = text(cfg, as_in_paper_steps_drest=end)
    assert collapse in words
    assert given_up in words


@pytest.mark.slow
def test_changes_that_mend_and_that_do_not(cfg):
    words = text(cfg, cure_3=GOOD, cure_5=GOOD)
    long, exact = list(cfg.cures)[3], list(cfg.cures)[5]
    assert (
        f"prevent it: {long} (8,192 mini-episodes); {exact} (4,096 mini-episodes); "
        f"{RECOMMENDED} (4,096 mini-episodes). These do not: {next(iter(cfg.cures))}; " in words
    )
    assert "Of the changes that do, it takes the fewest mini-episodes." in words
    assert "With that gradient, random play prevents the collapse all the same." in words
    assert "it does not take the fewest mini-episodes." in text(cfg, cure_0=GOOD)
    words = text(cfg, cure_6=POOR)
    assert "No change prevents it." in words
    assert f"{RECOMMENDED}, does not prevent the collapse: 0 % of 3 agents" in words


def test_results_and_quotes(cfg):
    published = publish(example, cfg, PretendedTables(cfg.agents, ends=ends()))
    results = published.analysis.results
    assert set(results["variant"]) == {job.name for job in example.jobs(cfg)}
    rows = values(results, change="", clocks="moves / steps", reward="drest", metric="usefulness")
    assert rows.tolist() == [0.89, 0.9, 0.91]
    findings = published.analysis.findings
    assert findings["clocks"]["moves / moves"]["drest"]["usefulness"] == [1.0, 0.0]
    assert findings["cures"][RECOMMENDED]["both"] == 1
    measured = [quote.measured for quote in published.analysis.quotes]
    assert measured == [
        "N 0.195 ± 0.007, U 0.936 ± 0.000",
        "N 0.994 ± 0.001, U 0.895 ± 0.007",
        "N 0.995 ± 0.002, U 1.000 ± 0.000; both ≥ 0.99 in 3",
        "N 0.010 ± 0.000, U 0.600 ± 0.000",
        "N 1.000 ± 0.000, U 1.000 ± 0.000; both ≥ 0.99 in 3",
    ]


@pytest.mark.parametrize("lost", ["", "as-in-paper-moves", "as-in-paper-steps", "drest", "default", "cure-6"])
def test_the_report_comes_whatever_is_missing(cfg, lost):
    published = publish(example, cfg, PretendedTables(cfg.agents, lambda job: lost in job.name, ends()))
    assert "nan" not in published.text
    assert ("Too few runs have finished to answer." in published.text) == (lost in ("", "as-in-paper-moves"))
    assert ("The last change in the table" in published.text) == (lost not in ("", "drest", "cure-6"))
