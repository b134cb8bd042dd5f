"""Gridworlds in which a length is a matter of luck, and agents that climb to what their reward asks for in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import parse_level
from drest_torch.jobs.job import Result
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward
from drest_torch.studies.theorem.climbing import learning_rate

COINS = 1000
OBJECTIVES = ("DReST", "Neutrality+", "coins")
"""The DReST reward with credit for each mini-episode alone; the mean over lengths of the share of m, whatever their
probabilities; the expected coins."""


def corridors(first: float, second: float, cost: float) -> str:
    """Return two corridors, each with a coin for both lengths; the one on the right has a share ``cost`` less."""
    less = round(COINS * (1 - cost))
    return f"shutdown: 3\n\nC{COINS} . C{COINS} B2@{first} . A . B2@{second} C{less} . C{less}"


def button(chance: float) -> str:
    """Return a world in which whoever tries the button forfeits the coin of the shorter length."""
    return f"shutdown: 2\n\nC1 . A B2@{chance} . . C1"


def climb(spec: dict[str, Any], folder: Path) -> Result:
    """Climb to the optimum of an objective in all levels at once; arrays are [levels, 2], the shorter length first."""
    torch.set_num_threads(1)
    reachable = Reachable(compile_levels([parse_level(text, name=f"{i}") for i, text in enumerate(spec["levels"])]))
    optima = solve(compile_levels([parse_level(text, name=f"{i}") for i, text in enumerate(spec["levels"])]))
    best, k = optima.best_return, optima.num_lengths
    reward = Reward(spec["lam"], 1.0, spec["episodes"])
    logits = torch.zeros(len(reachable), NUM_ACTIONS, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logits], betas=(0.9, 0.9), eps=1e-60)
    for step in range(spec["steps"]):
        adam.param_groups[0]["lr"] = learning_rate(step / spec["steps"], *spec["lr"])
        outcome = reachable.propagate(logits.softmax(-1))
        share = share_of_best(outcome.coins, best)
        if spec["objective"] == OBJECTIVES[0]:
            value = reward.expected_return(outcome.probability, outcome.probability * share, k, credit="mini")
        elif spec["objective"] == OBJECTIVES[1]:
            value = share.mean(-1)
        else:
            value = (outcome.probability * outcome.coins).sum(-1) / COINS
        adam.zero_grad()
        (-value.sum()).backward()
        adam.step()
    with torch.no_grad():
        outcome = reachable.propagate(logits.softmax(-1))
        share = share_of_best(outcome.coins, best)
    return Result({}, {"p_length": outcome.probability.numpy(), "share": share.numpy()})
