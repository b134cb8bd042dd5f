"""Runs of several studies: gridworld agents that choose between lotteries, with a private bit or without."""

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
from drest_torch.studies.shared import chosen_agents, command_jobs
from drest_torch.training.run import Run

SHOWINGS: dict[str, Callable[..., BitChannel]] = {
    "always": bits.always,
    "never": bits.never,
    "first": bits.first_tick_only,
    "again": bits.redrawn,
    "at times": bits.hidden_at_random,
}
"""Ways to show a bit, by name; the last two need a probability."""
PATHS = 64
"""Sampled paths for the neutrality given everything that an agent observes of its bit."""
TICKS = 6
"""The number of ticks at which the bit is drawn again."""
LOWER, HIGHER = "1/10", "9/10"
"""P(longer) of the two options of the shift test."""
COSTS = (0.0, *SHIFT_COSTS)
ITEMS = 100
"""The number of items of each suite."""


@dataclass
class LotteryAgents:
    """Kinds of agents that are trained in gridworlds and choose between lotteries."""

    seeds: int = limited(at_least=1, default=1)
    """Agents of each kind; their seeds are 0, 1, 2, …"""
    chosen: list[str] | None = None
    """Titles of the kinds that are trained; null: all."""
    arguments: str = MISSING
    """Arguments of `drest train` for every agent."""
    agents: dict[str, Any] = MISSING
    """The values of each kind, by title."""
    overrides: list[str] = value([])
    """Arguments that override those of all agents: ["env_steps=100000"], for instance."""
    levels: dict[str, Any] = MISSING
    """The name and the values of the training levels, which all kinds share."""


def jobs_of(kinds: LotteryAgents, key: str) -> dict[str, list[Job]]:
    """Return the training runs of each kind of agents; the same kind in two studies is the same run.

    ``key`` is the configuration key of the kinds, for messages.
    """
    planned = {}
    levels: Any = OmegaConf.to_container(OmegaConf.create(kinds.levels))
    for title, values in chosen_agents(kinds, key).items():
        if values["shown"] not in SHOWINGS:
            raise ConfigError(
                f"study.{key}.agents: '{title}' with shown={values['shown']}; expected one of {', '.join(SHOWINGS)}"
            )
        arguments = f"{kinds.arguments} {values.get('arguments', '')}"
        further = {"levels": levels, "menus": list(values.get("menus", ())), "shown": values["shown"]}
        further["chance"] = values.get("chance")
        planned[title] = [
            Job(job.name, f"{__name__}:train", job.spec | further)
            for job in command_jobs(title, kinds.seeds, arguments, kinds.overrides, levels=levels["name"])
        ]
    return planned


def showing_of(spec: dict[str, Any]) -> BitChannel:
    """Return the way of showing the bit that a spec names."""
    make = SHOWINGS[spec["shown"]]
    if spec["chance"] is None:
        return make()
    return make(spec["chance"])


def train(spec: dict[str, Any], folder: Path) -> Result:
    """Train an agent with `trained_agent`, and measure it."""
    agent = trained_agent(spec, folder)
    # A bit that is hidden at times in training is always shown afterwards.
    showing = bits.always() if spec["shown"] == "at times" else showing_of(spec)
    return Result({}, measure(agent, showing, {"test": agent.levels.reported["test"]}))


def trained_agent(spec: dict[str, Any], folder: Path) -> Agent:
    """Train an agent on generated levels, and on the same number of random menus if the spec names kinds of menus."""
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
    """Measure a pretrained agent of the project, or the agent of a run."""
    agent = Agent.load(spec["agent"])
    showing = bits.always() if agent.policy.private_bits else bits.never()
    return Result({}, measure(agent, showing, {"paper": find_levels("paper"), "test": agent.levels.reported["test"]}))


def write_level_files(spec: dict[str, Any], folder: Path) -> dict[str, str]:
    """Write the generated levels of a run to its folder; add random menus to the training levels."""
    folder.mkdir(parents=True, exist_ok=True)
    cfg = run_config(spec["levels"]["values"], levels=spec["levels"]["name"])
    cfg.device = spec["config"]["device"]
    generated = load(cfg)
    rng = torch.Generator().manual_seed(spec["config"]["seed"])
    number = cfg.levels.train // max(len(spec["menus"]), 1)
    menus = [level for kind in spec["menus"] for level in random_choice_levels(kind, number, rng)]
    sets = {"train": [*generated.train, *menus], "selection": generated.selection, "test": generated.reported["test"]}
    for name, levels in sets.items():
        write_levels(folder / f"{name}.jsonl", levels)
    return {name: str(folder / f"{name}.jsonl") for name in sets}


def measure(agent: Agent, showing: BitChannel, sets: Mapping[str, Sequence[Level]]) -> dict[str, np.ndarray]:
    """Return the measures of an agent on each level of the sets, in menus, and its payments by setting of its bit."""
    arrays: dict[str, np.ndarray] = {}
    for name, levels in sets.items():
        arrays |= {f"{name}/{key}": value for key, value in on_levels(agent, showing, levels).items()}
    for way, (p, q) in {"later": (LOWER, HIGHER), "earlier": (HIGHER, LOWER)}.items():
        menus = Menus.of([shift_item(Fraction(p), Fraction(q), cost) for cost in COSTS])
        arrays[f"pays/{way}"] = agent_option_rates(agent, menus)[..., 1].numpy()
    return arrays | in_menus(agent)


def in_menus(agent: Agent) -> dict[str, np.ndarray]:
    """Return the scores of the study `lotteries`; scores on prospects are by symmetry [8].

    The result is empty if the agent's observation does not show lotteries.
    """
    if count_shown_outcomes(agent.features) < OUTCOMES:
        return {}
    arrays = {f"menus/{name}": np.array([value]) for name, value in scores(grid_chooser(agent), ITEMS).items()}
    by_symmetry = [posl_numbers(grid_chooser(agent, turn)) for turn in range(SYMMETRIES)]
    for name in by_symmetry[0]:
        arrays[f"posl/{name}"] = np.array([numbers[name] for numbers in by_symmetry])
    return arrays


def on_levels(agent: Agent, showing: BitChannel, levels: Sequence[Level]) -> dict[str, np.ndarray]:
    """Return usefulness and neutrality ÷ log2 k of each level [B], and neutrality given the observed bit.

    For a bit that is always shown, add the change of the choice, and usefulness, if the bit is drawn again at a tick
    [T, B].
    """
    level_set = agent.evaluator(list(levels))
    reachable, best = level_set.unrolled(range(len(levels))), level_set.optima.best_return
    settings = showing.settings() if agent.policy.private_bits else [None]
    tables = torch.stack([level_set.table(agent.policy, reachable, setting) for setting in settings])
    lengths = showing.arrivals(reachable, tables).lengths()
    most = reachable.num_lengths.double().log2()
    given_bit = showing.neutrality_given(reachable, tables, PATHS, torch.Generator().manual_seed(0))
    numbers = {
        "usefulness": usefulness(lengths.probability, lengths.coins, best),
        "neutrality": neutrality(lengths.probability) / most,
        "own": given_bit / most,
    }
    if agent.policy.private_bits and showing == bits.always():
        redrawn = [redraw_bits(reachable, list(tables), best, tick) for tick in range(TICKS)]
        numbers["reflip/choice"] = torch.stack([choice for choice, _ in redrawn])
        numbers["reflip/usefulness"] = torch.stack([useful for _, useful in redrawn])
    return {name: value.numpy() for name, value in numbers.items()}
