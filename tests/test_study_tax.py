"""The tax's study: when an agent has become useful, and how two groups of agents compare in that."""

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.jobs.store import Store
from drest_torch.jobs.tabular_job import train
from drest_torch.report.tables import values
from drest_torch.studies.study import Finished, all_studies
from drest_torch.studies.tax import study as tax
from drest_torch.studies.tax.analysis import Agents, Case, Tax, join
from tests.helpers.studies import composed_study, publish


def quick(name):
    cfg = composed_study(name)
    return OmegaConf.merge(cfg, cfg.quick)


# ---------------------------------------------------------------------------------------------- ratio


def agents(slowness, final, longer=0.0):
    """Usefulness rises in a straight line, in 10 · slowness evaluations, to its final value."""
    episodes = np.arange(0, 500, 2)
    usefulness = np.minimum(episodes[:, None] / (10 * np.array(slowness)), 1) * final
    return Agents(episodes, usefulness, usefulness[-1], longer)


def test_the_ratio_is_that_of_the_median_times():
    cfg = OmegaConf.create({"headline": 0.5, "shares": [0.5, 0.8], "window": 1, "level": 0.95, "resamples": 100})
    found = Tax(Case("example", "moves", "moves", {}, {}), agents([4, 4, 4], 1.0), agents([4, 8, 8], 0.8), cfg)
    assert found.times("default", 0.5).tolist() == [20, 20, 20]
    assert found.times("drest", 0.5).tolist() == [20, 40, 40]
    assert found.ratios[0.5].estimate == 2
    assert (found.ratios[0.5].low, found.ratios[0.5].high) == (1, 2)
    assert found.ratios[0.8].estimate == 2
    assert found.later == pytest.approx(0.02)
    # Half of 1 is five eighths of 0.8.
    assert found.times("drest", 0.5, common=True).tolist() == [26, 50, 50]
    assert found.common.estimate == 2.5


# -------------------------------------------------------------------------------------------- report


def published(monkeypatch, drest, longer=None, final=1.0):
    """Publish agents whose slowness is 4 with the default reward and by world with DReST."""

    def compare(cfg, case, finished):
        default = agents([4, 4, 4], 1.0, (longer or {}).get(case.world, 0.0))
        return Tax(case, default, agents([drest[case.world]] * 3, final), cfg)

    cfg = quick("tax")
    cfg.headline, cfg.window = 0.5, 1
    monkeypatch.setattr(tax, "compare", compare)
    return publish(tax, cfg, None)


def slowness(example, fewer, spacious):
    return {"example": example, "fewer_for_longer": fewer, "spacious": spacious}


def test_a_tax_that_is_small_everywhere(monkeypatch):
    page = published(monkeypatch, slowness(4, 5.2, 3.2))
    words = page.text
    assert "On the paper's clocks the tax is small in every world." in words
    assert "takes 0.80 to 1.30 times the mini-episodes of the median default agent." in words
    assert "The ratio is largest in Fewer For Longer; up to 1.5 is called small." in words
    assert "Evaluated on moves, the tax is small in every world: 0.80 to 1.30 times" in words
    assert "at most 0.0 thousand mini-episodes more" in words
    here = "until 50 % DReST is slower in Fewer For Longer (1.30), and faster in Spacious (0.80);"
    assert here in words
    assert "it takes at most 1.5 times as long." in words
    assert "less useful than the median default agent in 0 of 3 worlds." in words
    assert page.tables["Mini-episodes, DReST ÷ default, moves / steps"]["Spacious"][0] == "0.80 (0.80-0.80)"
    assert page.analysis.findings["worlds"]["spacious"]["moves / steps"]["ratio"]["0.5"] == [0.8, 0.8, 0.8]
    rows = values(page.analysis.results, level="spacious", clocks="moves / steps", share=0.5, definition="own")
    assert rows.tolist() == [20, 20, 20, 16, 16, 16]
    assert [quote.measured for quote in page.analysis.quotes] == [
        "0.80 to 1.30, most in Fewer For Longer",
        "0.80 to 1.30, most in Fewer For Longer",
        "1.00 (1.00-1.00)",
    ]
    assert page.opens_with_its_answer()


@pytest.mark.slow
def test_a_tax_that_is_not(monkeypatch):
    words = published(monkeypatch, slowness(4, 4, 12), final=0.8).text
    assert "On the paper's clocks the tax is small in 2 of 3 worlds." in words
    assert "until 50 % DReST is slower in Spacious (3.00), and faster in no world;" in words
    assert "it takes at most 1.5 times as long except in Spacious (3." in words
    # The same mark for both is further away for agents that end less useful.
    assert "final usefulness, the tax on the paper's clocks is small in 2 of 3 worlds: 1.30 to 3.80 times" in words
    assert "less useful than the median default agent in 3 of 3 worlds." in words


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("spacious", "share", "words"),
    [
        (2, 1.0, "In the median the tax is higher where default agents learn the shorter trajectory only."),
        (8, 1.0, "In the median the tax is higher where default agents learn the longer trajectory."),
        (4, 1.0, "In the median the two kinds of worlds do not differ."),
        (8, 0.0, None),
    ],
)
def test_worlds_of_two_kinds_are_compared(monkeypatch, spacious, share, words):
    text = published(monkeypatch, slowness(4, 4, spacious), longer={"spacious": share}).text
    assert ("A DReST agent has two trajectories to learn" in text) == (words is not None)
    assert words is None or words in text


def test_nothing_is_claimed_without_runs(tmp_path):
    page = publish(tax, quick("tax"), Finished(Store(tmp_path)))
    assert "Too few runs have finished to say whether the tax is small." in page.text
    assert page.plots == []
    assert page.analysis.results.empty


# --------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("changed", [False, True])
def test_the_runs_are_those_of_the_other_studies(changed):
    configs = {name: quick(name) if changed else composed_study(name) for name in ("tax", "example", "worlds")}
    found = {name: {job.digest() for job in all_studies()[name].jobs(cfg)} for name, cfg in configs.items()}
    own = [job for job in tax.jobs(configs["tax"]) if not job.name.endswith("-early")]
    assert own
    assert {job.digest() for job in own} <= found["example"] | found["worlds"]


def test_the_first_mini_episodes_are_done_again_by_the_same_agents(tmp_path):
    cfg = quick("tax")
    cfg.worlds = []
    case = tax.cases(cfg)[0]
    whole, early = (train(each["drest"].spec, tmp_path) for each in (case.jobs, case.early))
    shared = np.isin(whole.arrays["episodes"], early.arrays["episodes"])
    again = np.isin(early.arrays["episodes"], whole.arrays["episodes"])
    assert shared.sum() >= 2
    name = "steps/usefulness"
    np.testing.assert_array_equal(whole.arrays[name][shared], early.arrays[name][again])
    joined = join(cfg, case, whole, early)
    assert (np.diff(joined.episodes) > 0).all()
    assert joined.usefulness.shape == (len(joined.episodes), cfg.agents)
    assert set(joined.episodes) == set(whole.arrays["episodes"]) | set(early.arrays["episodes"])


def test_runs_that_failed_are_missing_and_nothing_else(tmp_path):
    cfg = quick("tax")
    cfg.worlds = []
    store = Store(tmp_path)
    assert tax.analyse(cfg, Finished(store)).findings.get("worlds") is None
    case = tax.cases(cfg)[0]
    store.put(case.jobs["default"], train(case.jobs["default"].spec, tmp_path), seconds=1)
    assert tax.analyse(cfg, Finished(store)).findings.get("worlds") is None  # there is nothing to compare it with
    store.put(case.jobs["drest"], train(case.jobs["drest"].spec, tmp_path), seconds=1)
    found = tax.analyse(cfg, Finished(store)).findings["worlds"]
    assert list(found["example"]) == ["moves / moves", "moves / steps"]
