"""Tests of erosion: further training of an agent, with its measures."""

import dataclasses

import pytest

from drest_torch.agent import Agent
from drest_torch.errors import ConfigError
from drest_torch.jobs import erosion
from drest_torch.jobs.erosion import CONDITIONS, erode, first_below, first_seen
from drest_torch.theory import balance
from tests.helpers.runs import train

NETWORK = ("policy.width=8", "policy.depth=1", "pictures=0", "evaluations=1")
DREST, DEFAULT = ["algo.lr=0.005", "reward=drest"], ["algo.lr=0.005", "reward=default"]
HOW = {"ladders": (), "updates": (0, 3)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run that is neutral and somewhat useful."""
    folder = tmp_path_factory.mktemp("erosion") / "run"
    return train(folder, "algo=exact", "levels=royal_road", "algo.lr=0.02", "env_steps=245760", *NETWORK)


def test_an_agent_without_further_updates_is_unchanged(run):
    (step,) = erode(run, DEFAULT, updates=(0,), ladders=())
    results = Agent.load(run).evaluate("royal_road")
    assert step.neutrality == pytest.approx(results.neutrality)
    assert step.usefulness == pytest.approx(results.usefulness)
    assert step.p_length == pytest.approx([*Agent.load(run).probabilities("royal_road").values()])


def test_the_default_reward_erodes_neutrality_faster_than_drest(run):
    _, default = erode(run, DEFAULT, updates=(0, 20), ladders=())
    _, drest = erode(run, DREST, updates=(0, 20), ladders=())
    assert default.neutrality < drest.neutrality - 0.2
    assert default.power > 0.99


def test_a_remedy_in_all_updates_is_training_with_the_own_reward(run):
    assert erode(run, DEFAULT, remedy=1, **HOW) == erode(run, DREST, **HOW)


def test_a_remedy_in_some_updates_differs_from_both(run):
    mixed = erode(run, DEFAULT, remedy=3, **HOW)[-1]
    assert mixed != erode(run, DEFAULT, **HOW)[-1]
    assert mixed != erode(run, DREST, **HOW)[-1]


def test_a_penalty_slows_erosion(run):
    slow = ["algo.lr=0.002", "reward=default"]
    held, free = (erode(run, slow, remedy=fields, **HOW)[-1] for fields in ({"penalty": 1000.0}, None))
    assert free.neutrality < 0.8
    assert held.neutrality > 0.95


@pytest.mark.parametrize(("condition", "factor"), [("doubled", 2.0), ("slightly_unequal", 1.1)])
def test_unequal_pay_ends_near_its_fixed_point(run, condition, factor):
    (step,) = erode(run, [*CONDITIONS[condition], "algo.lr=0.005"], updates=(120,), ladders=())
    reward = Agent.load(run).reward
    expected = balance(1.0, factor, reward.lam, reward.episodes_per_meta).item()
    assert step.p_length[-1] == pytest.approx(expected, abs=0.05)


def test_measures_stay_on_the_levels_of_the_run(run):
    other = erode(run, [*DEFAULT, "levels=hidden_treasure"], levels="royal_road", **HOW)
    assert other[0] == erode(run, DEFAULT, **HOW)[0]


@pytest.mark.slow
def test_ladders_are_measured_in_each_step(run):
    (step,) = erode(run, DEFAULT, updates=(1,), ladders=("later", "earlier"))
    assert step.paid.keys() == {"later"}  # the agent does not observe lotteries
    assert 0 < step.paid["later"] < 0.4


@pytest.mark.slow
def test_sampled_algorithms_erode_too(run):
    first, last = erode(run, [*DEFAULT, "algo=ppo", "algo.episodes=64", "reward.group=16"], **HOW)
    assert last.neutrality != first.neutrality


def test_a_job_returns_the_steps(run, tmp_path):
    job = erosion.erosion_job("erosion", run, "0" * 64, changes=DEFAULT, **HOW)
    result = erosion.train(job.spec | {"places": job.places}, tmp_path).checked()
    steps = erode(run, DEFAULT, **HOW)
    assert result.numbers["steps"][-1]["neutrality"] == steps[-1].neutrality


def step(updates, neutrality, p_value):
    blank = dict.fromkeys([field.name for field in dataclasses.fields(erosion.ErosionStep)], 0)
    values = {"updates": updates, "neutrality_normalised": neutrality, "p_value": p_value}
    return erosion.ErosionStep(**(blank | values))


def test_behaviour_can_show_erosion_later_than_the_exact_measure():
    steps = [step(0, 1.0, 0.8), step(10, 0.94, 0.2), step(30, 0.6, 0.01)]
    assert first_below(steps, 0.95) == 10
    assert first_seen(steps) == 30
    assert first_seen(steps[:2]) is None


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"updates": (10, 0)}, r"updates=\[10, 0\]; expected ascending numbers"),
        ({"remedy": 0}, "mix=0; expected a number at least 1"),
    ],
)
def test_wrong_arguments_get_one_sentence(run, how, sentence):
    with pytest.raises(ConfigError, match=sentence):
        erode(run, DEFAULT, **how)
