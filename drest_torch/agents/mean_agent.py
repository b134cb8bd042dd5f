"""The mean policy of several agents of gridworlds, with the evaluation of a single agent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drest_torch.agents.misfits import misfit
from drest_torch.agents.specification import map_view
from drest_torch.algos.networks.spec import MAX_PRIVATE_BITS
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError
from drest_torch.evaluation.mean_policy import MeanPolicy
from drest_torch.evaluation.results import Results
from drest_torch.play.level_sets import digest_of_levels


class MeanAgent:
    """The mean policy of several agents: in each state, an action has the mean of their probabilities.

    `Agent.mean` makes it. It is evaluated like an agent, exactly and on any levels that all agents can observe; their
    networks and observations may differ. It cannot be saved: ``algo=distil`` trains one network to it. Returns are
    those of the first agent's reward. Agents with private bits draw them independently of each other.
    """

    def __init__(self, agents: Sequence[Any]) -> None:
        if not agents:
            raise ConfigError("a mean policy of no agents; expected the folders of runs")
        self.agents = agents
        """The agents, each an `Agent`."""
        self.views = [map_view(agent.spec, f"{agent.folder}") for agent in agents]
        bits = sum(agent.spec.policy.private_bits for agent in agents)
        if bits > MAX_PRIVATE_BITS:
            raise ConfigError(
                f"the agents have {bits} private bits together, and a mean policy at most {MAX_PRIVATE_BITS}; choose "
                "fewer of them"
            )
        self.spec = agents[0].spec
        """The specification of the first agent."""
        self.reward = agents[0].reward
        """The reward of the first agent."""
        self.name = f"mean of {', '.join(agent.name for agent in agents)}"

    def __repr__(self) -> str:
        return f"MeanAgent({', '.join(map(repr, self.agents))})"

    @property
    def files(self) -> list[Path]:
        """The files of all agents."""
        return [path for agent in self.agents for path in agent.files]

    def test_levels(self) -> list[Level]:
        """Return the test levels of the agents' runs; refuse runs with different ones."""
        first, *others = self.agents
        levels: list[Level] = first.test_levels()
        for agent in others:
            if digest_of_levels(agent.test_levels()) != digest_of_levels(levels):
                raise ConfigError(
                    f"{first.folder} and {agent.folder} have different test levels; choose levels, such as levels=paper"
                )
        return levels

    def probabilities(self, level: Any) -> dict[int, float]:
        """Return P(L = l) by length l, in ticks, on a level; of several levels, on the first one."""
        return self.evaluate(level).evaluation.length_probabilities(0)

    def evaluate(
        self,
        levels: Any = None,
        *,
        greedy: bool = False,
        sampled: int | None = None,
        memory_gib: float = math.inf,
    ) -> Results:
        """Evaluate the mean policy; the arguments are those of `Agent.evaluate`.

        Args:
            levels: a `Level`, a sequence of them, the path of a level file, or a name; None: the test levels of the
                agents' runs, which must be the same.
            greedy: whether the most likely action of the mean policy is taken instead of sampling.
            sampled: the number of mini-episodes on each level; None: exact evaluation.
            memory_gib: the memory limit of an exact evaluation.

        Returns:
            the `Results`; a `ConfigError` is raised if one of the agents cannot observe the levels.
        """
        if levels is None:
            levels = self.test_levels()
        evaluator = self.agents[0].evaluator(levels, sampled=sampled, memory_gib=memory_gib)
        for agent in self.agents:
            if sentence := misfit(agent.spec.policy, evaluator.levels):
                raise ConfigError(f"{agent.folder}: {sentence}")
        policies = [(agent.policy, view) for agent, view in zip(self.agents, self.views, strict=True)]
        policy: Any = MeanPolicy(policies, evaluator.mdp)
        evaluator.observe = policy.observe
        return Results(evaluator, policy, evaluator.evaluate(policy, greedy=greedy), greedy, self.name)
