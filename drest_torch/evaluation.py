"""What a policy does on a level set, exactly: every number that a run reports comes from here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algos.batch import ExactBatch
from algos.networks import Policy
from drest_torch.metrics import neutrality, neutrality_normalised, usefulness
from drest_torch.reward import expected_return
from drest_torch.source import Source
from envs.levels import Level
from envs.mdp import compile_levels
from envs.observations import make_observation
from envs.propagator import Lengths, Reachable, States, uniform_policy
from envs.solver import solve

NOISE_KINDS = ("bits", "uniform")
MAX_NOISE_BITS = 10
"""Evaluation goes through all 2^n settings of n bits."""
STATES_AT_ONCE = 8192
"""The network is asked for so many states at a time, which fit into the caches of a processor."""
NOISE_SEED = 0
"""Noise that is averaged over by draws is the same in every evaluation."""


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


class Evaluator:
    """A level set made ready to evaluate policies on, as they see it in training.

    ``at_least`` is the map size that the policy was built for: smaller maps are padded to it.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        observation: str,
        *,
        gamma: float,
        lam: float,
        episodes_per_meta: int,
        divide_by_best: bool = True,
        at_least: tuple[int, int] = (1, 1),
        noise_kind: str = "bits",
        noise_draws: int = 16,
        device: torch.device | str = "cpu",
    ) -> None:
        self.levels = list(levels)
        self.mdp = compile_levels(levels, device, at_least=at_least)
        self.observe = make_observation(observation, self.mdp)
        self.optima = solve(self.mdp, gamma)
        self.reachable = Reachable(self.mdp)
        self.gamma, self.lam, self.episodes_per_meta = gamma, lam, episodes_per_meta
        self.divide_by_best, self.noise_kind, self.noise_draws = divide_by_best, noise_kind, noise_draws

    def evaluate(self, policy: Policy, *, greedy: bool = False) -> Evaluation:
        """Exact metrics; with private noise, of what the policy does on average over it."""
        noises = self._noises(policy.noise)
        found = [self.reachable.propagate(self._probabilities(policy, noise, greedy), self.gamma) for noise in noises]
        if len(found) == 1:
            return self.metrics(found[0])
        # Averaging is right for P(L = l) and for P(L = l) · E[C | L = l].
        probability = torch.stack([each.probability for each in found]).mean(0)
        there = torch.stack([each.probability * each.coins for each in found]).mean(0)
        coins = torch.where(probability > 0, there / probability.clamp_min(torch.finfo(there.dtype).tiny), 0)
        return self.metrics(Lengths(probability, coins))

    def evaluate_uniform(self) -> Evaluation:
        return self.metrics(self.reachable.evaluate(uniform_policy, self.gamma))

    def metrics(self, found: Lengths) -> Evaluation:
        best = self.optima.best_return
        k = self.optima.num_lengths
        expected = expected_return(
            found.probability, found.coins, best if self.divide_by_best else None, k, self.episodes_per_meta, self.lam
        )
        return Evaluation(
            names=[level.name for level in self.levels],
            lengths=self.optima.lengths,
            num_lengths=k,
            found=found,
            usefulness=usefulness(found.probability, found.coins, best),
            neutrality=neutrality(found.probability),
            neutrality_normalised=neutrality_normalised(found.probability, k),
            expected_drest=expected,
        )

    @torch.no_grad()
    def probabilities(self, policy: Policy, *, greedy: bool = False) -> Tensor:
        """[N, 4] action probabilities in the reachable states, averaged over the policy's noise."""
        noises = self._noises(policy.noise)
        return torch.stack([self._probabilities(policy, noise, greedy) for noise in noises]).mean(0)

    @torch.no_grad()
    def _probabilities(self, policy: Policy, noise: Tensor | None, greedy: bool) -> Tensor:
        states, index = self.reachable.distinct(see_time=self.observe.see_time)
        parts = []
        for at in range(0, len(states), STATES_AT_ONCE):
            part = states[at : at + STATES_AT_ONCE]
            given = None if noise is None else noise.expand(len(part), -1)
            parts.append(policy(observe(self.observe, part), given))
        logits = torch.cat(parts).double()
        if greedy:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()[index]
        return logits.softmax(-1)[index]

    def _noises(self, count: int) -> list[Tensor | None]:
        """Every setting of the noise bits, or so many draws of uniform noise."""
        if count == 0:
            return [None]
        if self.noise_kind == "bits":
            bits = torch.arange(1 << count).unsqueeze(-1) >> torch.arange(count) & 1
            return [row.float().to(self.mdp.device) for row in bits]
        generator = torch.Generator().manual_seed(NOISE_SEED)
        drawn = torch.rand(self.noise_draws, count, generator=generator)
        return [row.to(self.mdp.device) for row in drawn]


def observe(observation: Callable[[Tensor, Tensor, Tensor], Tensor], states: States) -> Tensor:
    return observation(states.spot, states.taken, states.time_left)


class ExactLevels:
    """Levels as exact batches: what the `exact` algorithm climbs on, so many at once."""

    def __init__(
        self,
        source: Source,
        observation: str,
        *,
        gamma: float,
        at_once: int,
        at_least: tuple[int, int],
        by_chance: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        self.source, self.observation, self.gamma = source, observation, gamma
        self.at_least, self.by_chance, self.device = at_least, by_chance, device
        self.at_once = at_once
        is_whole = not source.changes and at_once >= len(source.levels)
        self._whole = self._batch(source.levels) if is_whole else None

    def draw(self) -> ExactBatch:
        return self._whole or self._batch(self.source.draw(self.at_once))

    def _batch(self, levels: Sequence[Level]) -> ExactBatch:
        mdp = compile_levels(levels, self.device, at_least=self.at_least, by_chance=self.by_chance)
        reachable, optima = Reachable(mdp), solve(mdp, self.gamma)
        see = make_observation(self.observation, mdp)

        def explore(policy: Callable[[Tensor], Tensor], rarely: float) -> tuple[Tensor, Tensor]:
            return reachable.explore(lambda states: policy(observe(see, states)), rarely)

        def outcome(probabilities: Tensor) -> tuple[Tensor, Tensor]:
            found = reachable.propagate(probabilities, self.gamma)
            return found.probability, found.coins

        return ExactBatch(
            states=len(reachable),
            explore=explore,
            observe=lambda index: observe(see, reachable.states[index]),
            outcome=outcome,
            visits=reachable.visits,
            best_return=optima.best_return,
            num_lengths=optima.num_lengths,
        )
