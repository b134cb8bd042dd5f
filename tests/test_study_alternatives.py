"""The study alternatives: its closed forms against climbs, and what its report says of better and worse rivals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.metrics import neutrality, usefulness
from drest_torch.studies.alternatives import climbing, predictions, study
from tests.helpers.studies import composed_study, publish


def test_steps_in_a_trust_region_come_to_the_constrained_optimum() -> None:
    found = climbing.trust_region_steps(world("fewer_for_longer").with_clock("steps"), 0.9, steps=300)
    assert found.probability.max().item() == pytest.approx(predictions.better(0.9), abs=0.01)
    assert neutrality(found.probability).item() == pytest.approx(0.9, abs=0.01)
    assert usefulness(found.probability, found.given, found.best_return).item() > 0.98


def test_a_step_stays_in_the_region_and_meets_the_constraint() -> None:
    """Against random steps in two dimensions, with H the identity."""
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        g, b, c = torch.randn(2, generator=rng), torch.randn(2, generator=rng), torch.randn((), generator=rng) * 0.1
        delta = 0.02
        step = climbing._within(g, b, g @ g, g @ b, b @ b, c, delta)
        assert 0.5 * step @ step <= delta * 1.001
        others = torch.randn(4000, 2, generator=rng)
        others = others / others.norm(dim=-1, keepdim=True) * (2 * delta) ** 0.5 * torch.rand(4000, 1, generator=rng)
        allowed = others[c + others @ b <= 0]
        if len(allowed):
            assert c + step @ b <= 1e-4
            assert g @ step >= (allowed @ g).max() - 1e-4
        else:
            assert c + step @ b <= (c + others @ b).min() + 1e-4


@pytest.mark.parametrize("title", ["DReST", "1"])
def test_a_climb_comes_to_its_closed_form(title: str) -> None:
    cfg = composed_study("alternatives", "study.steps=300")
    job = predictions.climbs(cfg)[f"ratio, {title}"]
    result = climbing.climb_tables(job.spec, None)  # type: ignore[arg-type]
    rows = predictions.rows(cfg, lambda each: result if each.digest() == job.digest() else None)
    assert len(rows) == 1
    assert rows[0].found == pytest.approx(rows[0].predicted, abs=0.02)


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
        ("study.references=[nothing]", "study.references with 'nothing'; expected some of uniform"),
        ("study.rivals.DReST.at=5", "'DReST' with at=5; expected one of its values"),
        ("+study.rivals.DReST.colour=red", "'DReST' has the key 'colour'"),
    ],
)
def test_what_there_is_not_gets_one_sentence(change: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        study.jobs(composed_study("alternatives", change))
