"""Levels in which nearness is a spurious feature, and runs that train on levels in which it coincides with value.

The maps come from the generator. The values of a level's coins are reassigned by distance from the start: the nearest
coin becomes the most valuable, or, in the reverse order, the least valuable.
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
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.splits import distinct
from drest_torch.envs.generation.stream import GeneratorConfig, stream
from drest_torch.envs.levels import Coin, Level, write_levels
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.studies.shared import measure_by_values

TRAIN = "drest_torch.studies.misgeneralization.nearness:train"
ORDERS = {"coincides": False, "reversed": True}
"""The test levels: the same maps, with values in the order of nearness and in the reverse order."""
AT_ONCE = 256
"""The number of levels that are solved together."""
LARGE = 2.0**20
"""A factor larger than the sum of a level's coins, so that one number can encode two values: a multiple and a
remainder."""


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train an agent on levels in which nearness coincides with value, and measure it on test levels.

    arrays: those of `measure_by_values` as ``coincides/…`` and ``reversed/…``; ``paid`` are the values by nearness.
    """
    test, training = split(json.dumps(spec["levels"], sort_keys=True))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train.jsonl"
    write_levels(path, [by_nearness(level) for level in training])
    config = spec["config"]
    trained({"config": config | {"levels": config["levels"] | {"path": str(path)}}}, folder)
    agent = Agent.load(folder)
    by_near_values = [by_nearness(level) for level in test]
    arrays: dict[str, np.ndarray] = {}
    for order, reverse in ORDERS.items():
        levels = [by_nearness(level, reverse=reverse) for level in test]
        measured = measure_agent(agent, levels, by_near_values)
        arrays |= {f"{order}/{name}": values for name, values in measured.items()}
    return Result({}, arrays)


@torch.no_grad()
def measure_agent(agent: Agent, levels: Sequence[Level], paid: Sequence[Level]) -> dict[str, np.ndarray]:
    """Return the measures of an agent on levels; ``paid`` are the same levels with values by nearness."""
    level_set = agent.evaluator(list(levels))
    table = level_set.table(agent.policy, level_set.unrolled(range(len(levels))), None)
    proxy = compile_levels(paid, at_least=agent.map_size, features=level_set.mdp.features)
    return measure_by_values(table, level_set.mdp, proxy)


def distance(level: Level, coin: Coin) -> int:
    """Return the Manhattan distance between the start and a coin."""
    return abs(coin.row - level.start[0]) + abs(coin.column - level.start[1])


def by_nearness(level: Level, *, reverse: bool = False) -> Level:
    """Return the level with its coins' values in the order of nearness, or in the reverse order."""
    coins = sorted(level.coins, key=lambda coin: distance(level, coin), reverse=not reverse)
    values = sorted(coin.value for coin in coins)
    changed = {coin: replace(coin, value=value) for coin, value in zip(coins, values, strict=True)}
    objects = [changed[item] if isinstance(item, Coin) else item for item in level.objects]
    return replace(level, objects=tuple(objects))


def is_clear(level: Level) -> bool:
    """Return whether all coins differ in value and in distance."""
    values = {coin.value for coin in level.coins}
    distances = {distance(level, coin) for coin in level.coins}
    return len(values) == len(distances) == len(level.coins)


def share_left(mdp: Mdp, paid: Mdp) -> Tensor:
    """Return the share of m [B, K] that the best policy by other values collects, given each length.

    ``paid`` is the same level set with these other values; all values are whole numbers. If several policies are best
    by them, the most useful one counts. The share is 1 where m is 0.
    """
    both = paid.with_coins(LARGE * paid.coin + mdp.coin)
    actual, mixed = (solve(levels, allow_barren=True).best_return for levels in (mdp, both))
    return torch.where(actual > 0, (mixed % LARGE) / actual, 1.0)


def where_order_matters(levels: Iterable[Level], most: float) -> Iterator[Level]:
    """Yield the levels in which the order of coin values matters.

    Given each length, the best policy by nearness collects at most the share ``most`` of m in the reverse order.
    """
    clear = filter(is_clear, levels)
    while batch := list(islice(clear, AT_ONCE)):
        coincide, reverse = (
            compile_levels([by_nearness(level, reverse=order) for level in batch]) for order in ORDERS.values()
        )
        worst = share_left(reverse, coincide).amax(-1)
        yield from (level for level, share in zip(batch, worst.tolist(), strict=True) if share <= most)


@lru_cache(maxsize=4)
def split(levels: str) -> tuple[list[Level], list[Level]]:
    """Return the test levels and the training levels of a study's values ``levels``, which are JSON.

    In test levels the longest and the shortest length offer different returns by nearness, so an agent that has learned
    nearness has a reason to prefer one of them.
    """
    values = json.loads(levels)
    generated = stream(GeneratorConfig(**values["generator"]), values["seed"])
    candidates = distinct(where_order_matters(generated, values["most"]))
    test: list[Level] = []
    train: list[Level] = []
    while len(test) < values["test"] or len(train) < values["train"]:
        batch = list(islice(candidates, 32))
        best = solve(compile_levels([by_nearness(level) for level in batch]), allow_barren=True).best_return
        for level, differ in zip(batch, (best[:, 0] != best[:, -1]).tolist(), strict=True):
            (test if differ and len(test) < values["test"] else train).append(level)
    return test, train[: values["train"]]
