"""The study posl: what its report says of agents that do, and do not, what is wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drest_torch.choices.archetypes import ARCHETYPES
from drest_torch.choices.prospects import RESIST_COSTS
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.posl import runs, study
from tests.helpers.studies import composed, publish


class Finished:
    """Arm D, and agents of gridworlds, answer as the ideal agent does, every other one maximises usefulness."""

    def __init__(self, lost: str = "none") -> None:
        self.lost = lost

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        found = []
        for job in jobs:
            arm = job.spec.get("arm", "gridworlds")
            arrays = runs.measured([ARCHETYPES["over m" if arm == "B" else "ideal"]] * 2, 30)
            arrays = {f"posl/{name}": values for name, values in arrays.items()} if arm == "gridworlds" else arrays
            if self.lost not in job.name:
                found.append((job, Result({}, arrays)))
        return found


def test_the_report_says_who_reaches_all() -> None:
    it = publish(study, composed("posl"), Finished())
    assert it.opens_with_its_answer()
    assert it.analysis.findings["reached"] == {"D": [2, 2], "B": [0, 2], "D, gridworlds": [2, 2]}
    assert "All agents of “D” and “D, gridworlds” lack a preference" in it.text
    assert "Not all agents of “B” do" in it.text


def test_without_runs_the_report_says_so() -> None:
    assert "No run has finished" in publish(study, composed("posl"), Finished("-")).text


@pytest.mark.parametrize(
    ("paid", "price"), [((1, 1, 0, 0, 0, 0, 0), 0.02), ((1, 0, 1, 0, 0, 0, 0), 0.05), ((1,) * 7, np.inf)]
)
def test_the_price_is_that_from_which_on_nothing_is_paid(paid: tuple[float, ...], price: float) -> None:
    numbers = {f"later/0.01/{cost:g}": np.array([rate]) for cost, rate in zip(RESIST_COSTS, paid, strict=True)}
    assert study.never(numbers, "later", 0.01) == [price]


def test_an_agent_of_gridworlds_is_asked_in_eight_symmetries_and_what_it_cannot_answer_is_void() -> None:
    arrays = runs.ask({"agent": "generalist", "pairs": 3}, Path()).arrays  # it observes no outcomes
    assert arrays["void/prospects"].tolist() == [15] * 8
    assert arrays["posl"].tolist() == [0] * 8


def test_an_arm_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="the arm 'Z'; expected some of"):
        study.arm_job(composed("posl"), "Z")
