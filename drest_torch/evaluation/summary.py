"""Summaries of evaluations: one split as numbers, table rows and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from drest_torch.algos.networks.policy import Policy, memory_of
from drest_torch.evaluation.exact import Evaluation, LevelSetEvaluator
from drest_torch.evaluation.sampled import SampledEvaluation
from drest_torch.statistics.bootstrap import Interval


@dataclass(frozen=True)
class Score:
    """The usefulness and neutrality of a policy, as means over the levels of a split."""

    usefulness: float
    neutrality: float
    """In bits."""
    neutrality_own: float | None = None
    """The neutrality given the private bits, if known."""
    usefulness_committed: float | None = None
    """The usefulness with committed(l) in place of m(l), if they differ."""


@dataclass(frozen=True)
class SplitScores:
    """One split: the scores of the agent, of a uniform policy and of an optimal one."""

    split: str
    levels: int
    agent: Score
    uniform: Score
    optimum: Score
    sampled: int | None = None
    """The number of mini-episodes per level, if the agent's scores are estimates."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The 95 % intervals of the estimates, by measure."""
    gamma: float = 1.0
    """The discount γ of the usefulness."""
    usefulness_at: Mapping[float, float] = field(default_factory=dict)
    """The usefulness of the agent at other γ."""

    def of_agent(self, measure: str) -> str:
        """Return ``0.873``, with its interval if it has one."""
        estimate: float = getattr(self.agent, measure)
        return str(Interval(estimate, *self.ranges[measure])) if measure in self.ranges else f"{estimate:.3f}"


def split_summary(evaluation: Evaluation, uniform: Evaluation, levels: int) -> dict[str, Any]:
    """Return the numbers of one split: those of the agent, of a uniform policy, and the best possible ones."""
    optional = ("usefulness_committed", "neutrality_own")
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
        **{name: means[name] for name in optional if name in means},
        "levels": levels,
        "uniform": {
            name: uniform_means[name] for name in ("usefulness", *optional[:1], "neutrality") if name in uniform_means
        },
        "optimum": {"usefulness": 1.0, "neutrality": best},
        **sampled,
    }


def split_scores(summary: dict[str, Any], gamma: float = 1.0) -> list[SplitScores]:
    """Return the rows of the printed table, one for each split of a summary with this discount γ."""
    return [
        SplitScores(
            split,
            numbers["levels"],
            agent=Score(*(numbers.get(measure.name) for measure in fields(Score))),
            ranges={name: (ends["low"], ends["high"]) for name, ends in numbers.get("ranges", {}).items()},
            sampled=numbers.get("sampled"),
            uniform=Score(**numbers["uniform"]),
            optimum=Score(**numbers["optimum"]),
            gamma=gamma,
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
    agent: str,
    greedy: bool = False,
) -> list[Path]:
    """Plot the policy on the first levels of a set, with its metrics and the agent's name; return the files.

    There are none of a policy that remembers: it does not do the same whenever it is in a state.
    """
    from drest_torch.plots import policies as figures  # an agent is evaluated without matplotlib

    indices = level_set.room_for(most)
    if not indices or memory_of(policy):
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
    return figures.policy_pictures(reachable, policies, indices, folder, numbers=numbers, agent=agent)
