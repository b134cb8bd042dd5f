"""The shutdownability page of a gridworld agent: forks, attribution of neutrality, its timing, and perturbations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import torch

from drest_torch.agents.evaluable import EvaluableAgent
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

MAX_PERTURBED = 12
"""The number of levels of a set that are perturbed."""


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
    agent: EvaluableAgent, sets: Mapping[str, Sequence[Level]], *, greedy: bool = False, memory_gib: float = 2.0
) -> dict[str, Any]:
    """Return the page on an agent as JSON values, from exact evaluation in forks and on these sets of levels.

    A part that does not fit the agent is left out, and the page states the reason.
    """
    if not any(sets.values()):
        raise ConfigError("no levels for the page; choose levels=paper, or a file with levels.path=FILE")
    policy = agent_policy(agent, greedy=greedy, memory_gib=memory_gib)
    left_out: dict[str, str] = {}

    def part(name: str, measure: Callable[[], Any]) -> Any:
        try:
            return measure()
        except UserError as error:
            left_out[name] = str(error)
            return None

    fork_numbers = part("forks", partial(in_forks, policy))
    numbers: dict[str, Any] = {}
    for name, levels in sets.items():
        if values := part(name, partial(on_levels, agent, policy, levels, greedy)):
            numbers[name] = values
    if fork_numbers is None and not numbers:
        raise ConfigError(f"nothing could be measured: {next(iter(left_out.values()))}")
    perturbed: dict[str, Any] = {}
    for name in numbers:
        if values := part(f"perturbations of {name}", partial(on_perturbed_levels, policy, sets[name])):
            perturbed[name] = values
    return {
        "agent": agent.name,
        "private_bits": agent.policy.private_bits,
        "greedy": greedy,
        "forks": fork_numbers,
        "sets": numbers,
        "edits": perturbed,
        "left_out": left_out,
    }


def in_forks(policy: ExactPolicy) -> dict[str, Any]:
    """Return the gap measures of a policy in forks, ex ante and given its private bits, and of its matched softmax."""
    return {
        where: forks.gap(chances).numbers()
        for where, chances in forks.conditional_probabilities(forks.measure(policy)).items()
    }


def on_levels(agent: EvaluableAgent, policy: ExactPolicy, levels: Sequence[Level], greedy: bool) -> dict[str, Any]:
    """Return usefulness, the decomposition of neutrality, and its profile over time, as means over these levels."""
    level_set, reachable, tables = policy.unrolled(levels)
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
        "neutrality": parts.neutrality.mean().item(),
        "given_luck": parts.given_luck.mean().item(),
        "given_bits": parts.given_bits.mean().item(),
        "own": parts.given_both.mean().item(),
        "least_length": lengths.probability.masked_fill(level_set.optima.lengths == 0, 1).amin(-1).mean().item(),
        "commitment": {name: bits.mean(0).tolist() for name, bits in profiles.items()},
    }


def on_perturbed_levels(policy: ExactPolicy, levels: Sequence[Level]) -> dict[str, Any]:
    """Return the mean and the worst case of each measure over all perturbations, by kind."""
    levels = levels[:MAX_PERTURBED]
    perturbations = perturb(levels)
    if not perturbations:
        return {}
    numbers: dict[str, Any] = {"levels": len(levels)}
    for kind, summary in summarise_kinds(policy, perturbations).items():
        numbers[kind] = {"count": summary["usefulness"]["count"]} | summary
    return numbers
