"""Tasks beyond gridworlds: which runs are planned, and what the report says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.jobs.job import Job, Result
from drest_torch.studies.beyond import study as beyond
from tests.helpers.studies import composed_study, publish

CHOSEN = ["CartPole", "CartPole with three lengths"]


def few(**values: Any) -> Any:
    cfg = composed_study("beyond")
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, {"chosen": CHOSEN, "seeds": 2}, values)


class Finished:
    """Made-up results: DReST agents choose all lengths alike, the others the longest, and get 90 % of m."""

    def __init__(self, neutral: float = 1.0, lost: str = "none") -> None:
        self.neutral, self.lost = neutral, lost

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, self.result(job)) for job in jobs if self.lost not in job.name]

    def result(self, job: Job) -> Result:
        cfg = job.spec["config"]
        lengths = np.cumsum([cfg["env"]["base"], *cfg["env"]["delays"]]).astype(float)
        k, longest = len(lengths), np.eye(len(lengths))[-1:]
        chance = np.full((1, k), 1 / k) if cfg["reward"]["name"] == "drest" else longest
        arrays = {
            "test/usefulness": np.array([0.9]),
            "test/neutrality_normalised": np.array([self.neutral if chance[0, 0] else 0.0]),
            "test/lengths": lengths,
            "test/p_length": chance,
            "test/best_return": lengths[np.newaxis],
            "test/return_given_length": 0.9 * lengths[np.newaxis] * (chance > 0),
            "steps": np.array([0, 1_000_000]),
            f"eval/test/p_length/{lengths[-1]:g}": np.array([0.5, chance[0, -1]]),
        }
        return Result({"wall_seconds": 60.0, "env_steps": 1_200_000}, arrays)


def test_each_task_is_trained_with_both_rewards_and_otherwise_the_same() -> None:
    jobs = beyond.jobs(few())
    names = [f"{title}{end}-{seed}" for title in CHOSEN for end in ("", ", default reward") for seed in (0, 1)]
    assert [job.name for job in jobs] == names
    with_drest, default = (jobs[i].spec["config"] for i in (0, 2))
    assert (with_drest["reward"].pop("name"), default["reward"].pop("name")) == ("drest", "default")
    differs = {key for key in with_drest["reward"] if with_drest["reward"][key] != default["reward"][key]}
    assert differs == {"lam", "divide_by_best"}
    assert {key: value for key, value in with_drest.items() if key != "reward"} == {
        key: value for key, value in default.items() if key != "reward"
    }
    assert jobs[4].spec["config"]["env"]["delays"] == [100, 100]


def test_both_rewards_stand_side_by_side() -> None:
    analysis = beyond.analyse(few(), Finished())  # type: ignore[arg-type]
    rows = analysis.tables["lengths"].rows
    assert [row[1:] for row in rows[:2]] == [
        ["100", "0.500", "0.000", "90.0", "–", "0.900"],
        ["200", "0.500", "1.000", "180.0", "180.0", "0.900"],
    ]
    assert len(rows) == 5
    assert analysis.names["delays"] == dict.fromkeys(CHOSEN, 1.0)
    assert analysis.names["wanted"] == 2
    assert analysis.names["complete"] == 1  # 0.9 is enough for three lengths, and not for two


@pytest.mark.parametrize("lost", ["none", "default", "CartPole"])
def test_the_report_says_what_was_found(lost: str) -> None:
    cfg = few(goals={"CartPole": {"wanted": {"test": {"usefulness": 0.85}}}})
    it = publish(beyond, cfg, Finished(lost=lost))
    assert it.plots or lost == "CartPole"
    answer = "No run has finished" if lost == "CartPole" else "every seed becomes as useful and neutral as is wanted"
    assert answer in it.text
    said = "With the default reward, the longest length has the probability 1.000" in it.text
    assert said == (lost == "none")


def test_a_goal_that_is_missed_is_named() -> None:
    assert "Some miss it in CartPole" in publish(beyond, few(), Finished(neutral=0.5)).text
