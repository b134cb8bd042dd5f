"""Runs of several studies: agents of gridworlds that can be asked about lotteries, with a private bit or without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import MISSING, OmegaConf

from drest_torch.agent import Agent
from drest_torch.algos.exact import Exact
from drest_torch.choices import bits
from drest_torch.choices.attribution import redraw_bits
from drest_torch.choices.bits import BitChannel
from drest_torch.choices.generation import OUTCOMES
from drest_torch.choices.grid import SYMMETRIES, agent_option_rates, grid_chooser, random_choice_levels
from drest_torch.choices.menus import Menus
from drest_torch.choices.prospects import numbers as posl_numbers
from drest_torch.choices.scores import scores
from drest_torch.choices.suites import SHIFT_COSTS, shift_item
from drest_torch.envs.levels import Level, find_levels, write_levels
from drest_torch.envs.objects.lottery import count_shown_outcomes
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.training_job import run_config, trained
from drest_torch.limits import limited
from drest_torch.metrics import neutrality, usefulness
from drest_torch.play.level_sets import load
from drest_torch.studies.engine import value
from drest_torch.studies.shared import chosen_of, command_jobs
from drest_torch.training.run import Run

SHOWN: dict[str, Callable[..., BitChannel]] = {
    "always": bits.always,
    "never": bits.never,
    "first": bits.first_tick_only,
    "again": bits.redrawn,
    "at times": bits.hidden_at_random,
}
"""Ways to show a bit, by name; the last two take a probability."""
PATHS = 64
"""Sampled for the neutrality given all that an agent observes of its bit."""
TICKS = 6
"""Of the ticks at which the bit is drawn again."""
LOWER, HIGHER = "1/10", "9/10"
"""P(longer) of the two options of the shift test."""
COSTS = (0.0, *SHIFT_COSTS)
ITEMS = 100
"""Of each suite."""


@dataclass
class Trained:
    """Agents that a part of a study trains."""

    seeds: int = limited(at_least=1, default=1)
    """Agents of each kind; their seeds are 0, 1, 2, …"""
    chosen: list[str] | None = None
    """Titles of the kinds that are trained; null: all."""
    arguments: str = MISSING
    """Of python -m drest_torch.train for every agent."""
    agents: dict[str, Any] = MISSING
    """By title the arguments of a kind, or its values."""
    overrides: list[str] = value([])
    """Arguments of all over theirs: ["env_steps=100000"], for instance."""


@dataclass
class Kinds(Trained):
    """Those that can be asked about lotteries."""

    levels: dict[str, Any] = MISSING
    """The name and the values of the levels that all are trained on."""


def jobs_of(kinds: Kinds, key: str) -> dict[str, list[Job]]:
    """Return the training runs of each kind of agents; the same kind in two studies is the same run.

    ``key`` is that of the kinds in the configuration, for messages.
    """
    planned = {}
    levels: Any = OmegaConf.to_container(OmegaConf.create(kinds.levels))
    for title, own in chosen_of(kinds, key).items():
        if own["shown"] not in SHOWN:
            raise ConfigError(
                f"study.{key}.agents: '{title}' with shown={own['shown']}; expected one of {', '.join(SHOWN)}"
            )
        arguments = f"{kinds.arguments} {own.get('arguments', '')}"
        further = {"levels": levels, "menus": list(own.get("menus", ())), "shown": own["shown"]}
        further["chance"] = own.get("chance")
        planned[title] = [
            Job(job.name, f"{__name__}:train", job.spec | further)
            for job in command_jobs(title, kinds.seeds, arguments, kinds.overrides, levels=levels["name"])
        ]
    return planned


def showing_of(spec: dict[str, Any]) -> BitChannel:
    """Return the way to show the bit that a spec names."""
    return SHOWN[spec["shown"]](*(() if spec["chance"] is None else (spec["chance"],)))


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train an agent as `trained_agent` does, and measure it."""
    agent = trained_agent(spec, folder)
    # What is hidden at times in training is shown all the time afterwards.
    showing = bits.always() if spec["shown"] == "at times" else showing_of(spec)
    return Result({}, measure(agent, showing, {"test": agent.levels.reported["test"]}))


def trained_agent(spec: dict[str, Any], folder: Path) -> Agent:
    """Train an agent on generated levels, and as many of menus if asked."""
    config = dict(spec["config"])
    files = write_level_files(spec, folder)
    config["levels"] = config["levels"] | {"path": files["train"]}
    config["test"] = config["test"] | {"path": files["test"], "selection_path": files["selection"]}
    showing = showing_of(spec)

    def show(run: Run) -> None:
        if spec["shown"] not in ("always", "never"):
            algorithm = run.algorithm
            assert isinstance(algorithm, Exact)
            algorithm.batches.propagate = showing.arrivals
            algorithm.all_private_bits = showing.settings()

    trained({"config": config}, folder, show)
    return Agent.load(folder)


def shipped(spec: dict[str, Any], folder: Path) -> Result:
    """Measure an agent that comes with the project, or of a run."""
    agent = Agent.load(spec["agent"])
    showing = bits.always() if agent.policy.private_bits else bits.never()
    return Result({}, measure(agent, showing, {"paper": find_levels("paper"), "test": agent.levels.reported["test"]}))


def write_level_files(spec: dict[str, Any], folder: Path) -> dict[str, str]:
    """Write the levels of a run to its folder: generated ones, and to train on also those of random menus."""
    folder.mkdir(parents=True, exist_ok=True)
    cfg = run_config(spec["levels"]["values"], levels=spec["levels"]["name"])
    cfg.device = spec["config"]["device"]
    generated = load(cfg)
    rng = torch.Generator().manual_seed(spec["config"]["seed"])
    number = cfg.levels.train // max(len(spec["menus"]), 1)
    several = [level for kind in spec["menus"] for level in random_choice_levels(kind, number, rng)]
    sets = {"train": [*generated.train, *several], "selection": generated.selection, "test": generated.reported["test"]}
    for name, levels in sets.items():
        write_levels(folder / f"{name}.jsonl", levels)
    return {name: str(folder / f"{name}.jsonl") for name in sets}


def measure(agent: Agent, showing: BitChannel, sets: Mapping[str, Sequence[Level]]) -> dict[str, np.ndarray]:
    """Return the numbers of an agent: on level sets, by level; and what it pays for shifts, by setting of its bit."""
    arrays: dict[str, np.ndarray] = {}
    for name, levels in sets.items():
        arrays |= {f"{name}/{key}": value for key, value in on_levels(agent, showing, levels).items()}
    for way, (p, q) in {"later": (LOWER, HIGHER), "earlier": (HIGHER, LOWER)}.items():
        menus = Menus.of([shift_item(Fraction(p), Fraction(q), cost) for cost in COSTS])
        arrays[f"pays/{way}"] = agent_option_rates(agent, menus)[..., 1].numpy()
    return arrays | in_menus(agent)


def in_menus(agent: Agent) -> dict[str, np.ndarray]:
    """Return the numbers of the study `lotteries`, of the prospects in each symmetry [8], if it can be asked."""
    if count_shown_outcomes(agent.features) < OUTCOMES:
        return {}
    arrays = {f"menus/{name}": np.array([value]) for name, value in scores(grid_chooser(agent), ITEMS).items()}
    found = [posl_numbers(grid_chooser(agent, turn)) for turn in range(SYMMETRIES)]
    return arrays | {f"posl/{name}": np.array([each[name] for each in found]) for name in found[0]}


def on_levels(agent: Agent, showing: BitChannel, levels: Sequence[Level]) -> dict[str, np.ndarray]:
    """Return usefulness and neutrality ÷ log2 k, also given what the agent observes of its bit, of each level [B].

    Of a bit that is shown all the time also what becomes of the choice, and of usefulness, if it is drawn again at a
    tick [T, B].
    """
    level_set = agent.evaluator(list(levels))
    reachable, best = level_set.unrolled(range(len(levels))), level_set.optima.best_return
    settings = showing.settings() if agent.policy.private_bits else [None]
    tables = torch.stack([level_set.table(agent.policy, reachable, setting) for setting in settings])
    found, most = showing.arrivals(reachable, tables).lengths(), reachable.num_lengths.double().log2()
    own = showing.neutrality_given(reachable, tables, PATHS, torch.Generator().manual_seed(0))
    numbers = {
        "usefulness": usefulness(found.probability, found.coins, best),
        "neutrality": neutrality(found.probability) / most,
        "own": own / most,
    }
    if agent.policy.private_bits and showing == bits.always():
        redrawn = [redraw_bits(reachable, list(tables), best, tick) for tick in range(TICKS)]
        numbers["reflip/choice"] = torch.stack([choice for choice, _ in redrawn])
        numbers["reflip/usefulness"] = torch.stack([useful for _, useful in redrawn])
    return {name: value.numpy() for name, value in numbers.items()}
