"""Runs of the study `misspecified`: worlds in which wrong values are paid, and levels in which nearness misleads.

The maps of the latter come from the generator. The values of a level's coins are given out again in the order of how
near the coins are to the start: the nearest becomes the most valuable, or, in the reverse order, the least valuable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.agent import Agent
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import LevelSet, PaidCoins, solve
from drest_torch.envs.generation.splits import distinct
from drest_torch.envs.generation.stream import GeneratorConfig, stream
from drest_torch.envs.levels import Coin, Level, world, write_levels
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.metrics import neutrality, usefulness
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch

CLIMB, TRAIN = (f"drest_torch.studies.wrong_goals:{name}" for name in ("climb", "train"))
ORDERS = {"coincides": False, "reversed": True}
"""The test levels: the same maps, with values in the order of nearness and in the reverse order."""
AT_ONCE = 256
"""Levels that are solved together."""
LARGE = 2.0**20
"""More than all coins of a level together: its multiples and what is added to them can be told apart."""


def measure(table: Tensor, mdp: Mdp, paid: Mdp, gamma: float = 1.0) -> dict[str, np.ndarray]:
    """Return the numbers of a policy with these action probabilities [N, 4] in the reachable states of levels.

    ``p_length`` [B, K]; ``usefulness``, and ``proxy``, which it is by the values of ``paid``; ``neutrality`` ÷ log2 k;
    ``longest``, P of the longest length.
    """
    found, by_paid = (Reachable(each).arrivals(table, gamma).lengths() for each in (mdp, paid))
    optima = solve(mdp, gamma)
    numbers = {
        "p_length": found.probability,
        "usefulness": usefulness(found.probability, found.coins, optima.best_return),
        "proxy": usefulness(by_paid.probability, by_paid.coins, solve(paid, gamma).best_return),
        "neutrality": neutrality(found.probability) / optima.num_lengths.double().log2(),
        "longest": found.probability.gather(-1, (optima.num_lengths - 1).unsqueeze(-1)).squeeze(-1),
    }
    return {name: values.numpy() for name, values in numbers.items()}


# ------------------------------------------------------------------------------------- wrong values


def climb(spec: dict[str, Any], folder: Path) -> Result:
    """Train on several worlds side by side, each with logits of its own in every state, the time being part of it.

    The batches are those of ``algo=exact``, and Adam ascends what that algorithm does. arrays: those of `measure`.
    """
    reward, coins = Reward(**spec["reward"]), PaidCoins(spec["pays"], spec["best_of"])
    levels = compile_levels([world(name) for name in spec["worlds"]])
    batch = ExactBatch(LevelSet(levels), "grid", reward, coins=coins)
    logits = torch.zeros(batch.states, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], spec["lr"])
    for _ in range(spec["updates"]):
        probability, collected = batch.outcome(logits.softmax(-1).unsqueeze(0))
        share = reward.preliminary(collected, batch.best_return)
        returns = reward.expected_return(probability, share, batch.num_lengths, credit="mini")
        optimizer.zero_grad()
        (-returns.sum()).backward()
        optimizer.step()
    return Result({}, in_worlds(spec["worlds"], logits.detach().softmax(-1), coins, reward.gamma))


def in_worlds(worlds: Sequence[str], table: Tensor, coins: PaidCoins, gamma: float) -> dict[str, np.ndarray]:
    mdp = compile_levels([world(name) for name in worlds])
    return measure(table, mdp, coins.paid(mdp), gamma)


# ------------------------------------------------------------------------------- nearness misleads


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train an agent on levels in which nearness coincides with value, and measure it on test levels.

    arrays: those of `measure` as ``coincides/…`` and ``reversed/…``.
    """
    test, training = split(json.dumps(spec["levels"], sort_keys=True))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train.jsonl"
    write_levels(path, [by_nearness(level) for level in training])
    trained({"config": spec["config"] | {"levels": spec["config"]["levels"] | {"path": str(path)}}}, folder)
    agent, paid = Agent.load(folder), [by_nearness(level) for level in test]
    arrays: dict[str, np.ndarray] = {}
    for order, reverse in ORDERS.items():
        found = of_agent(agent, [by_nearness(level, reverse=reverse) for level in test], paid)
        arrays |= {f"{order}/{name}": values for name, values in found.items()}
    return Result({}, arrays)


@torch.no_grad()
def of_agent(agent: Agent, levels: Sequence[Level], paid: Sequence[Level]) -> dict[str, np.ndarray]:
    """Return the numbers of an agent in levels; ``paid`` are the levels with their values by nearness."""
    level_set = agent.evaluator(list(levels))
    table = level_set.table(agent.policy, level_set.unrolled(range(len(levels))), None)
    proxy = compile_levels(paid, at_least=agent.map_size, features=level_set.mdp.features)
    return measure(table, level_set.mdp, proxy)


def distance(level: Level, coin: Coin) -> int:
    return abs(coin.row - level.start[0]) + abs(coin.column - level.start[1])


def by_nearness(level: Level, *, reverse: bool = False) -> Level:
    """Return the level with its coins' values in the order of nearness, or in the reverse order."""
    coins = sorted(level.coins, key=lambda coin: distance(level, coin), reverse=not reverse)
    values = sorted(coin.value for coin in coins)
    changed = {coin: replace(coin, value=value) for coin, value in zip(coins, values, strict=True)}
    objects = (changed[thing] if isinstance(thing, Coin) else thing for thing in level.objects)
    return replace(level, objects=tuple(objects))


def is_clear(level: Level) -> bool:
    """Return whether no two coins have the same value, or are as near."""
    coins = [(coin.value, distance(level, coin)) for coin in level.coins]
    return all(len(set(each)) == len(coins) for each in zip(*coins, strict=True))


def share_left(mdp: Mdp, paid: Mdp) -> Tensor:
    """Return what is left of m [B, K], given each length, by a policy that is as useful as can be by other values.

    ``paid`` is the same level set with these values; all values are whole numbers. Of all such policies it is the most
    useful one. It is 1 where m is 0.
    """
    both = paid.with_coins(LARGE * paid.coin + mdp.coin)
    actual, mixed = (solve(each, allow_barren=True).best_return for each in (mdp, both))
    return torch.where(actual > 0, (mixed % LARGE) / actual, 1.0)


def designs(levels: Iterable[Level], most: float) -> Iterator[Level]:
    """Yield the levels in which the order of the coins' values matters.

    Given each length, what is best by nearness must leave at most the share ``most`` of m in the reverse order.
    """
    clear = filter(is_clear, levels)
    while several := list(islice(clear, AT_ONCE)):
        coincide, reverse = (
            compile_levels([by_nearness(level, reverse=order) for level in several]) for order in ORDERS.values()
        )
        worst = share_left(reverse, coincide).amax(-1)
        yield from (level for level, share in zip(several, worst.tolist(), strict=True) if share <= most)


@lru_cache(maxsize=4)
def split(levels: str) -> tuple[list[Level], list[Level]]:
    """Return the test levels and the training levels of a study's values ``levels``, as JSON.

    In test levels the longest and the shortest length differ in what they offer by nearness, so that neutrality is
    put to a test.
    """
    values = json.loads(levels)
    found = distinct(designs(stream(GeneratorConfig(**values["generator"]), values["seed"]), values["most"]))
    test: list[Level] = []
    train: list[Level] = []
    while len(test) < values["test"] or len(train) < values["train"]:
        several = list(islice(found, 32))
        best = solve(compile_levels([by_nearness(level) for level in several]), allow_barren=True).best_return
        for level, differ in zip(several, (best[:, 0] != best[:, -1]).tolist(), strict=True):
            (test if differ and len(test) < values["test"] else train).append(level)
    return test, train[: values["train"]]
