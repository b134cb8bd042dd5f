"""Training runs with the tabular algorithm: metrics, and agreement with the reference implementation."""

from itertools import pairwise

import pytest
import torch

from drest_torch.algos.base import Effort
from drest_torch.envs.levels import world
from drest_torch.evaluation.tabular_agents import Tables
from drest_torch.files import read_metrics
from drest_torch.training.run import start
from tests.helpers.runs import configured, weights
from tests.helpers.tabular_twin import LONGEST, UINT64, TabularRules, as_many_threads_as_torch, ready, reference_agent

__all__ = ["as_many_threads_as_torch"]  # a fixture, and meant for every test here as well

SMALL = ("algo=tabular", "algo.random_episodes=0", "algo.decay_episodes=800")


def begun(folder, *overrides):
    return start(configured(folder, *SMALL, *overrides))


def test_metrics_of_a_run_agree_with_its_table(tmp_path):
    summary = begun(tmp_path, "last_batch=whole").train()
    rows, logits = read_metrics(tmp_path / "metrics.jsonl"), weights(tmp_path)["policy.logits"]
    assert summary["mini_episodes"] == 128 * (len(rows) - 1)
    evaluation = Tables(world("example"), 1.0, 1).evaluate(logits.unsqueeze(0).numpy())
    for name in ("usefulness", "neutrality"):
        assert summary["splits"]["train"][name] == pytest.approx(evaluation[name][0], abs=1e-12)
    chance = logits.softmax(-1)
    assert rows[-1]["policy/entropy"] == pytest.approx(-(chance * chance.log()).sum(-1).mean().item())
    for index, (before, row) in enumerate(pairwise(rows)):
        assert row["train/mini_episode_steps"] == pytest.approx((row["step"] - before["step"]) / 128)
        share = min(128 * index / 800, 1)
        assert row["optim/lr"] == pytest.approx(0.25 * (0.01 / 0.25) ** share)
        assert row["optim/epsilon"] == pytest.approx(0.5 * (0.001 / 0.5) ** share)
        assert row["train/cut_off"] == 0
    assert share == 1


FIXED = {"episodes_per_meta": 64, "lr": (0.25, 0.01), "epsilon": (0.5, 0.001), "decay_episodes": 800}
MOVES = "levels.clock=moves reward.gamma=0.9"
WAYS = {
    "": {},
    "reward.episodes_per_meta=48": {"episodes_per_meta": 48},  # counts outlast a batch
    "reward=default reward.gamma=0.9": {"lam": 1.0, "gamma": 0.9, "divide": "none"},
    "reward.divide_by_best=false reward.lam=0.8": {"lam": 0.8, "divide": "none"},
    "reward.clip=0.3 reward.lam=0.8": {"lam": 0.8, "clip": 0.3},
    "algo.random_episodes=300 seed=7": {"random_episodes": 300},
    MOVES: {"gamma": 0.9},
    f"{MOVES} algo.discount_bumps=false": {"gamma": 0.9, "discount_bumps": False},
}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("way", WAYS)
def test_a_run_equals_the_reference_algorithm(tmp_path, way):
    """The reference implementation clips the reward of each coin, for example."""
    settings = TabularRules(**FIXED | WAYS[way])
    run = begun(tmp_path / "run", *way.split())
    stream = int(run.algorithm.state.stream[0]) & UINT64
    while run.state.steps < 2500:
        run.update()
    level = world("example").with_clock("moves" if MOVES in way else "steps")
    _, _, shape = ready(level)
    logits = run.algorithm.policy.logits
    expected = reference_agent(level, settings, stream, torch.zeros_like(logits), run.state.episodes, shape)
    assert run.state.steps == expected.steps
    assert logits.numpy() == pytest.approx(expected.logits.numpy(), abs=1e-9)
    assert logits.abs().max() > 0.1


def test_metrics_count_mini_episodes_that_are_cut_off(tmp_path):
    run = begun(tmp_path / "run", "levels.clock=moves", "algo.episodes=3", "algo.epsilon=1e-12", "env_steps=100000")
    run.algorithm.policy.logits[:, 1] = 100.0  # down, where below the start there is a wall
    before = run.algorithm.policy.logits.clone()
    for _ in range(2):
        metrics = run.update()
        assert run.algorithm.effort == Effort(steps=3 * LONGEST, episodes=3)
        assert metrics["train/cut_off"] == 3
    assert torch.equal(run.algorithm.policy.logits, before)
