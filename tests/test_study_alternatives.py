"""The study alternatives: what its report says of better and worse rivals."""

from __future__ import annotations

import numpy as np
import pytest

from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.alternatives import study
from tests.helpers.studies import composed_study, publish


class Finished:
    """On unseen levels the rival is better by this much, in every seed; nothing else was run."""

    def __init__(self, rival: str, better: float) -> None:
        self.rival, self.better = rival, better

    def get(self, job: Job) -> Result | None:
        return None

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        made = []
        for seed, job in enumerate(jobs):
            title = job.name.rsplit("-", 1)[0]
            if title in ("DReST", self.rival):
                value = 0.9 + 0.001 * seed + (self.better if title == self.rival else 0)
                arrays = {f"test/{name}": np.full(4, value) for name in ("usefulness", "neutrality")}
                numbers = {"wall_seconds": 1.0, "splits": {"test": {"neutrality_own": value}}}
                made.append((job, Result(numbers, arrays)))
        return made


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("better", "says", "findings"),
    [
        (
            0.02,
            "1 alternative has a larger mean of usefulness and neutrality than DReST, by at most 0.020 (U × N).",
            "better",
        ),
        (-0.02, "1 alternative has a smaller one, by up to 0.020 (U × N).", "worse"),
        (0.001, "No difference is shown for 1 alternative (U × N).", "alike"),
    ],
)
def test_the_report_says_who_is_better(better: float, says: str, findings: str) -> None:
    it = publish(study, composed_study("alternatives"), Finished("U × N", better))
    assert it.opens_with_its_answer()
    assert it.analysis.findings[findings] == ["U × N"]
    assert says in " ".join(it.text.split())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("study.with_bit=[nobody]", "study.with_bit with 'nobody'; expected some of DReST"),
        ("study.rivals.DReST.at=5", "'DReST' with at=5; expected one of its values"),
        ("+study.rivals.DReST.colour=red", "'DReST' has the key 'colour'"),
    ],
)
def test_what_there_is_not_gets_one_sentence(change: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        study.jobs(composed_study("alternatives", change))
