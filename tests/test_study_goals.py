"""Goals of training: how agents are trained for them, when they are reached, and what the two reports say of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.envs.levels import world, write_levels
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import training_jobs
from drest_torch.report.tables import values
from drest_torch.studies import goals, unseen
from drest_torch.studies.goals import Score
from drest_torch.studies.goals_unseen import study as goals_unseen
from drest_torch.studies.learning import study as learning
from tests.helpers.studies import Published, composed_study, publish

TITLES = {"learning": ["REINFORCE on example", "default command"], "goals_unseen": ["MLP on followup_like"]}
STUDIES = {"learning": learning, "goals_unseen": goals_unseen}


def few(name: str, **values: Any) -> Any:
    cfg = composed_study(name)
    OmegaConf.set_struct(cfg, False)
    return OmegaConf.merge(cfg, {"chosen": TITLES[name], "seeds": 2}, values)


class Finished:
    """Made-up results: by set of levels the usefulness and neutrality of both of its levels, for each seed."""

    def __init__(self, ends: Mapping[str, list[tuple[float, float]]], lost: str = "none") -> None:
        self.ends, self.lost = ends, lost

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, self.result(job)) for job in jobs if self.lost not in job.name]

    def result(self, job: Job) -> Result:
        seed = job.spec["config"]["seed"]
        arrays = {}
        for name, ends in self.ends.items():
            useful, neutral = ends[seed]
            arrays[f"{name}/usefulness"] = np.array([useful - 0.01, useful + 0.01])
            arrays[f"{name}/neutrality_normalised"] = np.full(2, neutral)
        return Result({"wall_seconds": 10.0 + seed, "env_steps": 2_500_000}, arrays)


# -------------------------------------------------------------------------------------------- runs


def test_a_goal_is_trained_by_its_command() -> None:
    """The run's values are those of the arguments, and other arguments of the study are over them."""
    cfg = few("goals_unseen", overrides=["policy.width=24"])
    values: dict[str, Any] = {
        "levels": {"train": 100_000, "symmetries": True},
        "env_steps": 20_000_000,
        "reward": {"episodes_per_meta": 44},
        "policy": {"width": 24},
    }
    (expected,) = training_jobs("x", [1], values, algo="generalist", levels="followup_like")
    jobs = goals_unseen.jobs(cfg)
    assert [job.name for job in jobs] == ["MLP on followup_like-0", "MLP on followup_like-1"]
    assert jobs[1].spec["config"] == expected.spec["config"]
    assert jobs[1].spec["sets"] == unseen.describe(None)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"chosen": ["nothing"]}, r"^study.chosen with 'nothing'; expected some of REINFORCE on example,"),
        ({"overrides": ["fast"]}, r"^study: the argument 'fast' of a run; expected key=value"),
        ({"overrides": ["algo=dqn"]}, r"^algo=dqn; expected one of"),
        ({"colour": "red"}, r"^study.goals: 'default command' has the key 'colour'; expected some of arguments,"),
        (
            {"wanted": {"moon": {}}},
            r"^study.goals: 'default command' wants something on 'moon'; expected some of test,",
        ),
        ({"wanted": {"paper": {"speed": 1}}}, r"^study.goals: 'default command' wants 'speed'; expected some of"),
    ],
)
def test_a_value_that_nothing_can_be_done_with_is_refused_before_any_run(said: dict[str, Any], complaint: str) -> None:
    of_study = said.keys() <= {"chosen", "overrides"}
    with pytest.raises(ConfigError, match=complaint):
        learning.jobs(few("learning", **(said if of_study else {"goals": {"default command": said}})))


def test_the_follow_ups_protocol_is_done_where_its_levels_are_given(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    with pytest.raises(ConfigError, match=r"train\.jsonl: no such file"):
        goals_unseen.jobs(few("goals_unseen", train_path=str(path)))
    write_levels(path, [world("example")])
    cfg = few("goals_unseen", train_path=str(path), chosen=[*TITLES["goals_unseen"], "PPO with DReST"])
    without, jobs = goals_unseen.jobs(few("goals_unseen")), goals_unseen.jobs(cfg)
    assert [job.digest() for job in jobs[: len(without)]] == [job.digest() for job in without]
    added = jobs[len(without) :]
    assert len(added) == 2
    assert {job.spec["config"]["levels"]["path"] for job in added} == {str(path)}
    write_levels(path, [world("spacious")])
    assert not {job.digest() for job in added} & {job.digest() for job in goals_unseen.jobs(cfg)}


def test_a_run_on_a_level_is_evaluated_on_it_and_on_worlds_that_it_has_not_seen(tmp_path: Path) -> None:
    cfg = few("learning", overrides=["env_steps=2000", "evaluations=1", "policy.width=8", "policy.depth=1"])
    job = learning.jobs(cfg)[0]
    result = unseen.train(job.spec, tmp_path / "run")
    sets = result.numbers["sets"]
    assert list(sets) == ["paper", "train"]  # there are no test levels of one world
    # The world that it was trained on is one of the paper's nine.
    assert (sets["train"]["levels"], sets["paper"]["levels"], sets["paper"]["left_out"]) == (1, 8, 1)
    assert result.arrays["train/usefulness"].shape == (1,)
    assert result.numbers["worst"] == []


# ------------------------------------------------------------------------------------------- goals


def scores(ends: list[tuple[float, float]], wanted: dict[str, float]) -> Score:
    goal = {"arguments": "algo=ppo", "wanted": {"test": wanted}}
    jobs = [Job(f"it-{seed}", "a:b", {"config": {"seed": seed}}) for seed in range(len(ends))]
    table = goals.measure("learning", {"it": jobs}, {"it": goal}, Finished({"test": ends}))  # type: ignore[arg-type]
    (score,) = goals.scores(table, {"it": goal})
    return score


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
def test_a_goal_is_reached_by_a_seed_that_reaches_all_of_it(wanted: dict[str, float], reached: int | None) -> None:
    score = scores([(0.9, 0.3), (0.85, 0.7), (0.5, 0.9)], wanted)
    assert score.reached == reached
    assert score.usefulness == pytest.approx([0.9, 0.85, 0.5])  # means over its two levels
    assert score.neutrality == pytest.approx([0.3, 0.7, 0.9])
    assert (score.seconds, score.levels) == (12.0, 2)


def test_what_is_wanted_is_said_in_words() -> None:
    assert scores([(1, 1)], {"usefulness": 0.95, "neutrality_at_most": 0.3}).words == "U ≥ 0.95, N ≤ 0.3"
    assert scores([(1, 1)], {}).words == "–"


# ----------------------------------------------------------------------------------------- reports


def published(name: str, ends: Mapping[str, list[tuple[float, float]]], lost: str = "none", **said: Any) -> Published:
    return publish(STUDIES[name], few(name, **said), Finished(ends, lost))


GOOD = {name: [(0.98, 0.96), (0.97, 0.99)] for name in ("train", "test", "paper", "file")}


def test_the_report_of_learning_says_who_reaches_what() -> None:
    bad = GOOD | {"test": [(0.98, 0.96), (0.97, 0.5)]}
    it = published("learning", bad)
    assert "Every seed reaches the goal in 1 of 2 rows of the table below. Some miss it with algo=ppo." in it.text
    table = next(block for block in it.analysis.tables.values())
    took = ["2.5 M steps", "11"]
    assert [row[1:] for row in table.rows] == [
        [
            "its training levels",
            "U ≥ 0.95, N ≥ 0.95",
            "0.975 (0.970 to 0.980)",
            "0.975 (0.960 to 0.990)",
            "✓ 2 of 2",
            *took,
        ],
        [
            "its own test levels",
            "U ≥ 0.93, N ≥ 0.93",
            "0.975 (0.970 to 0.980)",
            "0.730 (0.500 to 0.960)",
            "◐ 1 of 2",
            *took,
        ],
        ["the paper's nine", "–", "0.975 (0.970 to 0.980)", "0.975 (0.960 to 0.990)", "–", *took],
    ]
    assert it.analysis.findings["goals"][1]["reached"] == 1
    assert [goal["levels"] for goal in it.analysis.findings["goals"]] == [2, 2, 2]
    assert it.analysis.quotes[0].measured == "1 of 2 goals by every seed; 3 of 4 agents"
    assert values(it.analysis.results, variant="default command", split="test", seed=1, level="1").tolist() == [
        0.98,
        0.5,
    ]
    assert it.opens_with_its_answer()


def test_all_goals_reached_are_said_to_be_reached() -> None:
    assert "Every seed reaches each of the 2 goals." in published("learning", GOOD).text
    # What is wanted on a file counts where there is one.
    unseen_file = {name: ends for name, ends in GOOD.items() if name != "file"}
    assert "Every seed reaches the goal." in published("goals_unseen", unseen_file).text


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            (0.8, 0.8),
            "on levels not trained on: PPO with DReST; PPO with DReST, levels turned at random; A2C with DReST.",
        ),
        ((0.8, 0.75), "on levels not trained on: PPO with DReST; PPO with DReST, levels turned at random."),
        ((0.7, 0.9), "None has both higher usefulness and higher neutrality than the follow-up reports"),
    ],
)
def test_the_protocol_is_set_beside_what_is_published(tmp_path: Path, file: tuple[float, float], words: str) -> None:
    paths = [tmp_path / name for name in ("train.jsonl", "val.jsonl")]
    for path in paths:
        write_levels(path, [world("example")])
    ends = GOOD | {"file": [file, file]}
    said = {"train_path": str(paths[0]), "path": str(paths[1]), "chosen": None}
    it = published("goals_unseen", ends, "default reward", **said)
    assert words in it.text
    table = it.tables["Trained on the follow-up's levels alone"]
    ours = "{:.3f}, {:.3f}".format(*file)
    assert table["PPO with DReST"] == ["2.5 M steps", "11", "0.975, 0.975", ours, "0.886, 0.845", "0.742, 0.747"]
    assert list(table) == ["PPO with DReST", "PPO with DReST, levels turned at random", "A2C with DReST"]
    assert "val.jsonl" in it.text


def test_exact_gradients_are_updates_of_levels_and_usefulness_is_shown_at_several_gamma() -> None:
    class Exact(Finished):
        def result(self, job: Job) -> Result:
            result = super().result(job)
            took = {"updates": 10, "levels_per_update": 64, "forward_rows": 2_340_000, "backward_rows": 900}
            at = {f"test/usefulness_at_{gamma}": np.array([0.9, 0.94]) for gamma in ("0.95", "0.9")}
            arrays = result.arrays | at | {"test/design": np.array([0, 0])}
            return Result(result.numbers | took, arrays)

    it = publish(goals_unseen, few("goals_unseen"), Exact({"test": GOOD["test"]}))
    table = it.analysis.tables["goals"]
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert row["training"] == "10 updates of 64 levels; network rows: 2.3 M forward, 900 backward"
    assert (row["at γ = 0.95"], row["measured on"]) == ("0.920", "its own test levels (1 design)")
    assert not any("steps" in head for head in table.header)
    assert it.analysis.findings["goals"][0]["usefulness_at"]["0.9"] == pytest.approx([0.92, 0.92])


@pytest.mark.parametrize("name", STUDIES)
def test_the_report_comes_without_any_run(name: str) -> None:
    it = published(name, GOOD, "-")
    assert "No run has finished." in it.text
    assert it.analysis.quotes[0].measured == "no run has finished"
    assert it.plots == []
