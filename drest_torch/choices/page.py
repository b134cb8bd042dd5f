"""One page on an agent of gridworlds: forks, who chooses the length, when, and what one edit of a level does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import torch

from drest_torch.agent import Agent
from drest_torch.choices import forks
from drest_torch.choices.adversarial import ExactPolicy, agent_policy, summarise_kinds
from drest_torch.choices.attribution import commitment_profile, decompose
from drest_torch.choices.perturbations import perturb
from drest_torch.choices.suites import EPSILON
from drest_torch.envs.exact.propagator import mixture
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError, UserError
from drest_torch.metrics import usefulness
from drest_torch.report.markdown import escaped
from drest_torch.report.template import FILTERS

EDITED = 12
"""Of a set of more levels, as many are edited."""


def to_markdown(page: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    environment = jinja2.Environment(
        autoescape=True, finalize=escaped, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {**FILTERS, "literal": escaped}
    template = environment.from_string(Path(__file__).with_name("page.md.j2").read_text("utf-8"))
    values = {"epsilon": EPSILON, "sweeter": forks.SWEETER, "ratios": forks.RATIOS}
    return template.render(**page, **values).rstrip() + "\n"


def shutdownability(
    agent: Agent, sets: Mapping[str, Sequence[Level]], *, greedy: bool = False, memory_gib: float = 2.0
) -> dict[str, Any]:
    """Return the page on an agent as JSON values: what it does in forks and on these sets of levels, exactly.

    A part that the agent cannot be asked is left out, and the page says why in one sentence.
    """
    if not any(sets.values()):
        raise ConfigError("no levels for the page; choose levels=paper, or a file with levels.path=FILE")
    asked = agent_policy(agent, greedy=greedy, memory_gib=memory_gib)
    left_out: dict[str, str] = {}

    def part(name: str, measure: Callable[[], Any]) -> Any:
        try:
            return measure()
        except UserError as error:
            left_out[name] = str(error)
            return None

    in_all_forks = part("forks", partial(in_forks, asked))
    found = {name: part(name, partial(on_levels, agent, asked, levels, greedy)) for name, levels in sets.items()}
    found = {name: values for name, values in found.items() if values}
    if in_all_forks is None and not found:
        raise ConfigError(f"nothing could be measured: {next(iter(left_out.values()))}")
    edited = {name: part(f"edits of {name}", partial(on_perturbed_levels, asked, sets[name])) for name in found}
    return {
        "agent": agent.name,
        "private_bits": agent.policy.private_bits,
        "greedy": greedy,
        "forks": in_all_forks,
        "sets": found,
        "edits": {name: values for name, values in edited.items() if values},
        "left_out": left_out,
    }


def in_forks(asked: ExactPolicy) -> dict[str, Any]:
    """Return what the agent does in forks, before and after its private bits are known, and its control."""
    return {
        where: forks.gap(chances).numbers()
        for where, chances in forks.conditional_probabilities(forks.measure(asked)).items()
    }


def on_levels(agent: Agent, asked: ExactPolicy, levels: Sequence[Level], greedy: bool) -> dict[str, Any]:
    """Return who chooses the length on these levels, and when."""
    level_set, reachable, tables = asked.unrolled(levels)
    lengths = mixture([reachable.arrivals(table) for table in tables]).lengths()
    best, parts = level_set.optima.best_return, decompose(reachable, tables)
    profiles = {
        "ex_ante": commitment_profile(reachable, level_set.probabilities(agent.policy, reachable, greedy=greedy))
    }
    if len(tables) > 1:
        profiles["given"] = torch.stack([commitment_profile(reachable, table) for table in tables]).mean(0)
    return {
        "levels": len(levels),
        "usefulness": usefulness(lengths.probability, lengths.coins, best).mean().item(),
        **{name: values.mean().item() for name, values in vars(parts).items()},
        "least_length": lengths.probability.masked_fill(level_set.optima.lengths == 0, 1).amin(-1).mean().item(),
        "commitment": {name: found.mean(0).tolist() for name, found in profiles.items()},
    }


def on_perturbed_levels(asked: ExactPolicy, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the mean and the worst of each measure over all edits, by kind."""
    levels = levels[:EDITED]
    if not (made := perturb(levels)):
        return {}
    found = summarise_kinds(asked, made)
    return {"levels": len(levels)} | {kind: {"count": of["usefulness"]["count"]} | of for kind, of in found.items()}
