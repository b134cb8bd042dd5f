"""The study of lotteries: its runs, the network of menus, and what the report says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drest_torch.choices import measures
from drest_torch.choices.arms import ARMS, train
from drest_torch.choices.closed_forms import paid_shift, pressed
from drest_torch.choices.generation import KINDS, random_menus
from drest_torch.choices.menus import Menu, Menus, Option
from drest_torch.choices.network import FEATURES, MenuNetwork
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.lotteries import runs, study
from tests.helpers.studies import composed, publish

BOTH = ("usefulness", "neutrality")


class Finished:
    """The climbs of the quick version, and made-up numbers of the arms: those of an archetype."""

    def __init__(self, lost: str = "none") -> None:
        self.lost, self.numbers = lost, runs.measure(lambda menus: study.ARCHETYPES["ideal"](menus), 6)

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        """Agents of gridworlds: those of the same archetype, useful and neutral on unseen levels."""
        arrays = {f"menus/{name}": np.array([value]) for name, value in self.numbers.items()}
        return [(job, Result({}, arrays | {f"test/{name}": np.ones(3) for name in BOTH})) for job in jobs]

    def get(self, job: Job) -> Result | None:
        if self.lost in job.name:
            return None
        if "tenths" in job.spec:
            return runs.climb_worlds(job.spec, Path())
        return Result({}, {name: np.array([value] * job.spec["agents"]) for name, value in self.numbers.items()})


def test_training_in_gridworlds_ends_at_the_closed_forms() -> None:
    spec = {"tenths": [1, 5], "chances": [0.5], "lam": 0.9, "episodes_per_meta": 64, "steps": 200}
    longer = runs.climb_worlds(spec, Path()).arrays["longer"]
    expected = [0.1 + 0.8 * paid_shift(0.1, 0.9, cost, 0.9, 64) for cost in (0.1, 0.5)]
    assert longer == pytest.approx([*expected, pressed(0.5, 0.9, 64)], abs=2e-3)


@pytest.mark.parametrize("reads", FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_options_and_outcomes_makes_no_difference(kind: str, reads: str) -> None:
    menus = random_menus(kind, 50, torch.Generator().manual_seed(1), 3)
    network = MenuNetwork(2, 3, 16, reads=reads)
    policy = network(menus)
    assert torch.allclose(policy.sum(-1), torch.ones(2, 50))
    turned = Menus(*(each.flip(1) for each in (menus.chance, menus.length, menus.coins)))
    mixed = Menus(*(each.flip(2) for each in (menus.chance, menus.length, menus.coins)))
    assert torch.allclose(network(turned).flip(-1), policy, atol=1e-5)
    assert torch.allclose(network(mixed), policy, atol=1e-5)


@pytest.mark.parametrize("reads", FEATURES)
def test_each_agent_answers_its_own_part_of_the_menus_as_it_answers_all(reads: str) -> None:
    menus = random_menus("shared", 12, torch.Generator().manual_seed(1), 3)
    network = MenuNetwork(3, 3, 16, reads=reads)
    together, apart = network(menus), network.choose(menus, 3)
    assert torch.allclose(
        torch.stack([together[agent, 4 * agent : 4 * agent + 4] for agent in range(3)]), apart, atol=1e-6
    )


def test_by_length_an_option_that_is_split_into_equal_outcomes_is_the_same() -> None:
    whole, split = ("1/2 L1 C2 | 1/2 L2 C4", "1/4 L1 C1 | 1/4 L1 C3 | 1/2 L2 C4")
    network, other = MenuNetwork(1, 3, 16), Option.parse("1 L1 C3")
    first, second = (network(Menus.of([Menu((Option.parse(text), other))])) for text in (whole, split))
    assert torch.allclose(first, second, atol=1e-6)


def test_generated_menus_are_of_their_kind() -> None:
    made = {kind: random_menus(kind, 200, torch.Generator().manual_seed(2)) for kind in KINDS}
    for menus in made.values():
        assert torch.allclose(menus.chance.sum(-1), torch.ones(200, 2), atol=1e-5)
    assert (made["sure"].chance.amax(-1) == 1).all()
    assert (made["coins"].supports.sum(-1) == 1).all()
    assert (made["lotteries"].num_supports == 1).all()
    assert (made["shared"].num_supports == 2).any()


def test_an_arm_learns_to_take_more_coins() -> None:
    values: dict[str, Any] = {"agents": 2, "batch": 64, "width": 16, "lr": 0.01, "lam": 0.9, "episodes": 16}
    menus = random_menus("lotteries", 300, torch.Generator().manual_seed(3))
    before, after = (
        measures.neutrality_plus(menus, train("C", updates=updates, **values)(menus)).mean() for updates in (0, 60)
    )
    assert after > before + 0.02


def test_the_report_says_what_was_found() -> None:
    it = publish(study, composed("lotteries"), Finished())
    assert it.opens_with_its_answer()
    assert "gives up 10 % of all coins" in it.text
    assert "What would change our mind" in it.text
    assert it.analysis.findings["arms"]["D"]["main"] == 0
    assert it.analysis.findings["reached"]["D"] == [2, 2]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("lost", ["arm", "corridors"])
def test_what_is_missing_is_left_out(lost: str) -> None:
    it = publish(study, composed("lotteries"), Finished(lost))
    assert ("gives up" in it.text) == (lost == "arm")
    assert ("Each arm trains" in it.text) == (lost != "arm")


def test_an_arm_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=f"the arm 'Z'; expected some of {', '.join(ARMS)[:5]}"):
        study.arm_job(composed("lotteries"), "Z")
