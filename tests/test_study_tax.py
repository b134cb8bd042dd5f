"""The tax's study: when an agent has become useful, and how two groups of agents compare in that."""

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.jobs.store import Store
from drest_torch.jobs.tabular_job import train
from drest_torch.statistics.hitting_times import hitting_times, moving_average
from drest_torch.studies.study import Finished, all_studies
from drest_torch.studies.tax import study as tax
from drest_torch.studies.tax.study import Agents, Case, Tax
from tests.helpers.studies import composed_study

EPISODES = np.arange(6) * 10


def column(*values):
    return np.array(values, float)[:, None]


def quick(name):
    cfg = composed_study(name)
    return OmegaConf.merge(cfg, cfg.quick)


# ---------------------------------------------------------------------------------------------- times


def test_moving_average_is_centred_and_shorter_at_the_ends():
    values = column(1, 2, 6, 4, 5, 9)
    np.testing.assert_allclose(moving_average(values, 3)[:, 0], [1, 3, 4, 5, 6, 9])
    np.testing.assert_allclose(moving_average(values, 5)[:, 0], [1, 3, 18 / 5, 26 / 5, 6, 9])
    np.testing.assert_array_equal(moving_average(values, 1), values)


def test_moving_average_leaves_a_straight_line_where_it_is():
    line = column(*range(20))
    np.testing.assert_allclose(moving_average(line, 7), line)


@pytest.mark.parametrize(
    ("values", "for_good", "first"),
    [
        ((0, 0.5, 1, 1, 1, 1), 20, 20),
        ((0, 1, 0, 1, 1, 1), 30, 10),
        ((1, 1, 1, 1, 1, 1), 0, 0),
        ((0, 1, 1, 1, 1, 0), np.inf, 10),
        ((0, 0.8, 0.8, 0.8, 0.8, 0.8), np.inf, np.inf),
        ((0, 0.9, 0.9, 0.9, 0.9, 0.9), 10, 10),
    ],
)
def test_the_time_until_a_mark(values, for_good, first):
    assert hitting_times(EPISODES, column(*values), 0.9, window=1) == [for_good]
    assert hitting_times(EPISODES, column(*values), 0.9, window=1, for_good=False) == [first]


def test_every_agent_has_its_own_mark():
    usefulness = np.array([[0, 0, 0], [0.4, 0.4, 0], [0.8, 0.8, 0]])
    times = hitting_times(EPISODES[:3], usefulness, np.array([0.4, 0.5, 0.0]), window=1)
    assert times.tolist() == [10, 20, np.inf]  # an agent of no use has not become useful


def test_the_moving_average_overlooks_a_single_evaluation():
    usefulness = column(0, 1, 0, 0, 0, 1, 1, 1, 1, 1)
    episodes = np.arange(10)
    assert hitting_times(episodes, usefulness, 0.6, window=1, for_good=False) == [1]
    assert hitting_times(episodes, usefulness, 0.6, window=3, for_good=False) == [5]


# ---------------------------------------------------------------------------------------------- ratio


def agents(slowness, final):
    """Usefulness rises in a straight line, in 10 · slowness evaluations, to its final value."""
    episodes = np.arange(0, 500, 2)
    usefulness = np.minimum(episodes[:, None] / (10 * np.array(slowness)), 1) * final
    return Agents(episodes, usefulness, usefulness[-1], 0.0)


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
    case = tax._cases(cfg)[0]
    whole, early = (train(each["drest"].spec, tmp_path) for each in (case.jobs, case.early))
    shared = np.isin(whole.arrays["episodes"], early.arrays["episodes"])
    again = np.isin(early.arrays["episodes"], whole.arrays["episodes"])
    assert shared.sum() >= 2
    name = "steps/usefulness"
    np.testing.assert_array_equal(whole.arrays[name][shared], early.arrays[name][again])
    joined = tax._agents(cfg, case, whole, early)
    assert (np.diff(joined.episodes) > 0).all()
    assert joined.usefulness.shape == (len(joined.episodes), cfg.agents)
    assert set(joined.episodes) == set(whole.arrays["episodes"]) | set(early.arrays["episodes"])


def test_runs_that_failed_are_missing_and_nothing_else(tmp_path):
    cfg = quick("tax")
    cfg.worlds = []
    store = Store(tmp_path)
    assert tax.report(cfg, Finished(store)).numbers.get("worlds") is None
    case = tax._cases(cfg)[0]
    store.put(case.jobs["default"], train(case.jobs["default"].spec, tmp_path), seconds=1)
    assert tax.report(cfg, Finished(store)).numbers.get("worlds") is None  # there is nothing to compare it with
    store.put(case.jobs["drest"], train(case.jobs["drest"].spec, tmp_path), seconds=1)
    found = tax.report(cfg, Finished(store)).numbers["worlds"]
    assert list(found["example"]) == ["moves / moves", "moves / steps"]
