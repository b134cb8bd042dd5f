"""λ × E: corners of the table are compared as they should be, and the two exact tables are right."""

import numpy as np
import pytest
import torch

from drest_torch.errors import ConfigError
from drest_torch.reward import sequential_discount
from drest_torch.studies.lambda_meta import study as lambda_meta
from drest_torch.studies.lambda_meta.study import corner, grid, incentive, largest_discount
from tests.helpers.studies import Pretended, composed, drawn, written


def test_every_agent_plays_as_many_mini_episodes():
    cfg = composed("lambda_meta")
    jobs = lambda_meta.jobs(cfg)
    assert len(jobs) == len(cfg.lams) * len(cfg.sizes) + len(cfg.unclipped)
    for job in jobs:
        training = job.spec["training"]
        assert training["meta_episodes"] * training["episodes_per_meta"] == cfg.mini_episodes
        assert training["evaluate_every"] >= training["meta_episodes"]
        assert (training["clip"] is None) == ("unclipped" in job.name)


def test_a_size_that_does_not_divide_is_refused():
    cfg = composed("lambda_meta")
    cfg.sizes = [8, 60]
    with pytest.raises(ConfigError, match="60"):
        lambda_meta.jobs(cfg)


def test_a_corner_and_the_rest():
    values = np.arange(12.0).reshape(3, 4)
    small = corner(values, large_lam=True, large_size=False, width=1)
    assert (small.inside, small.outside) == (8.0, pytest.approx((66 - 8) / 11))
    large = corner(values, large_lam=False, large_size=True, width=2)
    assert (large.inside, large.outside) == ((2 + 3 + 6 + 7) / 4, (66 - 18) / 8)
    assert large.lower
    assert corner(values[:1, :1], large_lam=True, large_size=True) is None


def test_missing_cells_are_left_out():
    values = np.array([[1.0, np.nan], [np.nan, 4.0]])
    found = corner(values, large_lam=True, large_size=True, width=1)
    assert (found.inside, found.outside) == (4.0, 1.0)
    assert corner(values, large_lam=True, large_size=False, width=1) is None


def test_the_grid_has_a_row_for_each_lambda():
    cfg = composed("lambda_meta")
    pretended = Pretended(cfg.agents)
    found = {cell: pretended.get(lambda_meta._job(cfg, cell, 5.0)) for cell in [(0.5, 8), (0.9, 64)]}
    values = grid(found, [0.5, 0.9], [8, 64, 256], "moves", "usefulness")
    assert values.shape == (2, 3)
    assert np.isnan(values).tolist() == [[False, True, True], [True, False, True]]
    assert values[1, 1] == found[0.9, 64].arrays["moves/usefulness"][-1].mean()


def test_the_incentive_grows_with_the_size_and_falls_with_lambda():
    sizes, lams = (2, 8, 64), (0.5, 0.9, 0.99)
    values = np.array([[incentive(lam, size) for size in sizes] for lam in lams])
    assert (values > 1).all()
    assert (np.diff(values, axis=1) > 0).all()
    assert (np.diff(values, axis=0) < 0).all()
    # E = 2: 1 + λ^(−½) · (1 − p(1−λ)), for each.
    rare, common = (1 + 0.5**-0.5 * (1 - p / 2) for p in (0.01, 0.99))
    assert incentive(0.5, 2) == pytest.approx(rare / common)


def test_the_largest_discount_is_the_largest():
    before = torch.arange(8, dtype=torch.float64)
    every = sequential_discount(before.unsqueeze(-1), before, 2, 0.7)[before.unsqueeze(-1) <= before]
    assert every.max().item() == pytest.approx(largest_discount(0.7, 8))


@pytest.mark.parametrize("lost", ["-", "unclipped", "E=64", "lambda=0.5", "=", "nothing"])
def test_the_report_with_all_runs_and_with_some(lost, tmp_path, monkeypatch):
    cfg = composed("lambda_meta")
    report = lambda_meta.report(cfg, Pretended(cfg.agents, lambda job: lost in job.name))
    assert drawn(report) == (0 if lost in "-=" else 4)
    page = written(report, tmp_path / "page.html", monkeypatch)
    assert "nan" not in page
    if lost == "nothing":
        assert len(report.quotes) == 4
        assert {*report.numbers["statements"]} == {"steps", "moves"}


def test_a_sweet_spot_is_called_one_only_if_it_is():
    said = {
        clock: {
            "small_E_large_lambda_neutrality": [0.9, 0.8],
            "sweet_spot": [0.995, usefulness],
            "good_cells": [],
            "cells": 9,
        }
        for clock, usefulness in (("steps", 0.9), ("moves", 0.9))
    }
    (items,) = lambda_meta._checked(said)
    assert ["not so" in item for item in items.items] == [True, True]
    said["moves"]["sweet_spot"] = [0.995, 0.995]
    (items,) = lambda_meta._checked(said)
    assert ["so it is" in item for item in items.items] == [False, True]
