"""Lengths that are a matter of luck: the closed forms, what is climbed to, and what the report says."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.choices import shift
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.lotteries import study as lotteries
from drest_torch.studies.lotteries import worlds
from tests.helpers.studies import composed_study, publish

LAM = 0.9


def mean_reward(first: float, second: float, share: float, cost: float, taken: int, episodes: int) -> float:
    """The mean reward of the last mini-episode if an option is taken in it, from all earlier lengths, one by one."""
    longer = (1 - share) * first + share * second
    chance = second if taken else first
    coins = 1 - cost if taken else 1.0
    total = 0.0
    for earlier in itertools.product((0, 1), repeat=episodes - 1):
        weight = np.prod([longer if length else 1 - longer for length in earlier])
        for length, of_length in ((0, 1 - chance), (1, chance)):
            total += weight * of_length * coins * LAM ** (earlier.count(length) - (episodes - 1) / 2)
    return float(total)


def test_both_options_pay_the_same_where_the_agent_is_at_rest() -> None:
    first, second, cost, episodes = 0.1, 0.8, 0.02, 6
    share = shift.share_of_costly(first, second, cost, LAM, episodes)
    assert 0.05 < share < 0.95
    sums = [
        sum(mean_reward(first, second, share, cost, taken, place) for place in range(1, episodes + 1))
        for taken in (0, 1)
    ]
    assert sums[0] == pytest.approx(sums[1], rel=1e-9)


@pytest.mark.parametrize(
    ("pair", "limits"),
    [
        ((0.1, 0.5), [0.245, 0.460, 0.696]),
        ((0.1, 0.9), [0.394, 0.630, 0.821]),
        ((0.01, 0.99), [0.531, 0.789, 0.951]),
        ((0.4, 0.5), [0.016, 0.033, 0.065]),
        ((0.5, 0.9), [0, 0, 0]),
    ],
    ids=str,
)
def test_the_largest_costs(pair: tuple[float, float], limits: list[float]) -> None:
    for episodes, limit in zip((16, 32, 64), limits, strict=True):
        found = shift.cost_limit(*pair, LAM, episodes)
        assert found == pytest.approx(limit, abs=6e-4)
        mirrored = shift.cost_limit(1 - pair[0], 1 - pair[1], LAM, episodes)
        assert mirrored == pytest.approx(found, abs=1e-12)
        if found:
            assert shift.share_of_costly(*pair, found + 1e-6, LAM, episodes) == 0
            assert shift.share_of_costly(*pair, found - 1e-3, LAM, episodes) > 0


def test_agents_climb_to_the_closed_form_in_gridworlds() -> None:
    spec = {"lam": LAM, "episodes": 24, "steps": 240, "lr": [0.1, 1.0, 0.001]}
    costs, pair = (0.1, 0.3), (0.1, 0.9)
    levels = [worlds.corridors(*pair, cost) for cost in costs]
    levels += [worlds.corridors(*pair[::-1], costs[0]), worlds.button(0.5)]
    found = {
        objective: worlds.climb(spec | {"levels": levels, "objective": objective}, Path()).arrays
        for objective in worlds.OBJECTIVES
    }
    longer = found["DReST"]["p_length"][:, 1]
    for place, cost in enumerate(costs):
        expected = shift.share_of_costly(*pair, cost, LAM, 24)
        assert 0.05 < expected < 0.5
        assert (longer[place] - 0.1) / 0.8 == pytest.approx(expected, abs=2e-3)
    assert longer[2] == pytest.approx(1 - longer[0], abs=2e-3)
    assert longer[3] == pytest.approx(shift.pressed(0.5, LAM, 24), abs=2e-3)
    useful = (found["DReST"]["p_length"][3] * found["DReST"]["share"][3]).sum()
    assert useful == pytest.approx(1 - longer[3], abs=2e-3)
    assert found["Neutrality+"]["p_length"][:2, 1] == pytest.approx([0.1, 0.1], abs=5e-3)
    assert found["coins"]["p_length"][:2, 1] == pytest.approx([0.9, 0.9], abs=5e-3)


class Finished:
    """Made-up results: DReST agents are ``off`` the closed form by so much, and the others never pay."""

    def __init__(self, cfg: Any, off: float, lost: str = "none") -> None:
        self.cfg, self.off, self.lost = cfg, off, lost

    def get(self, job: Job) -> Result | None:
        if self.lost in job.name:
            return None
        shares = np.zeros(len(self.cfg.costs))
        if job.spec["objective"] == "DReST":
            shares = np.array(lotteries.predicted(self.cfg, job.spec["episodes"])) + self.off
        longer = np.append(0.1 + 0.8 * shares, [0.2] * len(self.cfg.buttons))
        arrays = {"p_length": np.stack((1 - longer, longer), -1), "share": np.full((len(longer), 2), 0.5)}
        return Result({}, arrays)


def few(**values: Any) -> Any:
    cfg = composed_study("lotteries")
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, values)


def test_the_report_follows_from_the_numbers() -> None:
    cfg = few()
    text = publish(lotteries, cfg, Finished(cfg, 0.0)).text
    assert "DReST agents pay to even it out" in text
    assert "up to 82 % of all coins" in text
    assert "differs from it by less than 0.0001" in text
    assert "has a usefulness of 0.500" in text
    wrong = publish(lotteries, cfg, Finished(cfg, 0.05)).text
    assert "differ by up to 0.050: these agents are not at rest" in wrong
    assert "No run has finished" in publish(lotteries, cfg, Finished(cfg, 0.0, lost="DReST")).text
