"""Gradient ascent on an objective in closed form, without sampling error; by default, the expected DReST return.

With ``credit=meta`` it ascends the expected return of the meta-episode. With ``credit=mini`` it follows the expectation
of the sampled gradient with mini-episode credit, which treats the discounts D(P(L=l)) as constants:

    ∇ Σ_l P(L=l) · E[C | L=l] / m(l) · D(P(L=l)),   D held fixed.

A policy with private bits is trained on the mean over all settings of the bits.

An update has three stages. First the network runs on the states that the policy reaches with more than a small
probability. A network that reads maps encodes each of their maps once; if the batch has few states, or if the
probability is 0, it runs on all states, because one large pass is faster than many small ones. Then the gradient with
respect to the logits is computed. Only states that contribute to it are backpropagated through the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from drest_torch.algos.base import (
    Effort,
    Need,
    NetworkAlgorithm,
    NetworkConfig,
    Source,
    divergence,
    model_needs,
)
from drest_torch.algos.networks.policy import private_settings, weights_unchanged
from drest_torch.algos.networks.precision import computing, widened
from drest_torch.algos.networks.regularization import sub_network
from drest_torch.limits import limited
from drest_torch.reward import Reward

STATES_AT_ONCE = 4096
"""The states in one forward pass, which fit into the caches of a processor."""
FEW_STATES = 16_384
"""The largest batch in which a network that reads maps runs on all states. Time of an update on 64 levels and one core,
on all states and on reached states: 0.10 s and 0.11 s with 8,000 states, 0.30 s and 0.24 s with 27,000, 0.92 s and
0.48 s with 86,000."""


@dataclass
class BatchConfig(NetworkConfig):
    """The settings of every algorithm that learns from levels with all of their states."""

    levels_at_once: int = limited(at_least=1, default=64)
    """Largest number of levels in one update."""
    ignored_gradient_share: float = limited(at_least=0, default=1e-05)
    """Share of the squared gradient that may be ignored, in states with little influence; larger is faster."""
    counted_steps: int = limited(at_least=1, default=4096)
    """Nominal `env_steps` of one update, which pace schedules and evaluations. These are not environment steps, as
    nothing is played. The cost of training is reported as updates x levels, with the rows on which the network ran."""


@dataclass
class Config(BatchConfig):
    """The settings of exact training."""

    min_visit_probability: float = limited(at_least=0, default=0.0)
    """Play is assumed to be uniform from states that are reached with at most this probability; larger is faster. In
    batches of at most 16,384 states, networks that read maps run on all states."""


class Exact(NetworkAlgorithm):
    """Exact gradient ascent on levels that are unrolled into their reachable states.

    A batch is a `drest_torch.tasks.exact_batch.ExactBatch`. With dropout an update follows the exact gradient of one
    sub-network, whose outcome the metrics describe.
    """

    drops_units = True

    batches: Any
    """The source of training batches: `drest_torch.tasks.exact_batch.ExactBatches`."""

    def __init__(self, policy: Any, *others: Any, **how: Any) -> None:
        super().__init__(policy, *others, **how)
        self.all_private_bits = private_settings(policy.private_bits).to(next(policy.parameters()).device)
        self.forward_rows = self.backward_rows = 0
        """The rows of observations in the forward and backward passes of the last update."""

    @classmethod
    def on(cls, task: Source, config: Any, rng: torch.Generator) -> Exact:
        policy, _ = task.networks()
        algorithm = cls(policy, None, config, rng, precision=task.precision)
        algorithm.batches = task.exact_batches()
        algorithm.levels_per_update = algorithm.batches.levels_per_update
        return algorithm

    @classmethod
    def needs(cls, cfg: Any, objective: Any) -> Iterator[Need]:
        yield from model_needs(cfg)

    def update(self, reward: Reward) -> dict[str, Any]:
        batch = self.batches.sample(reward)
        with sub_network(self.policy, self.rng):
            metrics = self.ascend(batch)
        self.effort = Effort(self.config.counted_steps, 0, self.forward_rows, self.backward_rows)
        return metrics

    def ascend(self, batch: Any) -> dict[str, Any]:
        """Take one step of gradient descent on the loss of a batch of levels."""
        self.forward_rows = 0
        visited, logits = self.explore(batch)
        loss, metrics = self.loss(batch, visited, logits.requires_grad_())
        (gradient,) = torch.autograd.grad(loss, logits)
        states = significant_rows(gradient, self.config.ignored_gradient_share)
        self.forward_rows += len(states)
        self.backward_rows = len(states)
        setting, state = visited[states] // batch.states, visited[states] % batch.states
        significant = self.logits(batch.observe(state), self.all_private_bits[setting])
        norm = self.descend((significant * gradient[states]).sum())
        total = len(self.all_private_bits) * batch.states
        return {
            **metrics,
            "optim/grad_norm": norm,
            "optim/states_visited": gradient.new_tensor(len(visited) / total),
            "optim/states_learned_from": gradient.new_tensor(len(states) / total),
        }

    def loss(self, batch: Any, visited: Tensor, logits: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """Return the loss of a batch and its metrics, from the logits [V, A] in the states of `explore` [V]."""
        log_probs = logits.log_softmax(-1)
        probabilities = log_probs.exp()
        uniform = probabilities.new_full(
            (len(self.all_private_bits) * batch.states, logits.shape[-1]), 1 / logits.shape[-1]
        )
        everywhere = uniform.index_put((visited,), probabilities).unflatten(0, (len(self.all_private_bits), -1))
        # As in a batch of sampled steps, each state is weighted by its probability, held constant.
        visits = torch.cat([batch.visits(table) for table in everywhere.detach()])[visited]
        entropy = (visits * -(probabilities * log_probs).sum(-1)).sum() / visits.sum()
        objective = self.objective(batch, everywhere).mean()
        metrics = {
            "loss/objective": objective.detach(),
            **batch.objective.metrics(),
            "policy/entropy": entropy.detach(),
        }
        loss = -objective - self.entropy_coeff * entropy
        if self.anchor is not None:
            reference, weight = self.anchor
            apart = divergence(logits, self.logits_of(reference, batch, visited))
            loss = loss + weight * (visits * apart).sum() / visits.sum()
        return loss, metrics

    @torch.no_grad()
    def logits_of(self, policy: Any, batch: Any, visited: Tensor) -> Tensor:
        """Return the logits [V, A] of another policy in the states of `explore` [V]."""
        parts = []
        for states in visited.split(STATES_AT_ONCE):
            private_bits = self.all_private_bits[states // batch.states]
            parts.append(policy(batch.observe(states % batch.states), private_bits).float())
        return torch.cat(parts)

    def logits(self, observation: Tensor, private_bits: Tensor) -> Tensor:
        """Return the logits of the policy, computed in its precision, as float32."""
        with computing(self.precision, observation.device):
            logits: Tensor = self.policy(observation, private_bits)
        return widened(logits)

    @torch.no_grad()
    def explore(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Return the states that the policy reaches [V] and its logits there [V, A].

        The states are indices into the N states under the first setting of the private bits, then the N states under
        the second, and so on.
        """
        count = len(self.all_private_bits)
        rarely = self.config.min_visit_probability
        if self.policy.reads_maps and (rarely == 0 or batch.states <= FEW_STATES):
            return self.everywhere(batch)
        with weights_unchanged(self.policy):
            parts = [batch.explore(partial(self._logits, setting=index), rarely) for index in range(count)]
        visited = [index * batch.states + states for index, (states, _) in enumerate(parts)]
        return torch.cat(visited), torch.cat([logits for _, logits in parts])

    @torch.no_grad()
    def everywhere(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Return all states as `explore` does [Z · N], and the logits of the policy there [Z · N, A]."""
        logits = batch.everywhere(self._under_all_settings).unflatten(-1, (len(self.all_private_bits), -1))  # [N, Z, A]
        logits = logits.movedim(1, 0).flatten(0, 1)  # [Z · N, A]
        return torch.arange(len(logits), device=logits.device), logits

    def _logits(self, observation: Tensor, setting: int) -> Tensor:
        private_bits = self.all_private_bits[setting]
        self.forward_rows += len(observation)
        parts = observation.split(STATES_AT_ONCE)
        return torch.cat([self.logits(part, private_bits.expand(len(part), -1)) for part in parts])

    def _under_all_settings(self, observation: Tensor) -> Tensor:
        """Return the logits [n, Z · A] under all Z settings of the private bits."""
        repeated = (
            observation.repeat_interleave(len(self.all_private_bits), 0),
            self.all_private_bits.repeat(len(observation), 1),
        )
        self.forward_rows += len(repeated[0])
        return self.logits(*repeated).reshape(len(observation), -1)

    def objective(self, batch: Any, probabilities: Tensor) -> Tensor:
        """Return the value of the batch's objective in each level [B] for action probabilities [Z, N, A]."""
        return batch.objective.value(batch.policy_outcome(probabilities, self.config.credit))


def significant_rows(gradient: Tensor, ignored_gradient_share: float) -> Tensor:
    """Return the fewest rows of a gradient [N, A] that hold all but ``ignored_gradient_share`` of its squared norm."""
    squared, order = gradient.double().square().sum(-1).sort()
    is_significant = squared.cumsum(0) > ignored_gradient_share * squared.sum()
    return order[is_significant.nonzero().squeeze(-1)].sort().values


Algorithm = Exact
