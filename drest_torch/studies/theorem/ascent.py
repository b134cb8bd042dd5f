"""Gradient ascent to the optimum of a level over all policies of states, which include the time.

The expected return of a meta-episode is exact and differentiable in the action probabilities
(`drest_torch.envs.exact.propagator`, `drest_torch.reward`), and Adam optimises it from several starts. All starts of
all levels are optimised at the same time, as one level set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import Optima, optimal_route, solve
from drest_torch.envs.levels import Level, LevelError, parse_level, world
from drest_torch.jobs.job import Result
from drest_torch.metrics import share_of_best
from drest_torch.reward import Reward

CREDITS = ("meta", "mini")
"""The scope of credit for a coin: the whole meta-episode, or the mini-episode, as in the paper's training."""


def optimise(spec: dict[str, Any], folder: Path) -> Result:
    """Execute the ascents of a spec from S starts in B levels with at most K lengths; arrays are [S, B, K or 1]."""
    levels = [world(name).with_clock("steps") for name in spec["worlds"]]
    levels += [parse_level(text, name=name) for name, text in spec["levels"].items()]
    optima = solve_levels(levels, spec["gamma"])
    starts = ["uniform", *(f"random {number + 1}" for number in range(spec["random_starts"])), "neutral"]
    # If a level has fewer lengths than others, its last length is repeated.
    starts += [f"length {column + 1}" for column in range(optima.lengths.shape[1])]
    reachable = Reachable(compile_levels([level for _ in starts for level in levels]))
    tensors = ascend(starting_logits(starts, reachable, optima, spec["slip"]), reachable, optima, spec)
    shape = (len(starts), len(levels), -1)
    arrays = {name: tensor.reshape(shape).numpy() for name, tensor in tensors.items()}
    numbers = {
        "levels": [level.name for level in levels],
        "starts": starts,
        "lengths": [row[:k].tolist() for row, k in zip(optima.lengths, optima.num_lengths, strict=True)],
    }
    return Result(numbers, arrays)


def solve_levels(levels: Sequence[Level], gamma: float) -> Optima:
    """Return the lengths of each level and m(l); refuse a level with a length without coins."""
    optima = solve(compile_levels(levels), gamma)
    for level, lengths, best in zip(levels, optima.lengths, optima.best_return, strict=True):
        for length, most in zip(lengths.tolist(), best.tolist(), strict=True):
            if length and not most:
                raise LevelError(
                    f"{level.place}: no coin can be collected in a trajectory of length {length}; expected one, "
                    "because the theorem divides by the largest return"
                )
    return optima


# -------------------------------------------------------------------------------------------- starts


def starting_logits(starts: Sequence[str], reachable: Reachable, optima: Optima, slip: float) -> Tensor:
    """Return the starting logits [N, 4] of a level set that repeats the levels of ``optima`` for each start.

    Near a pure length, actions of a best route of that length have weight 1, and other actions ``slip``. Near the
    neutral policy, the weight of an action is the number of best routes that take it, plus ``slip``.
    """
    levels = len(optima.lengths)
    copy = torch.div(reachable.mdp.level_of(reachable.states.spot), levels, rounding_mode="floor")
    logits, taken = torch.zeros(2, len(reachable), NUM_ACTIONS, dtype=torch.float64)
    for index, start in enumerate(starts):
        kind, _, number = start.partition(" ")
        if kind == "random":
            sample = torch.randn(logits.shape, generator=torch.Generator().manual_seed(int(number)), dtype=logits.dtype)
            logits = torch.where((copy == index).unsqueeze(-1), sample, logits)
        elif kind in ("neutral", "length"):
            for level, k in enumerate(optima.num_lengths.tolist()):
                for column in range(k) if kind == "neutral" else [min(int(number), k) - 1]:
                    length = int(optima.lengths[level, column])
                    for state, action in best_route(reachable, index * levels + level, length, optima.gamma):
                        taken[state, action] += 1
    return torch.where(taken.sum(-1, keepdim=True) > 0, (taken + slip).log(), logits)


def best_route(reachable: Reachable, level: int, length: int, gamma: float) -> Iterator[tuple[int, int]]:
    """Yield the (state, action) of each tick of a best trajectory of this length."""
    mdp, first, index = reachable.mdp, 0, level
    route = optimal_route(mdp, level, length, gamma)
    cells = [level * mdp.num_cells + row * mdp.width + column for row, column in route]
    for layer, (spot, after) in zip(reachable.layers, pairwise(cells), strict=False):
        action = mdp.goto.reshape(-1, NUM_ACTIONS)[spot].tolist().index(after)
        yield first + index, action
        first, index = first + len(layer.spot), int(layer.target[index, action, 0])


# ---------------------------------------------------------------------------------------------- ascent


def ascend(logits: Tensor, reachable: Reachable, optima: Optima, spec: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return P(L=l), E[C | L=l] / m(l) and the expected return after the ascent [S · B, …].

    The return of each level is divided by its neutral policy's. Levels share no logits, so the gradient of the sum
    consists of the gradients of the levels.
    """
    reward, gamma = Reward(spec["lam"], spec["gamma"], spec["episodes_per_meta"]), spec["gamma"]
    copies = reachable.mdp.num_levels // len(optima.lengths)
    best, k = optima.best_return.repeat(copies, 1), optima.num_lengths.repeat(copies)
    neutral = reward.expected_discount(1 / k.double(), k)
    logits = logits.clone().requires_grad_()
    # A short memory and a negligible ε: Adam also follows the tiny gradient of an action that is hardly ever taken.
    adam = torch.optim.Adam([logits], betas=(0.9, 0.9), eps=1e-60)
    for step in range(spec["steps"]):
        adam.param_groups[0]["lr"] = learning_rate(step / spec["steps"], *spec["lr"])
        outcome = reachable.propagate(logits.softmax(-1), gamma)
        preliminary = outcome.probability * share_of_best(outcome.coins, best)
        value = reward.expected_return(outcome.probability, preliminary, k, credit=spec["credit"])
        adam.zero_grad()
        (-(value / neutral).sum()).backward()
        adam.step()
    with torch.no_grad():
        outcome = reachable.propagate(logits.softmax(-1), gamma)
        share = share_of_best(outcome.coins, best)
        value = reward.expected_return(outcome.probability, outcome.probability * share, k)
        return {"p_length": outcome.probability, "share_of_best": share, "value": value}


def learning_rate(progress: float, careful: float, fast: float, end: float) -> float:
    """Return Adam's learning rate: ``careful`` at first, so that no length is lost early, then ``fast``, then falling
    to ``end``."""
    if progress < 1 / 3:
        return careful
    return fast * (end / fast) ** max(0.0, 3 * progress - 2)
