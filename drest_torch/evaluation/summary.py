"""Summaries of evaluations: one split as numbers, table rows and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from algos.networks.policy import Policy
from drest_torch.evaluation.exact import Evaluation, Prepared
from drest_torch.evaluation.sampled import Sampled
from drest_torch.plots import policies as figures
from drest_torch.tracking.console import Row, Score


def split_summary(found: Evaluation, uniform: Evaluation, levels: int) -> dict[str, Any]:
    """The numbers of one split: the agent's, a uniform policy's, and what is best possible."""
    best = found.num_lengths.double().log2().mean().item()
    means, chance = found.means(), uniform.means()
    sampled: dict[str, Any] = {}
    if isinstance(found, Sampled):
        ranges = {name: {"low": low, "high": high} for name, (low, high) in found.mean_ranges().items()}
        sampled = {"sampled": found.mini_episodes, "ranges": ranges}
    return {
        "usefulness": means["usefulness"],
        "neutrality": means["neutrality"],
        "neutrality_normalised": means["neutrality_normalised"],
        "levels": levels,
        "uniform": {"usefulness": chance["usefulness"], "neutrality": chance["neutrality"]},
        "optimum": {"usefulness": 1.0, "neutrality": best},
        **sampled,
    }


def table_rows(summary: dict[str, Any]) -> list[Row]:
    return [
        Row(
            split,
            numbers["levels"],
            agent=Score(numbers["usefulness"], numbers["neutrality"]),
            ranges={name: (ends["low"], ends["high"]) for name, ends in numbers.get("ranges", {}).items()},
            sampled=numbers.get("sampled"),
            uniform=Score(**numbers["uniform"]),
            optimum=Score(**numbers["optimum"]),
        )
        for split, numbers in summary["splits"].items()
    ]


def draw_policies(
    each: Prepared, policy: Policy, found: Evaluation, folder: Path, *, most: int, greedy: bool = False
) -> list[Path]:
    """Draw the policy on the first levels of a set, with what it was found to do there."""
    drawn = each.room_for(most)
    if not drawn:
        return []
    reachable = each.unrolled(drawn)
    numbers = [
        figures.LevelNumbers(
            found.usefulness[i].item(),
            found.neutrality[i].item(),
            found.length_probabilities(i),
            sampled=isinstance(found, Sampled),
        )
        for i in drawn
    ]
    policies = each.to_show(policy, reachable, greedy=greedy)
    return figures.policy_pictures(reachable, policies, drawn, folder, numbers=numbers)
