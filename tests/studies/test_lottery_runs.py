"""Runs on levels with lotteries: rendering, training, and evaluation with both optima."""

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import RegularPolygon

from drest_torch.agent import Agent
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.exact.solver import committed_return, solve
from drest_torch.envs.levels import parse_level, world, write_levels
from drest_torch.envs.view import show
from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.sampled import SamplingEvaluator
from drest_torch.metrics import usefulness
from drest_torch.reward import Reward
from drest_torch.training.run import start
from tests.helpers.runs import TINY

LUCK = parse_level(
    "lottery a: 1/2 C4 +0 | 1/2 C0 +0\nlottery b: 1/3 C-1 +2 | 2/3 C0 -1\nshutdown: 3\nA La .\n. Lb B2", name="luck"
)
FLAT = parse_level("shutdown: 3\nA C2 .\n. . B2", name="flat")


def test_a_lottery_is_rendered_with_its_outcomes(capsys, tmp_path):
    ax = Figure().add_subplot()
    render(LUCK, ax)
    assert sum(isinstance(patch, RegularPolygon) for patch in ax.patches) == 2
    assert {"1/2 C4", "1/2 0", "1/3 C-1+2", "2/3 -1"} <= {patch.get_gid() for patch in ax.patches}
    write_levels(tmp_path / "luck.txt", [LUCK])
    assert show.main([str(tmp_path / "luck.txt")]) == 0
    printed = capsys.readouterr().out
    assert "lottery a: 1/2 C0 +0 | 1/2 C4 +0\n" in printed
    assert "1 button, 2 lotteries" in printed
    assert show.main(["example"]) == 0
    assert "lotter" not in capsys.readouterr().out


def exactly(*levels):
    """Return an untrained policy, and its exact evaluation."""
    torch.manual_seed(0)
    evaluator = ExactEvaluator(levels, "grid", reward=Reward())
    policy = Policy(evaluator.observe.shape, NUM_ACTIONS, NetworkSize(8, 1), scale=evaluator.observe.scale)
    return policy, evaluator.evaluate(policy)


def test_usefulness_is_reported_with_both_optima():
    """The second optimum commits to a length before luck decides; it is left out where luck plays no part."""
    _, evaluation = exactly(LUCK)
    mdp = compile_levels([LUCK])
    optima = solve(mdp)
    sure = committed_return(mdp, optima)
    assert (sure < optima.best_return).any()
    assert sure.isnan().any()
    divisor = torch.where(sure > 0, sure, optima.best_return)
    assert torch.equal(solve(mdp, committed=True).best_return, divisor)
    outcome = evaluation.outcome
    expected = usefulness(outcome.probability, outcome.coins, divisor).item()
    record = evaluation.records()[0]
    assert record["usefulness_committed"] == pytest.approx(expected)
    assert record["usefulness_committed"] > record["usefulness"]
    assert evaluation.means()["usefulness_committed"] == pytest.approx(expected)
    _, without_luck = exactly(FLAT)
    assert "usefulness_committed" not in without_luck.records()[0]


def test_sampled_usefulness_agrees_with_exact_usefulness():
    policy, truth = exactly(LUCK, world("example"))
    sampled = SamplingEvaluator([LUCK, world("example")], "grid", reward=Reward(), mini_episodes=20_000, seed=1)
    estimate = sampled.evaluate(policy)
    low, high = estimate.usefulness_range
    assert ((low < truth.usefulness) & (truth.usefulness < high)).all()
    assert (high - low < 0.1).all()
    torch.testing.assert_close(estimate.usefulness_committed, truth.usefulness_committed, atol=0.03, rtol=0)


def test_a_length_with_only_losses_has_no_reward():
    numbers = ([-1.0, -1.0, 2.0], [1.0, 2.0, 0.5], [0.0, 4.0, 4.0])  # coins, the discount and m
    assert Reward().pay(*map(torch.tensor, numbers)).tolist() == [0.0, -0.5, 0.25]


@pytest.mark.mostly_slow
@pytest.mark.parametrize("algo", ["exact", "ppo"])
def test_a_run_with_lotteries_reports_both_optima(tmp_path, algo):
    write_levels(tmp_path / "train.jsonl", [LUCK, FLAT])
    values = (f"algo={algo}", f"levels.path={tmp_path / 'train.jsonl'}")
    values += (f"run_dir={tmp_path / 'run'}", *TINY, "env_steps=3000", "evaluations=2", "test.paper=false")
    start(compose(*values)).train()
    agent = Agent.load(tmp_path / "run")
    luck, flat = agent.evaluate([LUCK, FLAT]).record()["levels"]
    assert luck["usefulness_committed"] > luck["usefulness"]
    assert flat["usefulness_committed"] == flat["usefulness"]
