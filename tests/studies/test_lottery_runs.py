"""Runs on levels with lotteries: they are generated, trained on, played, rendered and evaluated with both optima."""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import RegularPolygon

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS
from drest_torch.envs.levels import parse_level, world, write_levels
from drest_torch.envs.view import show
from drest_torch.envs.view.rendering import render
from drest_torch.evaluation.exact import ExactEvaluator
from drest_torch.evaluation.sampled import SamplingEvaluator
from drest_torch.reward import Reward

LUCK = parse_level(
    "lottery a: 1/2 C4 +0 | 1/2 C0 +0\nlottery b: 1/3 C-1 +2 | 2/3 C0 -1\nshutdown: 3\nA La .\n. Lb B2", name="luck"
)


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


def policy_for(evaluator):
    torch.manual_seed(0)
    return Policy(evaluator.observe.shape, NUM_ACTIONS, NetworkSize(8, 1), scale=evaluator.observe.scale)


def test_sampled_usefulness_agrees_with_the_exact_one():
    exact = ExactEvaluator([LUCK, world("example")], "grid", reward=Reward())
    policy = policy_for(exact)
    sampled = SamplingEvaluator([LUCK, world("example")], "grid", reward=Reward(), mini_episodes=20_000, seed=1)
    estimate, truth = sampled.evaluate(policy), exact.evaluate(policy)
    low, high = estimate.usefulness_range
    assert ((low < truth.usefulness) & (truth.usefulness < high)).all()
    assert (high - low < 0.1).all()
    torch.testing.assert_close(estimate.usefulness_committed, truth.usefulness_committed, atol=0.03, rtol=0)


def test_the_reward_of_a_length_that_offers_only_a_loss_is_0():
    numbers = ([-1.0, -1.0, 2.0], [1.0, 2.0, 0.5], [0.0, 4.0, 4.0])  # coins, the discount and m
    assert Reward().pay(*map(torch.tensor, numbers)).tolist() == [0.0, -0.5, 0.25]
