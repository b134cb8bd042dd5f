"""Evaluate policies on a level set exactly. Every metric that a run reports comes from here.

The exception is `drest_torch.evaluation.sampled`, which a user can choose for levels that are too large for exact
evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.networks.policy import Policy, memory_of, private_settings
from drest_torch.envs.dynamics.mdp import Mdp, compile_levels
from drest_torch.envs.dynamics.observations import TIME_STEPS, Observation, make_observation
from drest_torch.envs.exact.earliest import StateCounts, parts
from drest_torch.envs.exact.layers import MAX_STATES
from drest_torch.envs.exact.propagator import Arrivals, Lengths, Reachable, States, mixture, uniform_policy
from drest_torch.envs.exact.solver import LevelSet, Optima, check_searchable
from drest_torch.envs.levels import Level, LevelError
from drest_torch.errors import ConfigError
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import Reward

STATES_AT_ONCE = 8192
"""The number of states in one call of the network, which fit into the caches of a processor."""
MOST_SHOWN = 4
"""The most settings of the private bits that are plotted one by one."""
BYTES_PER_STATE = 640
"""Memory of exact evaluation per reachable state: 610 bytes measured, with 0.4 and with 2.4 million states."""
NUMBERS_AT_ONCE = 1 << 25
"""The most numbers in one batch of observations; large maps are observed in smaller batches."""
PAPER_GAMMAS = (0.95, 0.9)
"""The discounts γ of the paper's experiments, at which usefulness can be reported beside the γ of a run."""


@dataclass(frozen=True)
class Evaluation:
    """The metrics of one policy on one level set, level by level."""

    names: list[str]
    lengths: Tensor
    num_lengths: Tensor
    found: Lengths
    usefulness: Tensor
    neutrality: Tensor
    neutrality_normalised: Tensor
    neutrality_own: Tensor
    """[B] the neutrality given the private bits, the mean over their settings: what the agent itself leaves to chance.
    Without private bits it is the neutrality."""
    expected_drest: Tensor
    usefulness_committed: Tensor | None
    """[B] the usefulness with committed(l) in place of m(l) (`drest_torch.envs.exact.solver.committed_return`), for
    sets in which they differ."""

    def means(self) -> dict[str, float]:
        """Return one number for each metric, the mean over levels."""
        means = {name: values.mean().item() for name, values in self._measures().items()}
        means["return/expected_drest"] = self.expected_drest.mean().item()
        if len(self.names) == 1:
            for length, probability in self.length_probabilities(0).items():
                means[f"p_length/{length}"] = probability
        return means

    def summary(self, uniform: Evaluation) -> dict[str, Any]:
        """Return the numbers of a split: those of the agent, of a uniform policy, and the best possible ones."""
        means, others = self.means(), uniform.means()
        measures = ("usefulness", "neutrality", "neutrality_normalised", "usefulness_committed", "neutrality_own")
        compared = ("usefulness", "usefulness_committed", "neutrality")
        return {
            **{name: means[name] for name in measures if name in means},
            "levels": len(self.names),
            "uniform": {name: others[name] for name in compared if name in others},
            "optimum": {"usefulness": 1.0, "neutrality": self.num_lengths.double().log2().mean().item()},
        }

    def _measures(self) -> dict[str, Tensor]:
        """Return the measures of a policy that are known, each [B]."""
        names = ("usefulness", "usefulness_committed", "neutrality", "neutrality_normalised", "neutrality_own")
        measures = {name: getattr(self, name) for name in names}
        return {name: values for name, values in measures.items() if values is not None}

    def length_probabilities(self, index: int) -> dict[int, float]:
        """Return the probability of each trajectory-length of a level."""
        count = int(self.num_lengths[index])
        lengths, probabilities = self.lengths[index, :count], self.found.probability[index, :count]
        return dict(zip(lengths.tolist(), probabilities.tolist(), strict=True))

    def records(self) -> list[dict[str, Any]]:
        """Return one JSON object for each level."""
        return [
            {
                "name": name,
                **{measure: values[i].item() for measure, values in self._measures().items()},
                "length_probabilities": {str(length): p for length, p in self.length_probabilities(i).items()},
                "expected_drest": self.expected_drest[i].item(),
            }
            for i, name in enumerate(self.names)
        ]


def evaluation_of(
    names: list[str],
    optima: Optima,
    reward: Reward,
    outcome: Lengths,
    own: Tensor | None = None,
    committed: Tensor | None = None,
) -> Evaluation:
    """Return the metrics that follow from P(L = l) and E[C | L = l]; ``own`` is `Evaluation.neutrality_own`.

    ``committed`` is what replaces m(l) where a policy can be sure of l, if that is something else.
    """
    num_lengths, best_return = optima.num_lengths, optima.best_return
    preliminary = outcome.probability * reward.preliminary(outcome.coins, best_return)
    return Evaluation(
        names=names,
        lengths=optima.lengths,
        num_lengths=num_lengths,
        found=outcome,
        usefulness=usefulness(outcome.probability, outcome.coins, best_return),
        neutrality=neutrality(outcome.probability),
        neutrality_normalised=neutrality_normalised(outcome.probability, num_lengths),
        neutrality_own=neutrality(outcome.probability) if own is None else own,
        expected_drest=reward.expected_return(outcome.probability, preliminary, num_lengths),
        usefulness_committed=None if committed is None else usefulness(outcome.probability, outcome.coins, committed),
    )


class ExactEvaluator:
    """A compiled level set on which policies are evaluated, with the observations that they see in training.

    ``at_least`` is the map size that the policy was built for: smaller maps are padded to it. ``features`` are shown
    whether the levels have them or not. Both are of levels that are not compiled yet. ``planes`` are the names of those
    that the policy knows; None: all. Exact evaluation uses at most
    ``memory_gib``: a set that needs more is evaluated in parts, with the same result, and a level that needs more is
    refused before its states are unrolled.
    """

    exact = True

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
            levels = LevelSet(compile_levels(levels, device, at_least=at_least, features=features))
        self.level_set, self.levels, self.mdp, self.sizes = levels, levels.levels, levels.mdp, levels.sizes
        self.most_states = memory_gib * 2**30 / BYTES_PER_STATE
        check_size(self.mdp, self.sizes, memory_gib if self.exact else None)
        self.observe = make_observation(observation, self.mdp, time_steps, planes)
        self.optima = levels.optima(reward.gamma)
        sure = levels.optima(reward.gamma, committed=True).best_return
        self.committed = None if torch.equal(sure, self.optima.best_return) else sure
        """[B, K] committed(l), or m(l) where no policy can be sure of l; None if that is m(l) in all levels."""
        self.reward = reward

    def evaluate(self, policy: Policy, *, greedy: bool = False) -> Evaluation:
        """Return the metrics of a policy; with private bits, those of its average over them."""
        found, own = self._outcomes(policy, (self.reward.gamma,), greedy)
        return self._metrics(found[self.reward.gamma], own)

    def evaluate_uniform(self) -> Evaluation:
        """Return the metrics of the policy that chooses all actions with equal probability."""
        gamma = self.reward.gamma
        parts = [self.unrolled(levels).evaluate(uniform_policy, gamma) for levels in self._parts]
        return self._metrics(self._joined(parts))

    def summarised(self, policy: Policy, *, greedy: bool = False) -> tuple[Evaluation, dict[str, Any]]:
        """Return the metrics of a policy and the numbers of a summary."""
        evaluation = self.evaluate(policy, greedy=greedy)
        return evaluation, evaluation.summary(self.evaluate_uniform())

    def usefulness_at(
        self, policy: Policy, gammas: Sequence[float] = PAPER_GAMMAS, *, greedy: bool = False
    ) -> dict[float, Tensor]:
        """Return the usefulness [B] of a policy with coins, and m, discounted by each γ; nothing if it is sampled."""
        found, _ = self._outcomes(policy, gammas, greedy)
        best = {gamma: self.level_set.optima(gamma).best_return for gamma in gammas}
        return {gamma: usefulness(each.probability, each.coins, best[gamma]) for gamma, each in found.items()}

    def _outcomes(self, policy: Policy, gammas: Sequence[float], greedy: bool) -> tuple[dict[float, Lengths], Tensor]:
        """Return P(L = l) and E[C | L = l] by discount, and the neutrality given the private bits [B]."""
        found: dict[float, list[Lengths]] = {gamma: [] for gamma in gammas}
        own: list[Tensor] = []
        for levels in self._parts:
            reachable = self.unrolled(levels)
            arrivals: dict[float, list[Arrivals]] = {gamma: [] for gamma in gammas}
            for table in self.tables(policy, reachable, greedy=greedy):
                for gamma, settings in arrivals.items():
                    settings.append(reachable.arrivals(table, gamma))
            for gamma, settings in arrivals.items():
                found[gamma].append(mixture(settings).lengths())
            own.append(torch.stack([neutrality(each.probability) for each in settings]).mean(0))
        return {gamma: self._joined(parts) for gamma, parts in found.items()}, torch.cat(own)

    def _joined(self, parts: Sequence[Lengths]) -> Lengths:
        """Return the outcomes of all levels, from those of each part."""
        columns = self.optima.lengths.shape[1]

        def join(tables: Iterable[Tensor]) -> Tensor:
            return torch.cat([torch.nn.functional.pad(table, (0, columns - table.shape[1])) for table in tables])

        return Lengths(join(part.probability for part in parts), join(part.coins for part in parts))

    def _metrics(self, outcome: Lengths, own: Tensor | None = None) -> Evaluation:
        names = [level.name for level in self.levels]
        return evaluation_of(names, self.optima, self.reward, outcome, own, self.committed)

    @cached_property
    def _parts(self) -> list[range]:
        """The levels that are evaluated together."""
        return parts(self.mdp, self.sizes.states, self.most_states)

    @cached_property
    def _whole(self) -> Reachable:
        return Reachable(self.mdp)

    def unrolled(self, levels: range) -> Reachable:
        """Return the reachable states of some of the levels; those of all levels are kept if they are one part."""
        if self.exact and len(levels) == len(self.levels) and len(self._parts) == 1:
            return self._whole
        return Reachable(self.mdp, levels)

    def room_for(self, most: int) -> range:
        """Return the first levels, at most ``most``, that can be unrolled together."""
        count = (self.sizes.states[:most].cumsum(0) <= self.most_states).sum()
        return range(int(count))

    @torch.no_grad()
    def probabilities(self, policy: Policy, reachable: Reachable | None = None, *, greedy: bool = False) -> Tensor:
        """Return [N, 4] the action probabilities in reachable states (all by default).

        With private bits this is the frequency of each action in a state: settings under which the policy visits the
        state more often weigh more. A policy without private bits that acts with these probabilities visits every state
        just as often.
        """
        reachable = self.unrolled(range(len(self.levels))) if reachable is None else reachable
        return _average(reachable, list(self.tables(policy, reachable, greedy=greedy)))

    @torch.no_grad()
    def policies_by_private_bits(
        self, policy: Policy, reachable: Reachable | None = None, *, greedy: bool = False
    ) -> dict[str, Tensor]:
        """Return `probabilities` under each setting of the private bits, by name, if there are few settings.

        Otherwise, and without private bits, the only name is ``""``.
        """
        reachable = self.unrolled(range(len(self.levels))) if reachable is None else reachable
        tables = list(self.tables(policy, reachable, greedy=greedy))
        if not 1 < len(tables) <= MOST_SHOWN:
            return {"": _average(reachable, tables)}
        word = "bit" if policy.private_bits == 1 else "bits"
        names = [
            f"{word} {', '.join(str(int(bit)) for bit in setting)}" for setting in private_settings(policy.private_bits)
        ]
        return dict(zip(names, tables, strict=True))

    def tables(self, policy: Policy, reachable: Reachable, *, greedy: bool = False) -> Iterator[Tensor]:
        """Yield [N, 4] the action probabilities in reachable states under each setting of the private bits."""
        for private_bits in self._settings(policy.private_bits):
            yield self.table(policy, reachable, private_bits, greedy=greedy)

    @torch.no_grad()
    def table(
        self, policy: Policy, reachable: Reachable, private_bits: Tensor | None, *, greedy: bool = False
    ) -> Tensor:
        """Return [N, 4] the action probabilities in reachable states under one setting of the private bits."""
        if memory_of(policy):
            raise ConfigError("the policy remembers earlier steps, so that no table of states says what it does")
        states, index = reachable.distinct(see_time=self.observe.see_time)

        def act(batch: Tensor) -> Tensor:
            return policy(batch, None if private_bits is None else private_bits.expand(len(batch), -1))

        logits = query_policy(act, self.observe, states, self.at_once(STATES_AT_ONCE)).double()
        if greedy:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()[index]
        return logits.softmax(-1)[index]

    def at_once(self, most: int) -> int:
        """Return the batch size for observations, at most ``most``."""
        return min(most, max(1, NUMBERS_AT_ONCE // math.prod(self.observe.shape)))

    def _settings(self, count: int) -> list[Tensor | None]:
        """Return every setting of ``count`` private bits."""
        if count == 0:
            return [None]
        return list(private_settings(count).to(self.mdp.device))


def _average(reachable: Reachable, tables: list[Tensor]) -> Tensor:
    """Return [N, 4] the frequency of each action if one of these policies is chosen at random per mini-episode."""
    if len(tables) == 1:
        return tables[0]
    visits = torch.stack([reachable.visits(table) for table in tables]).unsqueeze(-1)
    weights = torch.where(visits.sum(0) > 0, visits, 1)
    return (weights * torch.stack(tables)).sum(0) / weights.sum(0)


def observe_states(observation: Callable[[Tensor, Tensor, Tensor], Tensor], states: States) -> Tensor:
    return observation(states.spot, states.taken, states.time_left)


def query_policy(act: Callable[[Tensor], Tensor], see: Observation, states: States, at_once: int) -> Tensor:
    """Return [N, …] the output of a network in all states, computed in batches of ``at_once``.

    The states are sorted by level: a network that encodes maps then gets the states of a map together.
    """
    order = states.spot.sort(stable=True).indices
    output = torch.cat([act(observe_states(see, states[part])) for part in order.split(at_once)])
    return torch.empty_like(output).index_copy_(0, order, output)


def check_size(mdp: Mdp, sizes: StateCounts, memory_gib: float | None) -> None:
    """Refuse levels that cannot be evaluated exactly within ``memory_gib``, or, with None, by sampling."""
    if memory_gib is None:
        check_searchable(mdp, sizes.states)
        return
    too_large = (sizes.states * BYTES_PER_STATE > memory_gib * 2**30).nonzero().squeeze(-1)
    if not len(too_large):
        return
    index = int(sizes.states.argmax())
    others = f" (the largest of {len(too_large):,} levels that are too large)" if len(too_large) > 1 else ""
    raise LevelError(
        f"{mdp.levels[index].place}{others} has {memory_text(int(sizes.states[index]))} and memory_gib={memory_gib:g}; "
        "evaluate by sampling (sampled=4096 plays 4,096 mini-episodes on each level), leave such levels out, or "
        "raise memory_gib"
    )


def memory_text(states: int, private_settings: int = 1) -> str:
    """Return the size of levels with this many states, and settings of the private bits, in the words of a message."""
    gib = f"{private_settings * states * BYTES_PER_STATE / 2**30:,.1f} GiB"
    gib += f" under {private_settings:,} settings of the private bits" if private_settings > 1 else ""
    if states > MAX_STATES:
        return f"more than {MAX_STATES:,} reachable states (estimated), for which exact evaluation takes over {gib},"
    return f"up to {states:,} reachable states (estimated), for which exact evaluation takes {gib},"
