"""Gradient ascent on the exact objective in worlds that pay wrong values, with free logits in every state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import LevelSet, PaidCoins, solve
from drest_torch.envs.levels import world
from drest_torch.jobs.job import Result
from drest_torch.reward import Reward
from drest_torch.studies.shared import measure_by_values
from drest_torch.tasks.exact_batch import ExactBatch

TRAIN = "drest_torch.studies.ratio.wrong_values:train"


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train a policy with free logits in every state of several worlds; the state includes the time.

    The batches and the objective are those of ``algo=exact``. arrays: those of `measure_by_values`.
    """
    reward = Reward(**spec["reward"])
    coins = PaidCoins(spec["pays"], spec["best_of"])
    mdp = compile_levels([world(name) for name in spec["worlds"]])
    batch = ExactBatch(LevelSet(mdp), "grid", reward, coins=coins)
    logits = torch.zeros(batch.states, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], spec["lr"])
    for _ in range(spec["updates"]):
        probability, collected = batch.outcome(logits.softmax(-1).unsqueeze(0))
        share = reward.preliminary(collected, batch.best_return)
        returns = reward.expected_return(probability, share, batch.num_lengths, credit="mini")
        optimizer.zero_grad()
        (-returns.sum()).backward()
        optimizer.step()
    table = logits.detach().softmax(-1)
    return Result({}, measure_by_values(table, mdp, coins.paid(mdp), reward.gamma))


def ratio(name: str, coins: PaidCoins, gamma: float) -> float:
    """Return x in a world with two lengths: the ratio, longer ÷ shorter, of the largest paid return ÷ its divisor."""
    levels = LevelSet(compile_levels([world(name)]))
    paid = solve(coins.paid(levels.mdp), gamma).best_return
    shorter, longer = (paid / coins.optima(levels, gamma).best_return)[0].tolist()
    return float(longer / shorter)


def best_return(name: str, gamma: float) -> tuple[float, float]:
    """Return m of the shorter and of the longer length of a world."""
    shorter, longer = solve(compile_levels([world(name)]), gamma).best_return[0].tolist()
    return shorter, longer
