"""Agents that remember: the best meta-episode, what a memory makes of a policy, and what training makes of it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from drest_torch import theory
from drest_torch.choices import memory
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.memory import agents
from drest_torch.studies.memory import study as memory_study
from tests.helpers.studies import composed_study, publish

LAM = 0.9
SPEC = {
    "episodes": 24,
    "lam": LAM,
    "window": 3,
    "group": 8,
    "width": 8,
    "copies": 64,
    "resets": False,
    "lr": 6.0,
    "updates": 700,
    "seed": 0,
}


def returns(lengths: tuple[int, ...], lam: float) -> float:
    """The return of a meta-episode with these lengths, from the definition of the reward."""
    return sum(lam ** (lengths[:i].count(length) - i / 2) for i, length in enumerate(lengths))


@pytest.mark.parametrize("episodes", [1, 2, 5, 8])
def test_the_best_meta_episode_is_the_best_of_all(episodes: int) -> None:
    every = {lengths: returns(lengths, LAM) for lengths in itertools.product((0, 1), repeat=episodes)}
    value, most, least = memory.best_with_memory(episodes, LAM)
    best = max(every, key=lambda lengths: every[lengths])
    assert value == pytest.approx(every[best], rel=1e-12)
    assert (most, least) == (max(best.count(0), best.count(1)), min(best.count(0), best.count(1)))
    turns = tuple(i % 2 for i in range(episodes))
    assert memory.alternating(episodes, LAM) == pytest.approx(every[turns], rel=1e-12)


def test_the_best_meta_episode_is_one_length_and_then_the_other() -> None:
    found = {episodes: memory.best_with_memory(episodes, LAM) for episodes in (16, 32, 64)}
    assert {size: round(value, 2) for size, (value, _, _) in found.items()} == {16: 17.01, 32: 38.95, 64: 160.03}
    assert [counts for _, *counts in found.values()] == [[9, 7], [21, 11], [51, 13]]


def test_what_a_memory_makes_of_a_policy_is_what_all_meta_episodes_say() -> None:
    episodes = 6
    probability = torch.rand(2 * episodes - 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    first = np.zeros(episodes)
    conditional = likelier = value = 0.0
    for lengths in itertools.product((0, 1), repeat=episodes):
        chance, entropies, largest, d = 1.0, 0.0, 0.0, 0
        for length in lengths:
            p = probability[d + episodes - 1].item()
            chance *= p if length else 1 - p
            entropies -= p * np.log2(p) + (1 - p) * np.log2(1 - p)
            largest += max(p, 1 - p)
            d += 1 if length else -1
        first += chance * np.array(lengths)
        conditional += chance * entropies / episodes
        likelier += chance * largest / episodes
        value += chance * returns(lengths, LAM) / episodes
    found = memory.measure(probability, episodes, LAM)
    marginal = np.mean([-(p * np.log2(p) + (1 - p) * np.log2(1 - p)) for p in first])
    assert (found.marginal, found.conditional) == (pytest.approx(marginal), pytest.approx(conditional))
    assert (found.predictable, found.value) == (pytest.approx(likelier), pytest.approx(value))


def test_without_memory_both_entropies_are_one_and_the_return_is_known() -> None:
    found = memory.measure(torch.full((127,), 0.5, dtype=torch.float64), 64, LAM)
    assert found.marginal == found.conditional == 1
    assert found.value * 64 == pytest.approx(theory.neutral_value(2, 64, LAM), rel=1e-12)


def test_an_agent_that_sees_its_counts_is_random_in_every_second_mini_episode() -> None:
    found = agents.table(SPEC | {"sees": "counts", "paid_by": "own counts"}, torch.Generator().manual_seed(0))
    assert found.marginal >= 0.98
    assert found.conditional == pytest.approx(0.5, abs=0.06)
    assert found.predictable == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("change", [{"sees": "nothing", "paid_by": "own counts"}, {"paid_by": "the group"}], ids=str)
def test_remedies_make_it_random_again(change: dict[str, str]) -> None:
    found = agents.table({**SPEC, "sees": "counts", "updates": 150} | change, torch.Generator().manual_seed(0))
    assert found.conditional >= 0.98


def test_averaged_counting_is_the_mean_over_what_the_others_of_a_group_choose() -> None:
    group, share = 4, torch.tensor([0.3, 0.9], dtype=torch.float64)
    found = agents.grouped(share, group, 16, LAM)
    rng = torch.Generator().manual_seed(0)
    for place, p in enumerate(share.tolist()):
        others = torch.rand(200_000, group - 1, generator=rng) < p
        for length in (0, 1):
            mine = torch.full((len(others), 1), bool(length))
            longer = torch.cat((mine, others), 1).reshape(1, -1)
            paid = agents.paid(longer, {"lam": LAM, "paid_by": "the group", "episodes": 16, "group": group})
            assert paid.reshape(-1, group)[:, 0].mean().item() == pytest.approx(found[length, place].item(), rel=4e-3)


def test_a_recurrent_agent_is_paid_by_its_own_counts() -> None:
    longer = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 1]]).bool()
    paid = agents.paid(longer, {"lam": LAM, "paid_by": "own counts"})
    columns = [tuple(column) for column in longer.long().T.tolist()]
    assert paid.sum(0).tolist() == pytest.approx([returns(column, LAM) for column in columns])
    whole = agents.paid(longer, {"lam": LAM, "paid_by": "own counts, meta credit"})
    assert whole[0].tolist() == pytest.approx(paid.sum(0).tolist())
    assert torch.equal(whole[-1], paid[-1])


def test_a_recurrent_agent_that_forgets_cannot_take_turns() -> None:
    network = agents.Recurrent(4, torch.Generator().manual_seed(0), resets=True)
    logits, _ = network.play(8, 5, torch.Generator().manual_seed(1))
    assert logits.std() == 0
    network.resets = False
    logits, _ = network.play(8, 5, torch.Generator().manual_seed(1))
    assert logits[1:].std() > 0


def few(**values: Any) -> Any:
    cfg = composed_study("memory")
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, {"seeds": 2}, values)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sees": "all"}, r"'mine' with sees=all; expected one of nothing; counts; history"),
        ({"paid_by": "luck"}, r"'mine' with paid_by=luck; expected one of own counts;"),
        ({"group": 7}, r"'mine' with group=7, which does not divide 256"),
    ],
)
def test_an_agent_that_cannot_be_trained_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        memory_study.jobs(few(agents={"mine": change}))


class Finished:
    """Made-up results: the same of every kind, but for its entropy given what it remembers."""

    def __init__(self, conditional: dict[str, float]) -> None:
        self.conditional = conditional

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, Result(self._numbers(job))) for job in jobs if self._kind(job) in self.conditional]

    def _kind(self, job: Job) -> str:
        return job.name.rpartition("-")[0]

    def _numbers(self, job: Job) -> dict[str, float]:
        return {"marginal": 0.99, "conditional": self.conditional[self._kind(job)], "predictable": 0.7, "value": 1.0}


def test_the_report_follows_from_the_numbers() -> None:
    text = publish(memory_study, few(), Finished({"counts": 0.51, "no memory": 1.0})).text
    assert "random only in part" in text
    assert "of 0.510 bits to somebody who sees" in text
    assert "these are random (0.98 bits or more): no memory." in text
    assert "one length 51 times and then the other 13 times" in text
    other = publish(memory_study, few(), Finished({"counts": 0.99})).text
    assert "random only in part" not in other
    assert "keeps 0.990 bits" in other
