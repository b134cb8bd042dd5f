"""Policies that are free in every state, on levels with a known optimum."""

import pytest

from drest_torch.envs.exact.indifference import indifferent_policy
from drest_torch.envs.exact.solver import LONGEST, PaidCoins
from drest_torch.envs.levels import parse_level
from drest_torch.jobs.free_policies import free_job, free_policy, train
from drest_torch.jobs.questions import measures
from drest_torch.reward import Reward
from tests.helpers.plans import GAIN

PLAIN = Reward(1.0, divide_by_best=False)
DREST = {"name": "drest"}
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
    options = {"maps": 1, "worlds": ["example"], "pays": ["actual", "inverse"], "updates": 60}
    numbers = train(free_job("free", CONFIG, options).spec, tmp_path).numbers
    assert set(numbers["worlds"]) == {"actual", "inverse"}
    later = numbers["ladders"]["later"]
    assert len(later["press"]) == len(later["prices"]) == 13


def test_levels_with_luck_are_void_for_indifference(tmp_path):
    config = {**CONFIG, "reward": {"lam": 1.0, "ends": "longest"}}
    options = {"maps": 1, "worlds": ["example"], "pays": ["actual"], "updates": 1}
    ladders = train(free_job("free", config, options).spec, tmp_path).numbers["ladders"]
    assert "luck" in ladders["by_chance"]["void"]
    assert "void" not in ladders["later"]
