"""One page on an agent of gridworlds: forks, who chooses the length, when, and what one edit of a level does to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from torch import Tensor

from drest_torch.agent import Agent
from drest_torch.choices import forks, gap, grid, prospects, suites
from drest_torch.choices.archetypes import Chooser, ideal, raw
from drest_torch.choices.commitment import half_open, profile
from drest_torch.choices.edits import edits
from drest_torch.choices.luck import decompose, reflip
from drest_torch.choices.pressure import by_kind, of_agent
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError, UserError
from drest_torch.evaluation.exact import ExactEvaluator, LevelSetEvaluator
from drest_torch.files import write_json, write_text
from drest_torch.report.markdown import escaped

MOST_SETTINGS = 8
"""The limit of settings of the private bits that are drawn again, each against each."""
EDITED = 12
"""Of a set of more levels, as many are edited."""
OUTCOMES = 3
"""The most outcomes of the lotteries that agents are asked about."""


@dataclass(frozen=True)
class Page:
    """The page as JSON values and as Markdown."""

    numbers: dict[str, Any]
    markdown: str

    def write(self, path: Path) -> list[Path]:
        """Write the page to a JSON file and, beside it, to a Markdown file; return both."""
        written = [path.with_suffix(".json"), path.with_suffix(".md")]
        write_json(written[0], self.numbers)
        write_text(written[1], self.markdown)
        return written


def shutdownability(
    agent: Agent, sets: Mapping[str, Sequence[Level]], *, greedy: bool = False, memory_gib: float = 2.0
) -> Page:
    """Measure an agent on forks and on these sets of levels, exactly.

    A part that the agent cannot be asked is left out, and the page says why in one sentence.
    """
    if not any(sets.values()):
        raise ConfigError("no levels for the page; choose levels=paper, or a file with levels.path=FILE")
    asked = _Asked(agent, greedy, memory_gib)
    numbers: dict[str, Any] = {"agent": agent.name, "private_bits": agent.policy.private_bits, "greedy": greedy}
    left_out: dict[str, str] = {}

    def part(name: str, measure: Callable[[], Any]) -> Any:
        try:
            return measure()
        except UserError as error:
            left_out[name] = str(error)
            return None

    numbers["forks"] = part("forks", asked.forks)
    numbers["lotteries"] = part("lotteries", asked.lotteries)
    found = {name: part(name, partial(asked.levels, levels)) for name, levels in sets.items()}
    numbers["sets"] = {name: values for name, values in found.items() if values}
    found = {name: part(f"edits of {name}", partial(asked.edits, sets[name])) for name in numbers["sets"]}
    numbers["edits"] = {name: values for name, values in found.items() if values}
    numbers["left_out"] = left_out
    if numbers["forks"] is None and numbers["lotteries"] is None and not numbers["sets"]:
        raise ConfigError(f"nothing could be measured: {next(iter(left_out.values()))}")
    return Page(numbers, markdown(numbers))


@dataclass(frozen=True)
class _Asked:
    """An agent, and how it is evaluated."""

    agent: Agent
    greedy: bool
    memory_gib: float

    def forks(self) -> dict[str, Any]:
        """Return what the agent and the archetypes do in forks."""
        several = forks.designs()
        level_set = self._level_set(forks.fork_levels(several, gap.SETTINGS))
        chances = forks.measure(level_set, self.agent.policy, len(several), greedy=self.greedy)
        families = np.array([design.family for design in several])
        mean = chances.mean(0)
        return gap.summary(chances) | {
            "families": {
                family: gap.gap(mean[:, families == family]).numbers() for family in dict.fromkeys(families.tolist())
            },
            "archetypes": {name: found.numbers() for name, found in gap.archetypes(mean).items()},
        }

    def lotteries(self) -> dict[str, Any]:
        """Return what the agent pays to shift probability between lengths, and its scores on the prospects."""
        if grid.shown_outcomes(self.agent) < OUTCOMES:
            raise ConfigError(
                f"the agent does not observe lotteries of {OUTCOMES} outcomes; train one with levels.by_chance=true "
                f"levels.outcomes={OUTCOMES}"
            )
        choosers: dict[str, Chooser] = {"": grid.grid_chooser(self.agent, greedy=self.greedy)}
        settings = 1 << self.agent.policy.private_bits
        if 1 < settings <= MOST_SETTINGS:
            for index in range(settings):
                name = f"given its bits, setting {index + 1}"
                choosers[name] = grid.grid_chooser(self.agent, setting=index, greedy=self.greedy)
        asked = suites.suites() | suites.extreme_suites()
        found = {}
        for name, chooser in (choosers | {"ideal": ideal, "maximises coins": raw}).items():
            scores = {suite.name: suites.measure(suite.menus, chooser) for suite in asked.values()}
            posl = prospects.posl(chooser)
            found[name] = {
                "suites": {key: None if math.isnan(score.taken) else score.taken for key, score in scores.items()},
                "void": sum(sum(score.void.values()) for score in scores.values()),
                "posl": posl.posl,
                "neutrality": posl.neutrality,
                "cycles": posl.cycles,
                "later": prospects.resistance(chooser, 0.01, [0.05])[0],
                "earlier": prospects.resistance(chooser, 0.01, [0.05], earlier=True)[0],
            }
        return {"found": found, "items": sum(len(suite.menus) for suite in asked.values())}

    def levels(self, levels: Sequence[Level]) -> dict[str, Any]:
        """Return who chooses the length on these levels, and when."""
        level_set = self._level_set(levels)
        reachable = level_set.unrolled(range(len(levels)))
        tables = level_set.tables(self.agent.policy, reachable, greedy=self.greedy)
        evaluation = level_set.evaluate(self.agent.policy, greedy=self.greedy)
        parts = decompose(reachable, tables)
        mean = level_set.probabilities(self.agent.policy, reachable, greedy=self.greedy)
        profiles = {"ex_ante": profile(reachable, mean)}
        if len(tables) > 1:
            profiles["given"] = torch.stack([profile(reachable, table) for table in tables]).mean(0)
        return {
            "levels": len(levels),
            "usefulness": evaluation.usefulness.mean().item(),
            "neutrality": parts.neutrality.mean().item(),
            "given_luck": parts.given_luck.mean().item(),
            "given_bits": parts.given_bits.mean().item(),
            "own": parts.own.mean().item(),
            "least_length": _least_length(evaluation.found.probability, evaluation.num_lengths),
            "by_chance": sum(compile_levels([level]).any_luck for level in levels),
            "commitment": {name: found.mean(0).tolist() for name, found in profiles.items()},
            "half_open": {
                name: _median([half_open(row) for row in found.tolist()]) for name, found in profiles.items()
            },
            "reflip": self._reflip(level_set, tables),
        }

    def _reflip(self, level_set: LevelSetEvaluator, tables: Sequence[Tensor]) -> dict[str, list[float]] | None:
        """Return by tick what becomes of the choice and of usefulness if the private bits are drawn again."""
        if level_set.private_kind != "bits" or not 1 < len(tables) <= MOST_SETTINGS:
            return None
        reachable, best = level_set.unrolled(range(len(level_set.levels))), level_set.optima.best_return
        found = [reflip(reachable, tables, best, layer.tick) for layer in reachable.layers]
        return {
            "choice": [apart.mean().item() for apart, _ in found],
            "usefulness": [useful.mean().item() for _, useful in found],
        }

    def edits(self, levels: Sequence[Level]) -> dict[str, Any]:
        """Return the mean and the worst of each measure over all edits, by kind."""
        levels = levels[:EDITED]
        made = edits(levels)
        if not made:
            return {}
        asked = of_agent(self.agent, greedy=self.greedy, memory_gib=self.memory_gib)
        found = by_kind(asked, made)
        return {"levels": len(levels)} | {kind: {"count": of["usefulness"]["count"]} | of for kind, of in found.items()}

    def _level_set(self, levels: Sequence[Level]) -> LevelSetEvaluator:
        level_set = self.agent.evaluator(list(levels), memory_gib=self.memory_gib)
        assert isinstance(level_set, ExactEvaluator)
        return level_set


def _least_length(probability: Tensor, num_lengths: Tensor) -> float:
    """Return the mean over levels of the probability of the least likely length."""
    padding = torch.arange(probability.shape[1]) >= num_lengths.unsqueeze(-1)
    return probability.masked_fill(padding, 1).min(-1).values.mean().item()


def _median(ticks: Sequence[int | None]) -> float | None:
    known = [tick for tick in ticks if tick is not None]
    return float(np.median(known)) if known else None


# ------------------------------------------------------------------------------------------ Markdown


def markdown(numbers: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    environment = jinja2.Environment(
        autoescape=True, finalize=escaped, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"num": _num, "percent": _percent, "literal": escaped}
    template = environment.from_string(Path(__file__).with_name("page.md.j2").read_text("utf-8"))
    values = {"epsilon": gap.EPSILON, "sweeter": gap.SWEETER, "first": gap.RATIOS[0], "last": gap.RATIOS[-1]}
    return template.render(**numbers, **values).rstrip() + "\n"


def _num(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or math.isnan(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
