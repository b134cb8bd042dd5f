"""Runs in worlds where wrong values are paid: exact gradients on a policy that is free in every state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.level_set import PaidCoins
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import world
from drest_torch.jobs.job import Result
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward
from drest_torch.training.exact_levels import ExactLevels
from drest_torch.training.level_sampler import LevelSampler

CLIMB = "drest_torch.studies.misspecified.worlds:climb"


def climb(spec: dict[str, Any], folder: Path) -> Result:
    """Train on several worlds side by side, each with logits of its own in every state, the time being part of it.

    The batches are those of ``algo=exact``, and Adam ascends what that algorithm does. arrays, for each world:
    ``p_length`` [B, K], ``usefulness`` by the actual coins, ``proxy``, which it is by the paid coins, ``neutrality``.
    """
    levels = [world(name) for name in spec["worlds"]]
    reward, coins = Reward(**spec["reward"]), PaidCoins(spec["pays"], spec["best_of"])
    source = LevelSampler(levels, torch.Generator())
    batch = ExactLevels(source, "grid", reward=reward, coins=coins, at_once=len(levels), at_least=(1, 1)).draw()
    logits = torch.zeros(batch.states, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], spec["lr"])
    for _ in range(spec["updates"]):
        probability, collected = batch.outcome(logits.softmax(-1).unsqueeze(0))
        share = reward.preliminary(collected, batch.best_return)
        returns = reward.expected_return(probability, share, batch.num_lengths, credit="mini")
        optimizer.zero_grad()
        (-returns.sum()).backward()
        optimizer.step()
    return Result({}, measure(spec["worlds"], logits.detach().softmax(-1), coins, reward.gamma))


def measure(worlds: list[str], table: torch.Tensor, coins: PaidCoins, gamma: float) -> dict[str, np.ndarray]:
    """Return the numbers of a policy with these action probabilities [N, 4] in the reachable states of worlds."""
    mdp = compile_levels([world(name) for name in worlds])
    paid = coins.paid(mdp)
    found, by_paid = (Reachable(each).arrivals(table, gamma).lengths() for each in (mdp, paid))
    numbers = {
        "p_length": found.probability,
        "usefulness": usefulness(found.probability, found.coins, solve(mdp, gamma).best_return),
        "proxy": usefulness(by_paid.probability, by_paid.coins, solve(paid, gamma).best_return),
        "neutrality": neutrality(found.probability),
    }
    return {name: values.numpy() for name, values in numbers.items()}
