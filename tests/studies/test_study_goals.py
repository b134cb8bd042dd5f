"""Goals of training: how agents are trained for them, when they are reached, and how they are measured by size."""

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

from drest_torch.envs.levels import world, write_levels
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import training_jobs
from drest_torch.studies import goals, sizes, unseen
from drest_torch.studies.scores import score
from tests.helpers.studies import composed_study, published


def few(*chosen, **values):
    cfg = composed_study("goals")
    OmegaConf.set_struct(cfg, False)
    own = {"chosen": list(chosen), "seeds": 2, "parts": ["learning", "unseen", "follow_up", "beyond"]}
    return OmegaConf.merge(cfg, own, values)


def test_a_goal_is_trained_by_its_command():
    """The run's values are those of the arguments, and other arguments of the study are over them."""
    values = {"levels": {"train": 100_000, "symmetries": True}, "env_steps": 20_000_000}
    values |= {"reward": {"episodes_per_meta": 44}, "policy": {"width": 24}}
    (expected,) = training_jobs("x", [1], values, algo="generalist", levels="followup_like")
    runs = goals.jobs(few("MLP on followup_like", overrides=["policy.width=24"]))
    assert list(runs) == [("MLP on followup_like", 0), ("MLP on followup_like", 1)]
    job = runs[goals.Key("MLP on followup_like", 1)]
    assert (job.spec["config"], job.spec["sets"]) == (expected.spec["config"], unseen.describe(None))


def test_a_goal_like_another_has_all_of_it_but_what_it_says_and_each_strength_is_a_goal():
    one = {"part": "choices", "arguments": "algo=ppo env_steps=5", "wanted": {"test": {}}}
    one["strengths"] = {"objective.beta": [0.5, 2.0]}
    found = goals.all_goals(few(goals={"one": one, "other": {"like": "one", "arguments": "seed=1 algo=a2c"}}))
    arguments = {title: found[title]["arguments"] for title in ("one", "one, 2", "other")}
    assert arguments["one"] == "algo=ppo env_steps=5 objective.beta=0.5"
    assert arguments["one, 2"] == "algo=ppo env_steps=5 objective.beta=2.0"
    assert arguments["other"] == "algo=a2c env_steps=5 seed=1"
    assert [found[title].get("seeds") for title in arguments] == [None, 1, None]
    assert found["other"]["wanted"] == {"test": {}}


def test_a_goal_has_its_own_number_of_seeds_and_no_more_than_the_study():
    one = {
        "part": "choices",
        "arguments": "algo=generalist",
        "wanted": {"test": {}},
        "strengths": {"seed": [5, 6]},
    }
    own = {"one": one, "many": {**one, "seeds": 3, "strengths": {}}}
    runs = goals.jobs(few("one", "one, 6", "many", goals=own, parts=["choices"]))
    assert [*runs] == [("one", 0), ("one", 1), ("one, 6", 0), ("many", 0), ("many", 1)]


def test_a_part_is_published_without_the_others():
    def result(job):
        ends = {"usefulness": 1.0, "neutrality": 0.9, "p_longest": 0.3}
        arrays = {f"{split}/{name}": np.full(3, end) for name, end in ends.items() for split in ("train", "test")}
        own = {name: np.ones(3) for name in ("train/neutrality_normalised", "train/neutrality_own_normalised")}
        took = {"wall_seconds": 2.0, "env_steps": 5, "splits": {"test": {"neutrality_own": 0.1}}}
        return Result(took, arrays | own)

    found = published(goals, few("REINFORCE on example", parts=["learning"]), result)
    assert [quote.measured for quote in found.quotes] == ["1 of 1 goals by every seed; 2 of 2 agents"]


def test_in_environments_of_others_the_default_reward_stands_beside():
    runs = goals.jobs(few("CartPole"))
    rewards = {key.title: job.spec["config"]["reward"]["name"] for key, job in runs.items()}
    assert rewards == {"CartPole": "drest", "CartPole, default reward": "default"}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"chosen": ["nothing"]}, r"^study.chosen with 'nothing'; expected some of REINFORCE on example;"),
        ({"overrides": ["fast"]}, r"^study: the argument 'fast' of a run; expected key=value"),
        ({"colour": "red"}, r"^study.goals: 'default command' has the key 'colour'; expected some of part;"),
        (
            {"like": "nobody"},
            r"^study.goals: 'default command' is like 'nobody'; expected some of REINFORCE on example;",
        ),
        ({"wanted": {"moon": {}}}, r"^study.goals: 'default command' wants something on 'moon'; expected some of"),
        ({"wanted": {"paper": {"speed": 1}}}, r"^study.goals: 'default command' wants 'speed'; expected some of"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_before_any_run(said, complaint):
    of_study = said.keys() <= {"chosen", "overrides", "parts"}
    with pytest.raises(ConfigError, match=complaint):
        goals.jobs(few("default command", **(said if of_study else {"goals": {"default command": said}})))


def test_the_follow_ups_protocol_is_known_by_the_content_of_its_levels(tmp_path):
    path = tmp_path / "train.jsonl"
    cfg = few("PPO with DReST", train_path=str(path))
    with pytest.raises(ConfigError, match=r"train\.jsonl: no such file"):
        goals.jobs(cfg)
    write_levels(path, [world("example")])
    runs = goals.jobs(cfg)
    assert {job.spec["config"]["levels"]["path"] for job in runs.values()} == {str(path)}
    write_levels(path, [world("spacious")])
    assert not {job.digest() for job in runs.values()} & {job.digest() for job in goals.jobs(cfg).values()}
    assert goals.jobs(few("PPO with DReST")) == {}


def test_a_run_on_a_level_is_evaluated_on_it_and_on_worlds_that_it_has_not_seen(tmp_path):
    short = ["env_steps=2000", "evaluations=1", "policy.width=8", "policy.depth=1"]
    job, *_ = goals.jobs(few("REINFORCE on example", overrides=short)).values()
    arrays = unseen.train(job.spec, tmp_path / "run").arrays
    # There are no test levels of one world, and it is one of the paper's nine.
    sizes_of_sets = {name.partition("/")[0]: array.shape for name, array in arrays.items()}
    assert sizes_of_sets == {"paper": (8,), "train": (1,)}


@pytest.mark.parametrize(
    ("wanted", "reached"),
    [
        ({"usefulness": 0.8}, 2),
        ({"usefulness": 0.8, "neutrality": 0.5}, 1),
        ({"usefulness": 0.8, "neutrality_at_most": 0.5}, 1),
        ({"usefulness": 0.95, "neutrality": 0.1}, 0),
        ({}, None),
    ],
)
def test_a_goal_is_reached_by_a_seed_that_reaches_all_of_it(wanted, reached):
    rows = []
    for seed, (useful, neutral) in enumerate([(0.9, 0.3), (0.85, 0.7), (0.5, 0.9)]):
        rows.append({"seed": seed, "metric": "usefulness", "value": np.array([useful - 0.01, useful + 0.01])})
        rows.append({"seed": seed, "metric": "neutrality_normalised", "value": np.full(2, neutral)})
    took = [{"metric": name, "value": np.array([value])} for name, value in (("seconds", 12.0), ("env_steps", 2.5e6))]
    goal = {"part": "learning", "arguments": "algo=ppo", "wanted": {"test": wanted}}
    found = score("it", goal, "test", pd.DataFrame(rows), pd.DataFrame(took))
    assert found.reached == reached
    assert found.usefulness == pytest.approx([0.9, 0.85, 0.5])  # means over its two levels
    assert found.neutrality == pytest.approx([0.3, 0.7, 0.9])
    assert (found.seconds, found.levels, found.training) == (12.0, 2, "2.5 M steps")


def test_small_agents_are_evaluated_on_larger_maps_exactly_or_by_sampling(tmp_path):
    job, *_ = goals.jobs(few(parts=["sizes"], sides=[5, 6, 7], exact_to=6, levels=3)).values()
    arrays = sizes.shipped(job.spec, tmp_path).arrays
    assert len(arrays) == 3 * 2 * 2
    assert all(values.shape == (3,) for values in arrays.values())
    assert arrays["6/usefulness"].mean() > 2 * arrays["6/random/usefulness"].mean()
    job.spec["sizes"]["exact_to"] = 7
    exact = sizes.shipped(job.spec, tmp_path).arrays
    assert np.array_equal(exact["6/usefulness"], arrays["6/usefulness"])
    assert not np.array_equal(exact["7/usefulness"], arrays["7/usefulness"])
    assert exact["7/usefulness"] == pytest.approx(arrays["7/usefulness"], abs=0.2)
