"""Summaries of evaluations: one split as numbers, table rows and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from algos.networks.policy import Policy
from drest_torch.evaluation.exact import Evaluation, LevelSetEvaluator
from drest_torch.evaluation.sampled import SampledEvaluation
from drest_torch.plots import policies as figures
from drest_torch.tracking.console import Score, SplitScores


def split_summary(evaluation: Evaluation, uniform: Evaluation, levels: int) -> dict[str, Any]:
    """Return the numbers of one split: those of the agent, of a uniform policy, and the best possible ones."""
    best = evaluation.num_lengths.double().log2().mean().item()
    means, uniform_means = evaluation.means(), uniform.means()
    sampled: dict[str, Any] = {}
    if isinstance(evaluation, SampledEvaluation):
        ranges = {name: {"low": low, "high": high} for name, (low, high) in evaluation.mean_ranges().items()}
        sampled = {"sampled": evaluation.mini_episodes, "ranges": ranges}
    return {
        "usefulness": means["usefulness"],
        "neutrality": means["neutrality"],
        "neutrality_normalised": means["neutrality_normalised"],
        "levels": levels,
        "uniform": {"usefulness": uniform_means["usefulness"], "neutrality": uniform_means["neutrality"]},
        "optimum": {"usefulness": 1.0, "neutrality": best},
        **sampled,
    }


def split_scores(summary: dict[str, Any]) -> list[SplitScores]:
    """Return the rows of the printed table, one for each split of a summary."""
    return [
        SplitScores(
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


def plot_policies(
    level_set: LevelSetEvaluator,
    policy: Policy,
    evaluation: Evaluation,
    folder: Path,
    *,
    most: int,
    greedy: bool = False,
) -> list[Path]:
    """Plot the policy on the first levels of a set, with its metrics there; return the files."""
    indices = level_set.room_for(most)
    if not indices:
        return []
    reachable = level_set.unrolled(indices)
    numbers = [
        figures.LevelNumbers(
            evaluation.usefulness[i].item(),
            evaluation.neutrality[i].item(),
            evaluation.length_probabilities(i),
            sampled=isinstance(evaluation, SampledEvaluation),
        )
        for i in indices
    ]
    policies = level_set.policies_by_private_bits(policy, reachable, greedy=greedy)
    return figures.policy_pictures(reachable, policies, indices, folder, numbers=numbers)
