"""The study of larger worlds: what its runs are, what an evaluation by size is, and what the report says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.size import runs, study
from tests.helpers.studies import composed, publish


class Finished:
    """Made-up results of every run; ``lost`` is part of the names of runs without one."""

    def __init__(self, lost: str = "none") -> None:
        self.lost = lost

    def get(self, job: Job) -> Result | None:
        if self.lost in job.name:
            return None
        if job.runner == runs.COST:
            side = int(job.name.removeprefix("cost-"))
            names = (*study.LEVEL_COSTS, *job.spec["configs"])
            return Result({"cells": side**2, "states": 100.0 * side, "seconds": dict.fromkeys(names, side / 1e3)})
        arrays = {}
        if "sizes" in job.spec:
            for side in job.spec["sizes"]["records"]:
                for name, mean in (("", 1 - int(side) / 20), ("random/", 0.1)):
                    for metric in study.MEASURES.values():
                        arrays[f"{side}/{name}{metric}"] = np.array([mean - 0.01, mean + 0.01])
            return Result({}, arrays)
        arrays = {f"test/{metric}": np.array([0.96, 0.98]) for metric in study.MEASURES.values()}
        return Result({"wall_seconds": 10.0, "env_steps": 2_500_000}, arrays)

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, result) for job in jobs if (result := self.get(job)) is not None]


def few(**values: Any) -> Any:
    cfg = composed("size")
    for name, value in values.items():
        cfg[name] = value
    return cfg


def test_its_runs_are_those_of_goals_agents_by_size_and_timings() -> None:
    jobs, costs = study.jobs(few()), ["cost-5", "cost-9", "cost-12"]
    assert [job.name for job in jobs] == ["PPO on large-0", "generalist", "generalist-buttons", "paper_like-0", *costs]
    records = jobs[1].spec["sizes"]["records"]
    assert records == jobs[2].spec["sizes"]["records"]
    assert (records["9"]["height"], records["9"]["shutdown"], records["9"]["delay"]) == ([9, 9], [4, 13], [2, 11])
    assert [job.name for job in study.jobs(few(chosen=[], pretrained=[], sides=[5]))] == ["cost-5"]
    with pytest.raises(ConfigError, match=r"^study.chosen with 'it'; expected some of exact gradients on large,"):
        study.jobs(few(chosen=["it"]))


def test_small_agents_are_evaluated_on_larger_maps_exactly_or_by_sampling(tmp_path: Path) -> None:
    cfg = few(chosen=[], sides=[5, 6, 7], exact_to=6, levels=3)
    job = study.jobs(cfg)[0]
    arrays = runs.shipped(job.spec, tmp_path).arrays
    assert len(arrays) == 3 * 2 * 2
    assert all(values.shape == (3,) for values in arrays.values())
    assert arrays["6/usefulness"].mean() > 2 * arrays["6/random/usefulness"].mean()
    job.spec["sizes"]["exact_to"] = 7
    exact = runs.shipped(job.spec, tmp_path).arrays
    assert np.array_equal(exact["6/usefulness"], arrays["6/usefulness"])
    assert not np.array_equal(exact["7/usefulness"], arrays["7/usefulness"])
    assert exact["7/usefulness"] == pytest.approx(arrays["7/usefulness"], abs=0.2)


def test_the_report_has_tables_by_size_and_what_it_costs() -> None:
    it = publish(study, few(), Finished())
    assert "Trained on large maps, every seed reaches the goal." in it.text
    assert it.tables["Usefulness by the side of the map"] == {
        "generalist": ["0.750", "0.550", "0.400"],
        "generalist-buttons": ["0.750", "0.550", "0.400"],
        "paper\\_like": ["0.750", "0.550", "0.400"],
        "random actions": ["0.100", "0.100", "0.100"],
    }
    cost = it.tables["Seconds by the side of the map"]
    assert cost["12"] == ["1,200", "12.00", "12.00", "12.00", "12000", "12000"]
    assert len(it.plots) == 3
    assert it.opens_with_its_answer()
    assert it.analysis.findings["sizes"]["generalist"]["neutrality"] == {"5": [0.75], "9": [0.55], "12": [0.4]}


@pytest.mark.parametrize("lost", ["PPO", "cost", "", "generalist"])
def test_the_report_comes_with_what_has_finished(lost: str) -> None:
    it = publish(study, few(), Finished(lost))
    assert it.text
    if not lost:
        assert it.plots == []
        assert "No training run on large maps has finished." in it.text
