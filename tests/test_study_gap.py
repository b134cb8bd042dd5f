"""The study of the preferential gap: which runs are planned, and what the report says of made-up results."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from drest_torch.choices import gap as choices
from drest_torch.choices.forks import designs
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.gap import runs
from drest_torch.studies.gap import study as gap
from drest_torch.studies.gap.analysis import Kind, Tables
from drest_torch.theory import balance
from tests.helpers.studies import composed_study, publish

TITLES = ["DReST", "DReST, not divided by m", "default reward"]


def few(**values: Any) -> Any:
    cfg = composed_study("gap")
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, {"seeds": 2}, values)


def in_forks(chooser: choices.Chooser, prefers: float = 1.0) -> np.ndarray:
    """What an archetype does in all forks, with a little of every option."""
    chances = choices.chances_of(chooser)
    mixed = prefers * chances + (1 - prefers) * choices.chances_of(choices.uniform)
    return np.repeat(mixed, len(designs()), 1)


def balanced(coins: np.ndarray, episodes: int = 64) -> np.ndarray:
    best = coins[:, 1:] == coins[:, 1:].max(-1, keepdims=True)
    p = balance(torch.tensor(coins[:, 0]), torch.tensor(coins[:, 1:].max(-1)), 0.9, episodes).numpy()
    return np.concatenate((1 - p[:, None], p[:, None] * best / best.sum(-1, keepdims=True)), -1)


class Finished:
    """Made-up results: agents choose as predicted, and those with a bit as it says."""

    def __init__(self, lost: str = "none", prefers: float = 0.99) -> None:
        self.lost, self.prefers = lost, prefers

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, result) for job in jobs if (result := self.get(job)) is not None]

    def get(self, job: Job) -> Result | None:
        if self.lost in job.name or self.lost == "all":
            return None
        if "x" in job.spec:
            x = torch.tensor(job.spec["x"], dtype=torch.float64)
            p = balance(1.0, x, 0.9, job.spec["training"]["episodes_per_meta"]).item()
            return Result({}, {"moves/p_length": np.full((1, 5, 2), [1 - p, p])})
        if job.spec.get("agent") == "generalist-bit":
            sides = np.array([[1.0, 0, 0, 1, 0], [0, 1, 0, 0, 1]])[:, None, None]
            return Result({}, {"forks": np.tile(sides, (1, len(choices.SETTINGS), len(designs()), 1))})
        title = job.name.rpartition("-")[0]
        chooser = {TITLES[1]: balanced, TITLES[2]: partial(choices.softmax, steepness=8.0)}.get(title, choices.over_m)
        arrays = {"forks": in_forks(chooser, self.prefers)[np.newaxis]}
        return Result({}, arrays | {f"test/{name}": np.ones(3) for name in ("usefulness", "neutrality")})


def test_each_kind_is_trained_the_same_but_for_its_reward() -> None:
    cfg = few()
    planned = gap.trained(cfg)
    assert list(planned) == TITLES
    assert {job.runner for several in planned.values() for job in several} == {runs.TRAINED}
    rewards = [planned[title][0].spec["config"]["reward"] for title in TITLES]
    assert [reward["divide_by_best"] for reward in rewards] == [True, False, False]
    assert [reward["lam"] for reward in rewards] == [0.9, 0.9, 1.0]
    assert [job.spec["config"]["seed"] for job in planned["DReST"]] == [0, 1]
    assert [gap.rewards(cfg, title) for title in [*TITLES, "other"]] == [
        gap.DIVIDED,
        gap.UNDIVIDED,
        gap.DEFAULT,
        gap.DIVIDED,
    ]
    tables = gap.table_jobs(cfg)
    assert {job.spec["training"]["episodes_per_meta"] for job in tables[32].values()} == {32}
    assert {job.spec["divisor"] for job in tables[64].values()} == {"none"}


def test_a_kind_that_there_is_not_gets_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^study.chosen with 'DReSt'; expected some of DReST,"):
        gap.jobs(few(chosen=["DReSt"]))


def test_agents_that_do_as_predicted() -> None:
    it = publish(gap, few(), Finished())
    assert it.opens_with_its_answer()
    assert len(it.plots) == 1
    row = it.tables["What the agents do in forks, ex ante"]["DReST"]
    assert row[:2] == ["2", "✓ 2 of 2"]
    found = it.analysis.findings
    kinds = {kind["title"]: kind for kind in found["kinds"]}
    assert kinds["DReST"]["seeds"][0]["ex_ante"]["ratio"] == pytest.approx(0, abs=0.05)
    assert (
        kinds[TITLES[1]]["reached"] == 2
    )  # by the trio alone this is a gap, too: its range and e_x say that it is not
    assert kinds[TITLES[1]]["seeds"][0]["ex_ante"]["e_cross"] == pytest.approx(0.594, rel=0.05)
    assert kinds[TITLES[2]]["reached"] == 0
    assert "100 % of the forks ex ante, 0 % given its private bits" in it.text
    assert [round(table["settled"], 1) for table in found["tables"]] == pytest.approx([25.9, 5.0], rel=0.05)
    assert [table["x_c"] for table in found["tables"]] == pytest.approx([27.63, 5.12], abs=0.01)
    trio = it.analysis.results.query("metric == 'trio' and variant == 'DReST'")
    assert len(trio) == 2 * len(designs())


def test_agents_that_hardly_prefer_miss_the_trio_and_are_counted() -> None:
    it = publish(gap, few(), Finished(prefers=0.5))
    assert "✗ 0 of 2" in it.tables["What the agents do in forks, ex ante"]["DReST"]
    assert "DReST: 0 of 2 seeds" in it.text


@pytest.mark.parametrize("lost", ["DReST", "tables", "the one with", "all"])
def test_the_report_of_some_runs(lost: str) -> None:
    it = publish(gap, few(), Finished(lost))
    assert ("No run has finished" in it.text) == (lost == "all")
    assert ("coins divided by m" in it.text.partition("What was asked")[0]) == (lost != "all")


def test_what_is_void_is_said() -> None:
    never = in_forks(choices.raw)[np.newaxis]
    lines = Kind("raw", gap.DEFAULT, [{"forks": never}]).void_lines()
    assert lines == [
        f"raw: 40 of 40 forks: no e_s: {choices.NEVER}.",
        f"raw: 40 of 40 forks: no e_x: {choices.NEVER}.",
    ]


def test_a_range_without_an_end_has_none() -> None:
    x = np.array([0.5, 1.0, 2.0])
    assert Tables(64, 0.9, x, np.full((3, 2), 0.5)).settled is None


@pytest.mark.slow
def test_an_agent_is_trained_and_asked(tmp_path: Any) -> None:
    cfg = composed_study("gap", "quick=true")
    cfg = OmegaConf.merge(cfg, cfg.quick)
    (job,) = gap.trained(cfg)["DReST"]
    found = runs.train(job.spec, tmp_path)
    assert found.arrays["forks"].shape == (1, len(choices.SETTINGS), len(designs()), 5)
    lengths = found.arrays["forks"][..., 3:].sum(-1)
    np.testing.assert_allclose(lengths, 1, atol=1e-9)
