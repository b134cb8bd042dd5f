"""What a policy does on a level set, exactly: every number that a run reports comes from here.

Or from `drest_torch.evaluation.sampled`, where exact evaluation would take more memory than it may and the user has
chosen so.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algos.networks.policy import Policy, settings
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import Reward
from envs.dynamics.mdp import Mdp, compile_levels
from envs.dynamics.observations import Observation, make_observation
from envs.exact.layers import MAX_STATES
from envs.exact.propagator import Lengths, Reachable, States, mixture, uniform_policy
from envs.exact.solver import check_searchable, solve
from envs.exact.state_count import Size, estimate_size, parts
from envs.levels import Level, LevelError

STATES_AT_ONCE = 8192
"""The network is asked for so many states at a time, which fit into the caches of a processor."""
MOST_SHOWN = 4
"""What a policy does is shown under each setting of its noise if these are not more."""
NOISE_SEED = 0
"""Noise that is averaged over by draws is the same in every evaluation."""
NUMBERS_AT_ONCE = 1 << 25
"""Observations of large maps are shown to a policy in parts that have no more numbers than this."""
BYTES_PER_STATE = 640
"""Memory that exact evaluation takes for each reachable state: 610 measured with 0.4 and 2.4 million of them."""


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
    expected_drest: Tensor

    def means(self) -> dict[str, float]:
        """One number for each metric: the mean over levels."""
        means = {
            "usefulness": self.usefulness.mean().item(),
            "neutrality": self.neutrality.mean().item(),
            "neutrality_normalised": self.neutrality_normalised.mean().item(),
            "return/expected_drest": self.expected_drest.mean().item(),
        }
        if len(self.names) == 1:
            for length, probability in self.length_probabilities(0).items():
                means[f"p_length/{length}"] = probability
        return means

    def length_probabilities(self, index: int) -> dict[int, float]:
        count = int(self.num_lengths[index])
        lengths, probabilities = self.lengths[index, :count], self.found.probability[index, :count]
        return dict(zip(lengths.tolist(), probabilities.tolist(), strict=True))

    def records(self) -> list[dict[str, Any]]:
        """One JSON object for each level."""
        return [
            {
                "name": name,
                "usefulness": self.usefulness[i].item(),
                "neutrality": self.neutrality[i].item(),
                "neutrality_normalised": self.neutrality_normalised[i].item(),
                "length_probabilities": {str(length): p for length, p in self.length_probabilities(i).items()},
                "expected_drest": self.expected_drest[i].item(),
            }
            for i, name in enumerate(self.names)
        ]


class Prepared(ABC):
    """A level set made ready to evaluate policies on, as they see it in training.

    ``at_least`` is the map size that the policy was built for: smaller maps are padded to it. Exact evaluation takes at
    most ``memory_gib``: levels that cannot be evaluated so are refused before any of their states is unrolled.
    """

    exact = True

    def __init__(
        self,
        levels: Sequence[Level],
        observation: str,
        *,
        reward: Reward,
        at_least: tuple[int, int] = (1, 1),
        noise_kind: str = "bits",
        noise_draws: int = 16,
        memory_gib: float = math.inf,
        device: torch.device | str = "cpu",
    ) -> None:
        self.levels = list(levels)
        self.mdp = compile_levels(levels, device, at_least=at_least)
        self.sizes = estimate_size(self.mdp)
        self.most_states = memory_gib * 2**30 / BYTES_PER_STATE
        check_size(self.mdp, self.sizes, memory_gib if self.exact else None)
        self.observe = make_observation(observation, self.mdp)
        self.optima = solve(self.mdp, reward.gamma)
        self.reward, self.noise_kind, self.noise_draws = reward, noise_kind, noise_draws

    @abstractmethod
    def evaluate(self, policy: Policy, *, greedy: bool = False) -> Evaluation:
        """The metrics; with private noise, of what the policy does on average over it."""

    @abstractmethod
    def evaluate_uniform(self) -> Evaluation: ...

    def unrolled(self, levels: range) -> Reachable:
        """The reachable states of some of the levels."""
        return Reachable(self.mdp, levels)

    def room_for(self, most: int) -> range:
        """The first levels, so many at most, that can be unrolled at once."""
        fit = (self.sizes.states[:most].cumsum(0) <= self.most_states).sum()
        return range(int(fit))

    @torch.no_grad()
    def probabilities(self, policy: Policy, reachable: Reachable | None = None, *, greedy: bool = False) -> Tensor:
        """[N, 4] action probabilities in reachable states (all by default).

        With private noise, how often each action is taken there: settings under which the policy comes to a state more
        often count for more. Without memory of its own, a policy that acts so does the same on average.
        """
        reachable = self.unrolled(range(len(self.levels))) if reachable is None else reachable
        return _average(reachable, list(self._under_noise(policy, reachable, greedy)))

    @torch.no_grad()
    def to_show(self, policy: Policy, reachable: Reachable | None = None, *, greedy: bool = False) -> dict[str, Tensor]:
        """As `probabilities`, under each setting of private noise by its name, if these are few; otherwise, and without
        noise, under the name ``""``."""
        reachable = self.unrolled(range(len(self.levels))) if reachable is None else reachable
        each = list(self._under_noise(policy, reachable, greedy))
        if not 1 < len(each) <= MOST_SHOWN:
            return {"": _average(reachable, each)}
        if self.noise_kind == "bits":
            names = [", ".join("heads" if bit else "tails" for bit in setting) for setting in settings(policy.noise)]
        else:
            names = [f"draw {index}" for index in range(1, 1 + len(each))]
        return dict(zip(names, each, strict=True))

    def _under_noise(self, policy: Policy, reachable: Reachable, greedy: bool) -> Iterator[Tensor]:
        for noise in self._noises(policy.noise):
            yield self._probabilities(policy, reachable, noise, greedy)

    def metrics(self, found: Lengths) -> Evaluation:
        best = self.optima.best_return
        k = self.optima.num_lengths
        preliminary = found.probability * self.reward.preliminary(found.coins, best)
        return Evaluation(
            names=[level.name for level in self.levels],
            lengths=self.optima.lengths,
            num_lengths=k,
            found=found,
            usefulness=usefulness(found.probability, found.coins, best),
            neutrality=neutrality(found.probability),
            neutrality_normalised=neutrality_normalised(found.probability, k),
            expected_drest=self.reward.expected_return(found.probability, preliminary, k),
        )

    @torch.no_grad()
    def _probabilities(self, policy: Policy, reachable: Reachable, noise: Tensor | None, greedy: bool) -> Tensor:
        states, index = reachable.distinct(see_time=self.observe.see_time)

        def act(seen: Tensor) -> Tensor:
            return policy(seen, None if noise is None else noise.expand(len(seen), -1))

        logits = ask(act, self.observe, states, self.at_once(STATES_AT_ONCE)).double()
        if greedy:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()[index]
        return logits.softmax(-1)[index]

    def at_once(self, most: int) -> int:
        """How many observations, ``most`` at most, are made at once."""
        return min(most, max(1, NUMBERS_AT_ONCE // math.prod(self.observe.shape)))

    def _noises(self, count: int) -> list[Tensor | None]:
        """Every setting of the noise bits, or so many draws of uniform noise."""
        if count == 0:
            return [None]
        if self.noise_kind == "bits":
            return list(settings(count).to(self.mdp.device))
        generator = torch.Generator().manual_seed(NOISE_SEED)
        drawn = torch.rand(self.noise_draws, count, generator=generator)
        return [row.to(self.mdp.device) for row in drawn]


class Evaluator(Prepared):
    """Evaluates exactly: a set that needs more than ``memory_gib`` part after part, with the same result."""

    def __init__(self, levels: Sequence[Level], observation: str, **values: Any) -> None:
        super().__init__(levels, observation, **values)
        self._parts = parts(self.mdp, self.sizes.states, self.most_states)
        self._kept: Reachable | None = None
        if len(self._parts) == 1:
            self._kept = self.unrolled(self._parts[0])

    def evaluate(self, policy: Policy, *, greedy: bool = False) -> Evaluation:
        def found_in(reachable: Reachable) -> Lengths:
            under_noise = self._under_noise(policy, reachable, greedy)
            return mixture([reachable.arrivals(each, self.reward.gamma) for each in under_noise]).lengths()

        return self.metrics(self._part_by_part(found_in))

    def evaluate_uniform(self) -> Evaluation:
        return self.metrics(self._part_by_part(lambda reachable: reachable.evaluate(uniform_policy, self.reward.gamma)))

    def unrolled(self, levels: range) -> Reachable:
        if self._kept is not None and len(levels) == len(self.levels):
            return self._kept
        return super().unrolled(levels)

    def _part_by_part(self, found_in: Callable[[Reachable], Lengths]) -> Lengths:
        found = [found_in(self.unrolled(levels)) for levels in self._parts]

        def joined(tables: Sequence[Tensor]) -> Tensor:
            columns = self.optima.lengths.shape[1]
            return torch.cat([torch.nn.functional.pad(each, (0, columns - each.shape[1])) for each in tables])

        return Lengths(joined([each.probability for each in found]), joined([each.coins for each in found]))


def _average(reachable: Reachable, each: list[Tensor]) -> Tensor:
    """[N, 4] how often each action is taken by policies that are chosen among at random."""
    if len(each) == 1:
        return each[0]
    visits = torch.stack([reachable.visits(one) for one in each]).unsqueeze(-1)
    weights = torch.where(visits.sum(0) > 0, visits, 1)
    return (weights * torch.stack(each)).sum(0) / weights.sum(0)


def check_size(mdp: Mdp, sizes: Size, memory_gib: float | None) -> None:
    """Refuse levels that cannot be evaluated, exactly within so much memory or (None) by sampling."""
    if memory_gib is None:
        check_searchable(mdp, sizes.states)
        return
    too_large = (sizes.states * BYTES_PER_STATE > memory_gib * 2**30).nonzero().squeeze(-1)
    if not len(too_large):
        return
    index = int(sizes.states.argmax())
    others = f" (the largest of {len(too_large):,} levels that are too large)" if len(too_large) > 1 else ""
    raise LevelError(
        f"{mdp.levels[index].place}{others} has {needed(int(sizes.states[index]))} and memory_gib={memory_gib:g}; "
        "evaluate by sampling (sampled=4096 plays so many mini-episodes on each level), leave such levels out, or "
        "raise memory_gib"
    )


def check_at_once(mdp: Mdp, at_once: int, memory_gib: float, settings: int = 1) -> None:
    """Refuse a set of which so many levels at once are too large to be learned from exactly, under so many settings of
    private noise."""
    most = memory_gib * 2**30 / BYTES_PER_STATE / settings
    if at_once * ((mdp.num_cells * mdp.max_time) << mdp.num_objects) <= most:
        return
    states, index = estimate_size(mdp).states.topk(min(at_once, mdp.num_levels))
    if (total := int(states.sum())) > most:
        raise LevelError(
            f"{mdp.levels[int(index[0])].place} and what is learned from with it, {len(index):,} levels at most, has "
            f"{needed(total, settings)} and memory_gib={memory_gib:g}; exact gradients cannot be sampled, so learn "
            "from fewer levels at once (algo.levels_at_once), from mini-episodes that are played (algo=ppo), or raise "
            "memory_gib"
        )


def needed(states: int, settings: int = 1) -> str:
    """How large levels with so many states are, as a message puts it, under so many settings of private noise."""
    gib = f"{settings * states * BYTES_PER_STATE / 2**30:,.1f} GiB"
    gib += f" under {settings:,} settings of private noise" if settings > 1 else ""
    if states > MAX_STATES:
        return f"more than {MAX_STATES:,} reachable states (estimated), for which exact evaluation takes over {gib},"
    return f"up to {states:,} reachable states (estimated), for which exact evaluation takes {gib},"


def observe(observation: Callable[[Tensor, Tensor, Tensor], Tensor], states: States) -> Tensor:
    return observation(states.spot, states.taken, states.time_left)


def ask(act: Callable[[Tensor], Tensor], see: Observation, states: States, at_once: int) -> Tensor:
    """[N, …] what a policy says in states, so many at once: one level after the other, so that a network that reads
    maps is given the states of a map together."""
    order = states.spot.sort(stable=True).indices
    said = torch.cat([act(observe(see, states[part])) for part in order.split(at_once)])
    return torch.empty_like(said).index_copy_(0, order, said)
