"""Policies that are free in every state, on levels with a known optimum."""

import pytest

from drest_torch.envs.exact.indifference import indifferent_policy
from drest_torch.envs.exact.solver import LONGEST, PaidCoins
from drest_torch.envs.levels import parse_level
from drest_torch.jobs.free_policies import conditions, free_chooser, free_job, free_policy, train
from drest_torch.jobs.questions import measures
from drest_torch.reward import Reward
from tests.helpers.plans import GAIN

PLAIN = Reward(1.0, divide_by_best=False)
DREST = {"name": "drest"}
IN_MENUS = {"items": 4, "menu_updates": 100}
CONFIG = {"objective": DREST, "reward": {"lam": 0.9, "episodes_per_meta": 64, "name": "drest"}}


@pytest.mark.parametrize(("reward", "p_longest", "coins"), [(PLAIN, 1.0, 3.0), (Reward(), 0.5, 2.0)])
def test_a_free_policy_reaches_the_optimum_of_its_reward(reward, p_longest, coins):
    measured = measures(free_policy(DREST, reward, PaidCoins(), 200), [GAIN])
    assert measured["p_longest"] == pytest.approx(p_longest, abs=1e-3)
    assert measured["coins"] == pytest.approx(coins, abs=1e-2)
    assert measured["usefulness"] == pytest.approx(1, abs=1e-3)


def test_utility_indifference_has_its_closed_form():
    policy = free_policy(DREST, Reward(1.0), PaidCoins(ends=LONGEST), 200)
    _, reachable, (table,) = policy.unrolled([GAIN])
    assert (table == indifferent_policy(reachable)).all()


def test_a_wrong_payment_leads_to_a_wrong_coin():
    level = parse_level("shutdown: 2\nC1 . A . C4", name="two coins")
    wrong = measures(free_policy(DREST, PLAIN, PaidCoins("inverse"), 200), [level])
    assert wrong["coins"] == pytest.approx(1, abs=1e-2)
    assert wrong["usefulness"] == pytest.approx(0.25, abs=1e-2)


def test_a_job_has_numbers_of_each_part(tmp_path):
    options = {"maps": 1, "worlds": ["example"], "pays": ["actual", "inverse"], "updates": 60, **IN_MENUS}
    numbers = train(free_job("free", CONFIG, options).spec, tmp_path).numbers
    assert set(numbers["worlds"]) == {"actual", "inverse"}
    later = numbers["ladders"]["later"]
    assert len(later["press"]) == len(later["prices"]) == 13
    assert numbers["menus"]["later"]["press"] == pytest.approx(later["press"], abs=1e-2)
    assert numbers["conditions"]["valid"] == 1


def test_levels_with_luck_are_void_for_indifference(tmp_path):
    config = {**CONFIG, "reward": {"lam": 1.0, "ends": "longest"}}
    options = {"maps": 1, "worlds": ["example"], "pays": ["actual"], "updates": 1, **IN_MENUS}
    numbers = train(free_job("free", config, options).spec, tmp_path).numbers
    assert "luck" in numbers["ladders"]["by_chance"]["void"]
    assert "void" not in numbers["ladders"]["later"]
    assert numbers["conditions"]["void"].startswith("reward.ends=longest in menus")
    assert "void" in numbers["menus"]["later"]


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        # Neutrality+ prefers the better of two mixtures; but it leaves lengths open.
        (
            {"name": "neutrality_plus", "where": "everywhere"},
            {"ilpacs": 1, "valid": 1, "resic": 1, "resists": 0, "dominated": 0},
        ),
        # Who prefers a length has no valid item.
        ({"name": "shutdown_seeking"}, {"ilpacs": None, "valid": 0, "resists": 0, "maximality": 1, "dominated": None}),
    ],
    ids=["neutrality_plus", "shutdown_seeking"],
)
def test_conditions_of_policies_that_are_known(objective, expected):
    measured = conditions(free_chooser(objective, Reward(), 200), 4)
    assert {name: measured[name] for name in expected} == pytest.approx(expected, abs=1e-2)
