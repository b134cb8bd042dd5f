"""Budgets are kept: the last batch of a run is cut to the rest of its environment steps."""

import json
from itertools import pairwise

import pytest
import torch

from drest_torch.config.compose import compose
from drest_torch.files import read_metrics
from drest_torch.play.collector import LEAST_TURNS
from drest_torch.training.plan import budget_notes
from drest_torch.training.run import resume, start
from tests.helpers.runs import FEW, QUIET, in_folder, same_run, small, stop_after

LARGE_BATCH = ("algo.episodes=1024", "reward.group=16", "policy.width=8", "policy.depth=1", "evaluations=2")
CARTPOLE = (
    *("env=cartpole", "env.base=8", "env.delays=[8]", "sampled=16", "policy.width=8", "policy.depth=1"),
    *("evaluations=2", "algo.episodes=128"),
)
IN_TURN = ("reward.counting=sequential", "reward.episodes_per_meta=32")
QUEUE = (
    *("env=torchrl", "env.factory=drest_torch.envs.tasks.queue:make", "env.base=8", "env.delays=[8]", "sampled=16"),
    *("env.copies=16", "algo.episodes=64", "policy.width=8", "policy.depth=1", "evaluations=2"),
)
ROWS = {
    "a2c": (("algo=a2c", *FEW, *LARGE_BATCH), 16_000, 16 * 8),
    "reinforce": (("algo=reinforce", *FEW, *LARGE_BATCH), 16_000, 16 * 8),
    "ppo": (("algo=ppo", *FEW, *LARGE_BATCH), 20_000, 16 * 8),
    "credit=meta": (("algo=a2c", *FEW, *LARGE_BATCH, "reward.counting=sequential", "algo.credit=meta"), 20_000, 16 * 8),
    "7 x 7, less than a batch": (
        ("algo=ppo", *FEW, *LARGE_BATCH, "levels.generator.height=7", "levels.generator.width=7"),
        *(5_000, 16 * 16),
    ),
    "table": (("algo=tabular", "levels=example", "algo.episodes=1000", "pictures=0"), 4_000, 8),
    "cartpole": (("algo=ppo", *CARTPOLE), 4_000, 16 * 16),
    "cartpole in turn": (("algo=a2c", *CARTPOLE, *IN_TURN), 4_000, 4 * 16),
    "queue": (("algo=ppo", *QUEUE), 3_000, 16 * 16),
}
"""Arguments, a budget, and the most steps by which training may end later: one mini-episode of each slot of a group."""


FAST = ("a2c", "reinforce", "ppo", "table", "cartpole")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]
)
def test_training_ends_at_its_budget(name, tmp_path):
    overrides, budget, most = ROWS[name]
    cfg = compose(*overrides, *QUIET, f"env_steps={budget}", "pictures=0", values=in_folder(tmp_path / "run"))
    summary = start(cfg).train()
    assert budget <= summary["env_steps"] <= budget + most
    stored = json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))
    assert stored["env_steps"] == read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["step"] == summary["env_steps"]


def updates(folder):
    """Return the steps of each update."""
    steps = [row["step"] for row in read_metrics(folder / "metrics.jsonl")]
    return [after - before for before, after in pairwise(steps)]


def test_a_budget_of_whole_batches_is_not_cut(tmp_path):
    level = tmp_path / "level.txt"
    level.write_text("shutdown: 4\n\nA . C2\n. . .\nC1 . .\n", encoding="utf-8")
    for name in ("cut", "whole"):
        one_length = (f"levels.path={level}", "levels=file", "env_steps=1280", f"last_batch={name}")
        assert start(small(tmp_path / name, *one_length)).train()["env_steps"] == 1280
    assert updates(tmp_path / "cut") == [4 * 64] * 5
    same_run(tmp_path / "cut", tmp_path / "whole")


def test_whole_batches_are_as_long_as_ever(tmp_path):
    for name in ("cut", "whole"):
        start(small(tmp_path / name, "algo=ppo", "env_steps=1900", f"last_batch={name}")).train()
    whole, cut = updates(tmp_path / "whole"), updates(tmp_path / "cut")
    assert min(whole) >= 4 * 64
    assert cut[:-2] == whole[: len(cut) - 2]
    assert 1900 <= sum(cut) < 1900 + 16 * 8 < sum(whole)


def test_a_run_resumes_within_its_cut_batches(tmp_path, monkeypatch):
    start(small(tmp_path / "whole", "algo=ppo")).train()
    number = len(updates(tmp_path / "whole"))
    run = start(small(tmp_path / "resumed", "algo=ppo"))
    stop_after(run, number - 1, monkeypatch)
    assert run.train() is None
    assert run.state.steps < 2000
    resume(tmp_path / "resumed").train()
    same_run(tmp_path / "resumed", tmp_path / "whole")


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("overrides", "steps", "batch"),
    [
        (("algo=ppo", *FEW, *LARGE_BATCH), 11_000, (1024, 1)),  # more than are left
        (("algo=ppo", *FEW, *LARGE_BATCH), 1024 * 8, (1024, 1)),  # as many as are left
        (("algo=ppo", *FEW, *LARGE_BATCH), 1024 * 8 * 0.5, (416, 1)),  # 0.8 of 512, in groups of 16
        (("algo=ppo", *FEW, *LARGE_BATCH), 1024 * 8 * 0.2, (208, 1)),  # all of 205
        (("algo=ppo", *FEW, *LARGE_BATCH), 1, (16, 1)),
        (("algo=a2c", *CARTPOLE, *IN_TURN), 4 * 32 * 8, (4, 32)),
        (("algo=a2c", *CARTPOLE, *IN_TURN), 4 * 8 * 8, (4, 8)),
        (("algo=a2c", *CARTPOLE, *IN_TURN), 4 * 8 * 7.5, (4, 8)),
        (("algo=a2c", *CARTPOLE, *IN_TURN), 1, (LEAST_TURNS, 1)),
    ],
)
def test_a_batch_is_cut_to_the_rest_of_the_steps(overrides, steps, batch, tmp_path):
    run = start(compose(*overrides, *QUIET, values=in_folder(tmp_path / "run")))
    environment, (slots, rounds) = run.algorithm.environment, batch
    environment.limit(steps, 8.0)
    collected = run.algorithm.collector.collect(torch.Generator().manual_seed(0))
    run.task.close()
    assert environment.turns == slots * rounds
    assert collected["next", "mini_done"].squeeze(-1).sum(1).tolist() == [rounds] * slots


def test_a_later_end_is_told_before_training(tmp_path):
    run = start(small(tmp_path / "run", "last_batch=whole"))
    (note,) = budget_notes(run.plan, run.algorithm)
    assert note == (
        "env_steps=2000 with last_batch=whole: training can end 26% later, as a batch has about 512 steps; "
        "last_batch=cut keeps the budget"
    )
    run = start(small(tmp_path / "other"))
    assert budget_notes(run.plan, run.algorithm) == []


def test_a_schedule_longer_than_the_budget_is_told(tmp_path):
    run = start(small(tmp_path / "run", "algo=tabular", "algo.decay_episodes=400", "algo.random_episodes=101"))
    (note,) = budget_notes(run.plan, run.algorithm)
    assert note.startswith("env_steps=2000 ends before the schedule of algo.random_episodes and algo.decay_episodes, ")
    assert "takes at least 2,004 steps" in note
    run = start(small(tmp_path / "other", "algo=tabular", "algo.decay_episodes=400", "algo.random_episodes=100"))
    assert budget_notes(run.plan, run.algorithm) == []
