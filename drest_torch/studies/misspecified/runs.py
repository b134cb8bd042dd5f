"""Runs of the study: agents that are trained where a feature of coins coincides with value, and tested elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drest_torch.agent import Agent
from drest_torch.effort import NUMBERS
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.splits import distinct
from drest_torch.envs.generation.stream import GeneratorConfig, stream
from drest_torch.envs.levels import Level, write_levels
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.metrics import neutrality, usefulness
from drest_torch.studies.misspecified.features import by_feature, designs, lengths_differ

TRAIN = "drest_torch.studies.misspecified.runs:train"
ORDERS = {"coincides": False, "reversed": True}
"""The test levels: the same maps, with values in the order of the feature and in the reverse order."""


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train an agent on levels in which the feature coincides with value, and measure it on test levels.

    arrays: the numbers of `measure` as ``coincides/…`` and ``reversed/…``.
    """
    test, training = split(json.dumps(spec["levels"], sort_keys=True), spec["feature"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train.jsonl"
    write_levels(path, [by_feature(level, spec["feature"]) for level in training])
    config = spec["config"] | {"levels": spec["config"]["levels"] | {"path": str(path)}}
    _, result = trained({"config": config}, folder)
    agent = Agent.load(folder)
    paid = [by_feature(level, spec["feature"]) for level in test]
    arrays: dict[str, np.ndarray] = {}
    for order, reverse in ORDERS.items():
        levels = [by_feature(level, spec["feature"], reverse=reverse) for level in test]
        arrays |= {f"{order}/{name}": values for name, values in measure(agent, levels, paid).items()}
    took = ("wall_seconds", *NUMBERS)
    return Result({name: result.numbers[name] for name in took if name in result.numbers}, arrays)


@lru_cache(maxsize=4)
def split(levels: str, feature: str) -> tuple[list[Level], list[Level]]:
    """Return the test levels and the training levels of a study's values ``levels``, as JSON.

    In test levels the lengths differ in what they offer by the feature, so that neutrality is put to a test.
    """
    values = json.loads(levels)
    found = distinct(designs(stream(GeneratorConfig(**values["generator"]), values["seed"]), feature, values["most"]))
    test: list[Level] = []
    train: list[Level] = []
    while len(test) < values["test"] or len(train) < values["train"]:
        several = list(islice(found, 32))
        for level, differ in zip(several, lengths_differ(several, feature), strict=True):
            (test if differ and len(test) < values["test"] else train).append(level)
    return test, train[: values["train"]]


@torch.no_grad()
def measure(agent: Agent, levels: Sequence[Level], paid: Sequence[Level]) -> dict[str, np.ndarray]:
    """Return the numbers of an agent in each level [B]; ``paid`` are the levels with their values by the feature.

    ``usefulness``, and ``proxy``, which it is by the feature; ``neutrality``, and ``longest``, P of the longest length.
    """
    level_set = agent.evaluator(list(levels))
    reachable = level_set.unrolled(range(len(levels)))
    table = level_set.table(agent.policy, reachable, None)
    by_value = reachable.arrivals(table, 1.0).lengths()
    proxy = compile_levels(paid, at_least=agent.map_size, features=level_set.mdp.features)
    by_proxy, best = Reachable(proxy).arrivals(table, 1.0).lengths(), solve(proxy).best_return
    numbers = {
        "usefulness": usefulness(by_value.probability, by_value.coins, level_set.optima.best_return),
        "proxy": usefulness(by_proxy.probability, by_proxy.coins, best),
        "neutrality": neutrality(by_value.probability) / level_set.optima.num_lengths.double().log2(),
        "longest": by_value.probability.gather(-1, (level_set.optima.num_lengths - 1).unsqueeze(-1)).squeeze(-1),
    }
    return {name: values.numpy() for name, values in numbers.items()}
