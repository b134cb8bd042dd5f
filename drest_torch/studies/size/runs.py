"""The runs of the study: agents evaluated on maps of several sizes, and what a size costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from omegaconf import OmegaConf

from drest_torch.agent import Agent
from drest_torch.algos.networks.policy import Policy
from drest_torch.building.parts import evaluator
from drest_torch.config.schema import Config
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.splits import make_split
from drest_torch.envs.generation.stream import DRAFTS_AT_ONCE, GeneratorConfig, draft_number, stream
from drest_torch.envs.levels.symmetry import canonical_key
from drest_torch.evaluation.exact import Evaluation
from drest_torch.files import write_whole
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.reward import Reward
from drest_torch.studies import unseen
from drest_torch.training.run import Run, resume

T = TypeVar("T")
TRANSFER, SHIPPED, COST = (f"drest_torch.studies.size.runs:{name}" for name in ("transfer", "shipped", "cost"))
WARM_UPS = 1
"""Updates before those that are timed."""


def transfer(spec: dict[str, Any], folder: Path) -> Result:
    """Train as the spec says, then evaluate the policy on the maps of every size, see `by_size`."""
    run, result = trained(spec, folder)
    levels = run.gridworlds.levels
    known = frozenset(canonical_key(level) for level in (*levels.train, *levels.selection))
    arrays = by_size(run.cfg, run.reward, run.learner.policy, run.gridworlds.map_size, known, spec["sizes"])
    return Result({"wall_seconds": result.numbers["wall_seconds"]}, arrays)


def shipped(spec: dict[str, Any], folder: Path) -> Result:
    """Evaluate an agent that comes with the project on the maps of every size, see `by_size`."""
    agent = Agent.load(spec["agent"])
    return Result({}, by_size(agent.cfg, agent.reward, agent.policy, agent.map_size, frozenset(), spec["sizes"]))


def by_size(
    cfg: Config,
    reward: Reward,
    policy: Policy,
    map_size: tuple[int, int],
    known: frozenset[str],
    sizes: dict[str, Any],
) -> dict[str, np.ndarray]:
    """Return for each side of the maps ``<side>/usefulness`` and ``<side>/neutrality_normalised`` of the policy [n].

    The same of random actions is ``<side>/random/usefulness`` and so on. ``known`` are keys of levels to leave out. The
    maps whose side is above ``exact_to`` are evaluated by sampling.
    """
    arrays: dict[str, np.ndarray] = {}
    for side, record in sizes["records"].items():
        config = GeneratorConfig(**record)
        test = make_split(config, train=0, selection=0, test=sizes["levels"], seed=sizes["seed"]).test
        sampled = sizes["sampled"] if int(side) > sizes["exact_to"] else None
        ready = evaluator(
            cfg, reward, unseen.without(test, known), map_size, torch.device("cpu"), sampled=sampled, memory_gib=2
        )
        for name, evaluation in (("", ready.evaluate(policy)), ("random/", ready.evaluate_uniform())):
            arrays |= {f"{side}/{name}{measure}": values for measure, values in _measures(evaluation).items()}
    return arrays


def _measures(evaluation: Evaluation) -> dict[str, np.ndarray]:
    names = ("usefulness", "neutrality_normalised")
    return {name: getattr(evaluation, name).cpu().numpy() for name in names}


def cost(spec: dict[str, Any], folder: Path) -> Result:
    """Time what levels of one size cost, with one thread.

    numbers: ``cells`` of a map, ``states`` (reachable, the mean of the levels), ``seconds`` per level to ``generate``
    it, to ``solve`` it and to ``evaluate`` a uniform policy exactly, and per environment step of training with PPO, by
    the name of the network.
    """
    config = GeneratorConfig(**spec["record"])
    levels, generating = _timed(lambda: list(islice(stream(config, spec["seed"]), spec["levels"])))
    used = draft_number(levels[-1]) + 1
    seconds = {"generate": generating * used / (-(-used // DRAFTS_AT_ONCE) * DRAFTS_AT_ONCE) / len(levels)}
    mdp = compile_levels(levels)
    solve(mdp)  # once to warm up
    seconds["solve"] = _timed(lambda: solve(mdp))[1] / len(levels)
    reachable, unrolling = _timed(lambda: Reachable(mdp))
    seconds["evaluate"] = (unrolling + _timed(lambda: reachable.evaluate(uniform_policy))[1]) / len(levels)
    for name, values in spec["configs"].items():
        seconds[name] = _per_step(_run(values, folder / name), spec["updates"])
    return Result({"cells": config.map_cells, "states": len(reachable) / len(levels), "seconds": seconds})


def _run(values: dict[str, Any], folder: Path) -> Run:
    whole = OmegaConf.create(values | {"run_dir": str(folder)})
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(whole).encode())
    return resume(folder)


def _per_step(run: Run, updates: int) -> float:
    for _ in range(WARM_UPS):
        run.update()
    before = run.state.steps
    _, seconds = _timed(lambda: [run.update() for _ in range(updates)])
    return seconds / (run.state.steps - before)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began
