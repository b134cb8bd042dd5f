"""Exact evaluation of policies on level sets: the source of all metrics that runs report.

`drest_torch.evaluation.sampled` estimates the same metrics on levels that are too large for exact evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from drest_torch.algos.networks.policy import Policy, memory_of, private_settings
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import TIME_STEPS, Observation, make_observation
from drest_torch.envs.exact.earliest import parts
from drest_torch.envs.exact.propagator import Arrivals, Lengths, Reachable, States, mixture, uniform_policy
from drest_torch.envs.exact.solver import LevelSet, Optima
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError
from drest_torch.evaluation.memory_guard import BYTES_PER_STATE, check_size
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import Reward

STATES_AT_ONCE = 8192
"""States in one call of the network, few enough for the processor's caches."""
MOST_SETTINGS = 4
"""Maximum number of private-bit settings that are plotted separately."""
NUMBERS_AT_ONCE = 1 << 25
"""Maximum number of values in a batch of observations; large maps get smaller batches."""
SUMMARY_MEASURES = ("usefulness", "neutrality", "neutrality_normalised", "usefulness_committed", "neutrality_own")
"""Measures of a policy in a summary, in order."""
UNIFORM_MEASURES = ("usefulness", "usefulness_committed", "neutrality")
"""Measures that a summary also reports for the random policy."""
PAPER_GAMMAS = (0.95, 0.9)
"""Discounts γ of the paper's experiments, at which usefulness is reported in addition to the γ of the run."""


@dataclass(frozen=True)
class Evaluation:
    """The metrics of one policy on one level set, level by level."""

    names: list[str]
    lengths: Tensor
    num_lengths: Tensor
    outcome: Lengths
    usefulness: Tensor
    neutrality: Tensor
    neutrality_normalised: Tensor
    neutrality_own: Tensor
    """[B] neutrality given the private bits, averaged over their settings: the randomness of the policy itself.
    It equals the neutrality if there are no private bits."""
    expected_drest: Tensor
    usefulness_committed: Tensor | None
    """[B] usefulness relative to committed(l) in place of m(l) (`drest_torch.envs.exact.solver.committed_return`); None
    if the two are equal."""

    def means(self) -> dict[str, float]:
        """Return the mean of each metric over levels."""
        means = {name: values.mean().item() for name, values in self._measures().items()}
        means["return/expected_drest"] = self.expected_drest.mean().item()
        if len(self.names) > 1:
            return means
        for length, probability in self.length_probabilities(0).items():
            means[f"p_length/{length}"] = probability
        return means

    def summary(self, uniform: Evaluation) -> dict[str, Any]:
        """Return the summary of a split: measures of the agent, the random policy and the optimum."""
        means = self.means()
        uniform_means = uniform.means()
        most_bits = self.num_lengths.double().log2()
        return {
            **{name: means[name] for name in SUMMARY_MEASURES if name in means},
            "levels": len(self.names),
            "uniform": {name: uniform_means[name] for name in UNIFORM_MEASURES if name in uniform_means},
            "optimum": {"usefulness": 1.0, "neutrality": most_bits.mean().item()},
        }

    def _measures(self) -> dict[str, Tensor]:
        """Return the available measures of the policy, each [B]."""
        measures = {
            "usefulness": self.usefulness,
            "usefulness_committed": self.usefulness_committed,
            "neutrality": self.neutrality,
            "neutrality_normalised": self.neutrality_normalised,
            "neutrality_own": self.neutrality_own,
        }
        return {name: values for name, values in measures.items() if values is not None}

    def length_probabilities(self, index: int) -> dict[int, float]:
        """Return the probability of each length of a level."""
        count = int(self.num_lengths[index])
        lengths = self.lengths[index, :count].tolist()
        probabilities = self.outcome.probability[index, :count].tolist()
        return dict(zip(lengths, probabilities, strict=True))

    def records(self) -> list[dict[str, Any]]:
        """Return a JSON object for each level."""
        return [self._record(index) for index in range(len(self.names))]

    def _record(self, index: int) -> dict[str, Any]:
        """Return the JSON object of one level."""
        probabilities = self.length_probabilities(index)
        return {
            "name": self.names[index],
            **{name: values[index].item() for name, values in self._measures().items()},
            "length_probabilities": {str(length): chance for length, chance in probabilities.items()},
            "expected_drest": self.expected_drest[index].item(),
        }


def evaluation_of(
    names: list[str],
    optima: Optima,
    reward: Reward,
    outcome: Lengths,
    *,
    neutrality_own: Tensor | None = None,
    committed: Tensor | None = None,
) -> Evaluation:
    """Return the metrics for given P(L = l) and E[C | L = l].

    ``committed`` is committed(l) [B, K] where it differs from m(l).
    """
    num_lengths, best_return = optima.num_lengths, optima.best_return
    probability, coins = outcome.probability, outcome.coins
    preliminary = probability * reward.preliminary(coins, best_return)
    usefulness_committed = None
    if committed is not None:
        usefulness_committed = usefulness(probability, coins, committed)
    bits = neutrality(probability)
    if neutrality_own is None:
        neutrality_own = bits
    return Evaluation(
        names=names,
        lengths=optima.lengths,
        num_lengths=num_lengths,
        outcome=outcome,
        usefulness=usefulness(probability, coins, best_return),
        neutrality=bits,
        neutrality_normalised=neutrality_normalised(probability, num_lengths),
        neutrality_own=neutrality_own,
        expected_drest=reward.expected_return(probability, preliminary, num_lengths),
        usefulness_committed=usefulness_committed,
    )


class ExactEvaluator:
    """A compiled level set for exact evaluation, with the observations of training.

    ``at_least`` is the map size of the policy: smaller maps are padded to it. ``features`` appear in observations even
    if no level has them. Both apply to levels that are not compiled yet. ``planes`` are the names of the observation
    planes that the policy reads; None: all. Exact evaluation uses at most ``memory_gib``: a larger set is evaluated in
    parts, with the same result, and a single level that needs more raises an error before its states are unrolled.
    """

    exact = True
    """True if all reachable states are unrolled, which limits memory."""

    def __init__(
        self,
        levels: Sequence[Level] | LevelSet,
        observation: str,
        *,
        reward: Reward,
        at_least: tuple[int, int] = (1, 1),
        features: Collection[str] = (),
        planes: Collection[str] | None = None,
        time_steps: int = TIME_STEPS,
        memory_gib: float = math.inf,
        device: torch.device | str = "cpu",
    ) -> None:
        if not isinstance(levels, LevelSet):
            mdp = compile_levels(levels, device, at_least=at_least, features=features)
            levels = LevelSet(mdp)
        self.level_set = levels
        self.levels = levels.levels
        self.mdp = levels.mdp
        self.sizes = levels.sizes
        if self.exact:
            check_size(self.mdp, self.sizes, memory_gib)
        else:
            check_size(self.mdp, self.sizes, None)
        self.most_states = memory_gib * 2**30 / BYTES_PER_STATE
        self.observe = make_observation(observation, self.mdp, time_steps, planes)
        self.reward = reward
        self.optima = levels.optima(reward.gamma)
        self.committed: Tensor | None = None
        """[B, K] committed(l), or m(l) where no policy can be certain of l; None if all equal m(l)."""
        committed = levels.optima(reward.gamma, committed=True).best_return
        if not torch.equal(committed, self.optima.best_return):
            self.committed = committed

    def evaluate(self, policy: Policy, *, greedy: bool = False) -> Evaluation:
        """Return the metrics of a policy, averaged over its private bits."""
        gamma = self.reward.gamma
        outcomes, neutrality_own = self._outcomes(policy, (gamma,), greedy)
        return self._metrics(outcomes[gamma], neutrality_own)

    def evaluate_uniform(self) -> Evaluation:
        """Return the metrics of the random policy, which takes all actions with equal probability."""
        gamma = self.reward.gamma
        parts = [self.unrolled(levels).evaluate(uniform_policy, gamma) for levels in self._parts]
        return self._metrics(self._joined(parts))

    def summarised(self, policy: Policy, *, greedy: bool = False) -> tuple[Evaluation, dict[str, Any]]:
        """Return the metrics of a policy and its summary."""
        evaluation = self.evaluate(policy, greedy=greedy)
        return evaluation, evaluation.summary(self.evaluate_uniform())

    def usefulness_at(
        self, policy: Policy, gammas: Sequence[float] = PAPER_GAMMAS, *, greedy: bool = False
    ) -> dict[float, Tensor]:
        """Return the usefulness [B] at each discount γ of coins and m; an empty dictionary if evaluation is sampled."""
        outcomes, _ = self._outcomes(policy, gammas, greedy)
        usefulness_by_gamma = {}
        for gamma, outcome in outcomes.items():
            best_return = self.level_set.optima(gamma).best_return
            usefulness_by_gamma[gamma] = usefulness(outcome.probability, outcome.coins, best_return)
        return usefulness_by_gamma

    def _outcomes(self, policy: Policy, gammas: Sequence[float], greedy: bool) -> tuple[dict[float, Lengths], Tensor]:
        """Return P(L = l) and E[C | L = l] by discount γ, and the neutrality given the private bits [B]."""
        outcomes: dict[float, list[Lengths]] = {gamma: [] for gamma in gammas}
        neutrality_own: list[Tensor] = []
        for levels in self._parts:
            reachable = self.unrolled(levels)
            arrivals: dict[float, list[Arrivals]] = {gamma: [] for gamma in gammas}
            for table in self.tables(policy, reachable, greedy=greedy):
                for gamma in gammas:
                    arrivals[gamma].append(reachable.arrivals(table, gamma))
            for gamma in gammas:
                outcomes[gamma].append(mixture(arrivals[gamma]).lengths())
            by_setting = [neutrality(arrival.probability) for arrival in arrivals[gammas[0]]]
            neutrality_own.append(torch.stack(by_setting).mean(0))
        joined = {gamma: self._joined(parts) for gamma, parts in outcomes.items()}
        return joined, torch.cat(neutrality_own)

    def _joined(self, parts: Sequence[Lengths]) -> Lengths:
        """Concatenate the outcomes of all parts."""
        columns = self.optima.lengths.shape[1]
        probability = [_widened(part.probability, columns) for part in parts]
        coins = [_widened(part.coins, columns) for part in parts]
        return Lengths(torch.cat(probability), torch.cat(coins))

    def _metrics(self, outcome: Lengths, neutrality_own: Tensor | None = None) -> Evaluation:
        names = [level.name for level in self.levels]
        return evaluation_of(
            names,
            self.optima,
            self.reward,
            outcome,
            neutrality_own=neutrality_own,
            committed=self.committed,
        )

    @cached_property
    def _parts(self) -> list[range]:
        """Ranges of levels that fit into memory together."""
        return parts(self.mdp, self.sizes.states, self.most_states)

    @cached_property
    def _whole(self) -> Reachable:
        return Reachable(self.mdp)

    def unrolled(self, levels: range) -> Reachable:
        """Return the reachable states of a range of levels; the whole set is cached if it fits into memory."""
        is_whole = len(levels) == len(self.levels)
        if self.exact and is_whole and len(self._parts) == 1:
            return self._whole
        return Reachable(self.mdp, levels)

    def _all_unrolled(self) -> Reachable:
        return self.unrolled(range(len(self.levels)))

    def fitting_levels(self, most: int, policy: Policy | None = None) -> range:
        """Return the first levels, at most ``most``, whose states fit into memory together.

        The range is empty for a recurrent ``policy``, which has no table of action probabilities.
        """
        if memory_of(policy):
            return range(0)
        states_so_far = self.sizes.states[:most].cumsum(0)
        fits = states_so_far <= self.most_states
        return range(int(fits.sum()))

    @torch.no_grad()
    def probabilities(self, policy: Policy, reachable: Reachable | None = None, *, greedy: bool = False) -> Tensor:
        """Return [N, 4] the action probabilities in reachable states (default: of all levels).

        With private bits these are action frequencies: settings are weighted by how often the policy visits the state
        under them. A policy without private bits that acts with these probabilities has the same state visits.
        """
        if reachable is None:
            reachable = self._all_unrolled()
        tables = list(self.tables(policy, reachable, greedy=greedy))
        return _average(reachable, tables)

    @torch.no_grad()
    def policies_by_private_bits(
        self, policy: Policy, reachable: Reachable | None = None, *, greedy: bool = False
    ) -> dict[str, Tensor]:
        """Return the action probabilities [N, 4] under each setting of the private bits, by name.

        Without private bits, or with more than 4 settings, return their average under the name ``""``.
        """
        if reachable is None:
            reachable = self._all_unrolled()
        tables = list(self.tables(policy, reachable, greedy=greedy))
        if not 1 < len(tables) <= MOST_SETTINGS:
            return {"": _average(reachable, tables)}
        names = map(_setting_name, private_settings(policy.private_bits))
        return dict(zip(names, tables, strict=True))

    def tables(self, policy: Policy, reachable: Reachable, *, greedy: bool = False) -> Iterator[Tensor]:
        """Yield the action probabilities [N, 4] in reachable states under each setting of the private bits."""
        for private_bits in self._settings(policy.private_bits):
            yield self.table(policy, reachable, private_bits, greedy=greedy)

    @torch.no_grad()
    def table(
        self, policy: Policy, reachable: Reachable, private_bits: Tensor | None, *, greedy: bool = False
    ) -> Tensor:
        """Return the action probabilities [N, 4] in reachable states under one setting of the private bits."""
        refuse_memory(policy, "a recurrent policy cannot be evaluated exactly; use sampled=256")
        states, index = reachable.distinct(see_time=self.observe.see_time)

        def act(batch: Tensor) -> Tensor:
            if private_bits is None:
                return policy(batch, None)
            return policy(batch, private_bits.expand(len(batch), -1))

        logits = query_policy(act, self.observe, states, self.batch_size(STATES_AT_ONCE)).double()
        if not greedy:
            return logits.softmax(-1)[index]
        best_action = logits.argmax(-1)
        return one_hot(best_action, logits.shape[-1]).double()[index]

    def batch_size(self, most: int) -> int:
        """Return the batch size for observations, at most ``most``."""
        fitting = NUMBERS_AT_ONCE // math.prod(self.observe.shape)
        return min(most, max(1, fitting))

    def _settings(self, count: int) -> list[Tensor | None]:
        """Return all settings of ``count`` private bits; ``[None]`` if there are none."""
        if count == 0:
            return [None]
        return list(private_settings(count).to(self.mdp.device))


def refuse_memory(policy: Any, sentence: str) -> None:
    """Raise an error with this sentence for a recurrent policy."""
    if memory_of(policy):
        raise ConfigError(sentence)


def _widened(table: Tensor, columns: int) -> Tensor:
    """Pad a table to [B, columns] with zeros."""
    return pad(table, (0, columns - table.shape[1]))


def _setting_name(bits: Tensor) -> str:
    """Return ``bit 1`` or ``bits 0, 1``."""
    digits = ", ".join(str(int(bit)) for bit in bits)
    if len(bits) == 1:
        return f"bit {digits}"
    return f"bits {digits}"


def _average(reachable: Reachable, tables: list[Tensor]) -> Tensor:
    """Return the action frequencies [N, 4] of a mixture that samples a policy for each mini-episode."""
    if len(tables) == 1:
        return tables[0]
    visits = torch.stack([reachable.visits(table) for table in tables]).unsqueeze(-1)  # [settings, N, 1]
    is_visited = visits.sum(0) > 0
    weights = torch.where(is_visited, visits, 1)
    return (weights * torch.stack(tables)).sum(0) / weights.sum(0)


def observe_states(observation: Callable[[Tensor, Tensor, Tensor], Tensor], states: States) -> Tensor:
    """Return the observations of states."""
    return observation(states.spot, states.taken, states.time_left)


def query_policy(act: Callable[[Tensor], Tensor], observe: Observation, states: States, at_once: int) -> Tensor:
    """Return the outputs [N, …] of a network in all states, computed in batches of ``at_once``.

    States are sorted by level, so that a network that encodes maps gets the states of a map together.
    """
    order = states.spot.sort(stable=True).indices
    output = torch.cat([act(observe_states(observe, states[part])) for part in order.split(at_once)])
    return torch.empty_like(output).index_copy_(0, order, output)
