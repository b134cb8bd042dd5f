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

from drest_torch.agent import Agent
from drest_torch.choices import forks, gap, grid, prospects, suites
from drest_torch.choices.archetypes import Chooser, ideal, over_m, raw, uniform
from drest_torch.choices.commitment import half_open, profile
from drest_torch.choices.edits import edits
from drest_torch.choices.generation import OUTCOMES
from drest_torch.choices.luck import decompose, reflip
from drest_torch.choices.pressure import Asked, by_kind, of_agent
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.propagator import mixture
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError, UserError
from drest_torch.files import write_json, write_text
from drest_torch.metrics import usefulness
from drest_torch.report.markdown import escaped
from drest_torch.report.template import FILTERS

MOST_SETTINGS = 8
"""The limit of settings of the private bits that are drawn again, each against each."""
EDITED = 12
"""Of a set of more levels, as many are edited."""


@dataclass(frozen=True)
class Page:
    """The page as JSON values; ``markdown`` is what it looks like."""

    numbers: dict[str, Any]

    @property
    def markdown(self) -> str:
        """Return the page in Markdown."""
        environment = jinja2.Environment(
            autoescape=True, finalize=escaped, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        environment.filters |= {**FILTERS, "literal": escaped}
        template = environment.from_string(Path(__file__).with_name("page.md.j2").read_text("utf-8"))
        values = {"epsilon": suites.EPSILON, "sweeter": gap.SWEETER, "ratios": gap.RATIOS}
        return template.render(**self.numbers, **values).rstrip() + "\n"

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
    asked = of_agent(agent, greedy=greedy, memory_gib=memory_gib)
    left_out: dict[str, str] = {}

    def part(name: str, measure: Callable[[], Any]) -> Any:
        try:
            return measure()
        except UserError as error:
            left_out[name] = str(error)
            return None

    in_all_forks = part("forks", partial(in_forks, asked))
    lotteries = part("lotteries", partial(between_lotteries, agent, greedy))
    found = {name: part(name, partial(on_levels, agent, asked, levels, greedy)) for name, levels in sets.items()}
    found = {name: values for name, values in found.items() if values}
    if in_all_forks is None and lotteries is None and not found:
        raise ConfigError(f"nothing could be measured: {next(iter(left_out.values()))}")
    edited = {name: part(f"edits of {name}", partial(after_edits, asked, sets[name])) for name in found}
    return Page(
        {
            "agent": agent.name,
            "private_bits": agent.policy.private_bits,
            "greedy": greedy,
            "forks": in_all_forks,
            "lotteries": lotteries,
            "sets": found,
            "edits": {name: values for name, values in edited.items() if values},
            "left_out": left_out,
        }
    )


def in_forks(asked: Asked) -> dict[str, Any]:
    """Return what the agent and the archetypes do in forks: what they measure, by who it is."""
    families = np.array([forks.family(design) for design in forks.designs()])
    ante, softened, *given = gap.known(forks.measure(asked)).values()
    archetypes = {
        "raw coins": gap.chances_of(raw),
        "coins ÷ m": gap.chances_of(over_m),
        "softmax of coins, as deterministic": softened,
        "uniform": gap.chances_of(uniform),
    }

    def numbers(several: Mapping[str, np.ndarray]) -> dict[str, Any]:
        return {name: gap.gap(each).numbers() for name, each in several.items()}

    return {
        "ex_ante": gap.gap(ante).numbers(),
        "given": [gap.gap(each).numbers() for each in given],
        "control": gap.gap(softened).numbers() | {"beta": gap.control(ante)[0]},
        "families": numbers({name: ante[:, families == name] for name in dict.fromkeys(families.tolist())}),
        "archetypes": numbers(archetypes),
    }


def between_lotteries(agent: Agent, greedy: bool) -> dict[str, Any]:
    """Return what the agent pays to shift probability between lengths, and its scores on the prospects."""
    if agent.cfg.levels.outcomes < OUTCOMES:
        raise ConfigError(
            f"the agent does not observe lotteries of {OUTCOMES} outcomes; train one with levels.by_chance=true "
            f"levels.outcomes={OUTCOMES}"
        )
    choosers: dict[str, Chooser] = {"": grid.grid_chooser(agent, greedy=greedy)}
    settings = 1 << agent.policy.private_bits
    for index in range(settings) if 1 < settings <= MOST_SETTINGS else ():
        name = f"given its bits, setting {index + 1}"
        choosers[name] = grid.grid_chooser(agent, setting=index, greedy=greedy)
    asked = suites.suites() | suites.extreme_suites()
    found = {}
    for name, chooser in (choosers | {"ideal": ideal, "maximises coins": raw}).items():
        scores = {name: suites.measure(suite.menus, chooser) for name, suite in asked.items()}
        posl = prospects.posl(chooser)
        found[name] = {
            "suites": {key: None if math.isnan(score.taken) else score.taken for key, score in scores.items()},
            "void": sum(score.void for score in scores.values()),
            "posl": posl["posl"],
            "neutrality": posl["neutrality/prospects"],
            "cycles": posl["cycles"],
            "later": prospects.resistance(chooser, 0.01, [0.05])[0],
            "earlier": prospects.resistance(chooser, 0.01, [0.05], earlier=True)[0],
        }
    return {"found": found, "items": sum(len(suite.menus) for suite in asked.values())}


def on_levels(agent: Agent, asked: Asked, levels: Sequence[Level], greedy: bool) -> dict[str, Any]:
    """Return who chooses the length on these levels, and when."""
    level_set, reachable, tables = asked.unrolled(levels)
    lengths = mixture([reachable.arrivals(table) for table in tables]).lengths()
    best, parts = level_set.optima.best_return, decompose(reachable, tables)
    profiles = {"ex_ante": profile(reachable, level_set.probabilities(agent.policy, reachable, greedy=greedy))}
    if len(tables) > 1:
        profiles["given"] = torch.stack([profile(reachable, table) for table in tables]).mean(0)
    ticks = [[tick for row in found.tolist() if (tick := half_open(row)) is not None] for found in profiles.values()]
    redrawn = None
    if level_set.private_kind == "bits" and 1 < len(tables) <= MOST_SETTINGS:
        by_tick = zip(*(reflip(reachable, tables, best, layer.tick) for layer in reachable.layers), strict=True)
        means = [[each.mean().item() for each in several] for several in by_tick]
        redrawn = dict(zip(("choice", "usefulness"), means, strict=True))
    return {
        "levels": len(levels),
        "usefulness": usefulness(lengths.probability, lengths.coins, best).mean().item(),
        **{name: values.mean().item() for name, values in vars(parts).items()},
        "least_length": lengths.probability.masked_fill(level_set.optima.lengths == 0, 1).amin(-1).mean().item(),
        "by_chance": sum(compile_levels([level]).any_luck for level in levels),
        "commitment": {name: found.mean(0).tolist() for name, found in profiles.items()},
        "half_open": {
            name: float(np.median(known)) if known else None for name, known in zip(profiles, ticks, strict=True)
        },
        "reflip": redrawn,
    }


def after_edits(asked: Asked, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the mean and the worst of each measure over all edits, by kind."""
    levels = levels[:EDITED]
    if not (made := edits(levels)):
        return {}
    found = by_kind(asked, made)
    return {"levels": len(levels)} | {kind: {"count": of["usefulness"]["count"]} | of for kind, of in found.items()}
