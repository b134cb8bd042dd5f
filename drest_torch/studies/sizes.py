"""Agents evaluated on maps of several sizes, and what a size costs: runs, tables and plots of the study `goals`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from omegaconf import OmegaConf

from drest_torch.agent import Agent
from drest_torch.agents.specification import evaluator
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import Reachable, uniform_policy
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.generation.splits import make_split
from drest_torch.envs.generation.stream import DRAFTS_AT_ONCE, GeneratorConfig, draft_number, stream
from drest_torch.envs.levels.lazy import keys_of
from drest_torch.files import write_whole
from drest_torch.jobs.job import Result
from drest_torch.jobs.training_job import trained
from drest_torch.report.blocks import Plot, Table
from drest_torch.report.plots import PALETTE, Line, beside, lines_plot
from drest_torch.report.tables import median_range
from drest_torch.studies import unseen
from drest_torch.studies.engine import as_table
from drest_torch.training.run import Run, resume

T = TypeVar("T")
MEASURES = {"usefulness": "usefulness", "neutrality": "neutrality_normalised"}
RANDOM = "random actions"
LEVEL_COSTS = {
    "generate": "generate a level",
    "solve": "find its lengths and m(l)",
    "evaluate": "evaluate a uniform policy exactly",
}
"""What is timed with every level, and its words; the other times are those of an environment step, by network."""
TRANSFER, SHIPPED, COST = (f"drest_torch.studies.sizes:{name}" for name in ("transfer", "shipped", "cost"))


def transfer(spec: dict[str, Any], folder: Path) -> Result:
    """Train as the spec says, then evaluate the policy on the maps of every size, see `by_size`."""
    run, _ = trained(spec, folder)
    levels = run.gridworlds.levels
    known = frozenset((*keys_of(levels.train), *keys_of(levels.selection)))
    return Result({}, by_size(Agent.load(folder), known, spec["sizes"]))


def shipped(spec: dict[str, Any], folder: Path) -> Result:
    """Evaluate an agent that comes with the project on the maps of every size, see `by_size`."""
    return Result({}, by_size(Agent.load(spec["agent"]), frozenset(), spec["sizes"]))


def by_size(agent: Agent, known: frozenset[str], sizes: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return for each side of the maps ``<side>/usefulness`` and ``<side>/neutrality_normalised`` of the agent [n].

    The same of random actions is ``<side>/random/usefulness`` and so on. ``known`` are keys of levels to leave out. The
    maps whose side is above ``exact_to`` are evaluated by sampling.
    """
    arrays: dict[str, np.ndarray] = {}
    for side, record in sizes["records"].items():
        config = GeneratorConfig(**record)
        test = make_split(config, train=0, selection=0, test=sizes["levels"], seed=sizes["seed"]).test
        sampled = sizes["sampled"] if int(side) > sizes["exact_to"] else None
        levels, cpu = unseen.without(test, known), torch.device("cpu")
        ready = evaluator(agent.spec, levels, cpu, sampled=sampled, memory_gib=2)
        for name, evaluation in (("", ready.evaluate(agent.policy)), ("random/", ready.evaluate_uniform())):
            for measure in MEASURES.values():
                arrays[f"{side}/{name}{measure}"] = getattr(evaluation, measure).cpu().numpy()
    return arrays


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
    run.update()  # once to warm up
    before = run.state.steps
    _, seconds = _timed(lambda: [run.update() for _ in range(updates)])
    return seconds / (run.state.steps - before)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


# ------------------------------------------------------------------------------------ tables and plots


def size_means(by_size: pd.DataFrame) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return by agent, measure and side the mean over levels of each seed; ``value`` is an array of levels."""
    means: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (title, metric, side), rows in by_size.groupby(["title", "metric", "split"], sort=False):
        measure = next(name for name, other in MEASURES.items() if other == metric)
        means.setdefault(title, {}).setdefault(measure, {})[side] = rows.value.map(np.mean).tolist()
    return means


def size_table(means: Mapping[str, Any], measure: str, sides: Sequence[int]) -> Table:
    """Return a measure of each agent by the side of the map."""
    cells = [[title, *(median_range(found[measure][str(side)]) for side in sides)] for title, found in means.items()]
    words = "Neutrality ÷ log2 k" if measure == "neutrality" else "Usefulness"
    return Table(f"{words} by the side of the map", ["agent", *map(str, sides)], cells)


def cost_table(cost: Mapping[str, Any]) -> Table:
    """Return the times of each size: milliseconds per level, microseconds per environment step."""
    seconds = pd.DataFrame({side: numbers["seconds"] for side, numbers in cost.items()}).T
    per_level, per_step = list(LEVEL_COSTS), [name for name in seconds if name not in LEVEL_COSTS]
    cells = (1e3 * seconds[per_level]).map("{:.2f}".format).join((1e6 * seconds[per_step]).map("{:.0f}".format))
    cells.insert(0, "states", [f"{numbers['states']:,.0f}" for numbers in cost.values()])
    header = ["side", "states of a level", *(f"{words}, ms" for words in LEVEL_COSTS.values())]
    header += [f"step of PPO, {name}, µs" for name in per_step]
    return as_table(cells, "Times by the side of the map", header)


def sizes_plot(sizes: Mapping[str, Any]) -> Plot:
    """Plot usefulness and neutrality against the side of the map, a line for each agent."""

    def of(measure: str) -> Plot:
        lines = []
        for (title, means), colour in zip(sizes.items(), cycle(PALETTE), strict=False):
            medians = [np.median(seeds) for seeds in means[measure].values()]
            lines.append(
                Line(title, [*map(int, means[measure])], medians, "muted" if title == RANDOM else colour, "o-")
            )
        return lines_plot(lines, title=measure, xlabel="rows and columns of the map")

    return beside(*map(of, MEASURES))


def cost_plot(cost: Mapping[str, Any]) -> Plot:
    """Plot times against the cells of the map: per level, and per environment step of training."""
    cells, every = zip(*((numbers["cells"], numbers["seconds"]) for numbers in cost.values()), strict=True)

    def of(names: Mapping[str, str], title: str, unit: float) -> Plot:
        lines = [
            Line(words, cells, [seconds[name] / unit for seconds in every], colour, "o-")
            for (name, words), colour in zip(names.items(), cycle(PALETTE), strict=False)
        ]
        return lines_plot(lines, title=title, xlabel="cells of the map", log="xy", limits=None)

    networks = {name: name for name in every[0] if name not in LEVEL_COSTS}
    return beside(of(LEVEL_COSTS, "milliseconds per level", 1e-3), of(networks, "microseconds per step of PPO", 1e-6))
