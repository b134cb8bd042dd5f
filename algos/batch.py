"""The data that algorithms learn from: N steps of M whole mini-episodes, or levels with their exact outcome.

Many steps are taken in the same state, above all where a group of slots plays the same level. A `Batch` therefore
stores each of the U distinct inputs of the policy once, and the networks run on those alone. A `LockstepBatch` holds
every slot in every tick instead: its shapes never change, and it can hold the mini-episodes of several agents. An
`ExactBatch` holds levels whose outcome is known in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.algos.generators import Generators
from drest_torch.algos.objectives.base import Objective
from drest_torch.reward import Reward


@dataclass(frozen=True)
class Batch:
    """The steps of whole mini-episodes, tick by tick (``blocks``)."""

    observation: Tensor
    """[U, *shape] distinct observations"""
    private_bits: Tensor | None
    """[U, n] the private bits that belong to each observation"""
    seen: Tensor
    """[N] index of the step's observation among the distinct ones"""
    action: Tensor
    """[N]"""
    log_prob: Tensor
    """[N] log-probability of the action when it was taken"""
    episode: Tensor
    """[N] index of the step's mini-episode"""
    ended: Tensor
    """[N] whether the mini-episode ended with the step"""
    blocks: list[int]
    """number of steps of each block; the steps of one block belong to different mini-episodes, and those of one
    mini-episode are in the order of play"""
    slots: int
    """number of slots; slot m % slots played mini-episode m in round m // slots"""
    group_size: int
    """number of neighbouring slots that play one level; minibatches consist of whole groups"""
    reward: Tensor
    """[M] reward of the mini-episode, paid at its end"""
    context: Tensor
    """[M, F] features of the meta-episode at the start of the mini-episode; for the critic alone"""

    played: Tensor | None = None
    """[N] whether the step was taken at all; None: all were"""
    agents: int = 1
    """A; the slots of the first agent come first, then those of the second, and so on, equally many for each"""
    advance: Tensor | None = None
    """[N] paid with the step, of the reward of its mini-episode; the rest is settled at the end. None: nothing is"""

    def __len__(self) -> int:
        return len(self.action)

    @property
    def steps(self) -> int:
        """Return the number of steps that were taken."""
        return len(self)

    @property
    def episodes(self) -> int:
        return len(self.reward)

    @property
    def num_groups(self) -> int:
        return self.slots // self.group_size

    def step_group(self) -> Tensor:
        """Return the group of slots of each step [N]."""
        return self.episode % self.slots // self.group_size

    def step_reward(self) -> Tensor:
        """Return the reward of each step [N]: its advance, and at the last step the rest of its mini-episode's."""
        if self.advance is None:
            return self.reward[self.episode] * self.ended
        paid = torch.zeros_like(self.reward).index_add_(0, self.episode, self.advance)
        return self.advance + (self.reward - paid)[self.episode] * self.ended

    def whole(self) -> Part:
        """Return all steps as one part."""
        return Part(
            steps=torch.arange(len(self), device=self.action.device),
            observation=self.observation,
            private_bits=self.private_bits,
            seen=self.seen,
            action=self.action,
            context=self._context(slice(None)),
        )

    def parts(self, count: int, rng: Generators) -> Iterator[Part]:
        """Yield ``count`` random parts of whole groups; skip parts that are empty."""
        groups = self.num_groups // self.agents
        first = torch.arange(self.agents, device=self.action.device).unsqueeze(-1) * groups
        order = rng.order(groups) + first
        for index in range(count):
            chosen = order[:, -(-index * groups // count) : -(-(index + 1) * groups // count)]
            if chosen.shape[1]:
                yield self.part(chosen)

    def part(self, groups: Tensor) -> Part:
        """Return the steps of these groups [A, g]."""
        chosen = torch.zeros(self.num_groups, dtype=torch.bool, device=groups.device)
        chosen[groups] = True
        steps = chosen[self.step_group()].nonzero().squeeze(-1)
        used = torch.zeros(len(self.observation), dtype=torch.bool, device=steps.device)
        used[self.seen[steps]] = True
        return Part(
            steps=steps,
            observation=self.observation[used],
            private_bits=None if self.private_bits is None else self.private_bits[used],
            seen=(used.cumsum(0) - 1)[self.seen[steps]],
            action=self.action[steps],
            context=self._context(steps),
        )

    def _context(self, steps: Tensor | slice) -> Tensor | None:
        return None if self.context.shape[1] == 0 else self.context[self.episode[steps]]


@dataclass(frozen=True)
class StepBatch(Batch):
    """A batch in which every step has its own observation; minibatches are steps drawn from all mini-episodes."""

    def parts(self, count: int, rng: Generators) -> Iterator[Part]:
        order = rng.order(len(self))[0]
        for index in range(count):
            steps = order[-(-index * len(self) // count) : -(-(index + 1) * len(self) // count)]
            if len(steps):
                yield self._at(steps)

    def whole(self) -> Part:
        return self._at(torch.arange(len(self), device=self.action.device))

    def _at(self, steps: Tensor) -> Part:
        return Part(
            steps=steps,
            observation=self.observation[steps],
            private_bits=None if self.private_bits is None else self.private_bits[steps],
            seen=None,
            action=self.action[steps],
            context=self._context(steps),
        )


@dataclass(frozen=True)
class LockstepBatch(Batch):
    """A batch in which every block holds all slots and every step has its own observation.

    A slot whose mini-episode has ended still has steps in the blocks that follow; ``played`` is False for these.
    """

    @property
    def steps(self) -> int:
        assert self.played is not None
        return int(self.played.sum())

    def whole(self) -> Part:
        return self.part(torch.arange(self.num_groups, device=self.action.device).reshape(self.agents, -1))

    def part(self, groups: Tensor) -> Part:
        assert self.played is not None
        slot = groups.unsqueeze(-1) * self.group_size + torch.arange(self.group_size, device=groups.device)
        first = torch.arange(0, len(self), self.slots, device=groups.device)
        steps = (first.unsqueeze(-1) + slot.reshape(self.agents, 1, -1)).flatten()
        return Part(
            steps=steps,
            observation=self.observation[steps],
            private_bits=None if self.private_bits is None else self.private_bits[steps],
            seen=None,
            action=self.action[steps],
            context=self._context(steps),
            played=self.played[steps],
            agents=self.agents,
        )


@dataclass(frozen=True)
class Part:
    """Some steps of a batch with their observations, agent by agent."""

    steps: Tensor
    """[n] indices into the batch"""
    observation: Tensor
    private_bits: Tensor | None
    seen: Tensor | None
    """[n] index of the step's observation; None: each step has its own"""
    action: Tensor
    context: Tensor | None
    played: Tensor | None = None
    """[n] whether the step was taken at all; None: all were"""
    agents: int = 1

    def evaluate(self, policy: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        """Return the log-probability of each step's action and the entropy of the policy at the step, both [n]."""
        outputs = policy(self.observation, self.private_bits)
        if (distribution := getattr(policy, "distribution", None)) is not None:
            outputs = outputs if self.seen is None else outputs[self.seen]
            return distribution.log_prob(outputs, self.action), distribution.entropy(outputs)
        log_probs = outputs.log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        if self.seen is None:
            return log_probs.gather(-1, self.action.unsqueeze(-1)).squeeze(-1), entropy
        flat = self.seen * log_probs.shape[-1] + self.action
        return log_probs.reshape(-1)[flat], entropy[self.seen]

    def value(self, critic: Callable[..., Tensor]) -> Tensor:
        """Return the critic's value of each step's state [n]."""
        if self.context is None or self.seen is None:
            values = critic(self.observation, self.private_bits, self.context)
            return values if self.seen is None else values[self.seen]
        return critic(self.observation, self.private_bits, self.context, self.seen)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean [A] of [n] numbers over the steps of each agent."""
        value = value.reshape(self.agents, -1)
        if self.played is None:
            return value.mean(-1)
        played = self.played.reshape(self.agents, -1)
        return (value * played).sum(-1) / played.sum(-1).clamp_min(1)

    def spread(self, value: Tensor) -> Tensor:
        """Return the standard deviation [A] of [n] numbers over the steps of each agent."""
        if self.played is None:
            return value.reshape(self.agents, -1).std(-1)
        played = self.played.reshape(self.agents, -1)
        squares = (value - self.each(self.mean(value))).square().reshape(self.agents, -1)
        return ((squares * played).sum(-1) / (played.sum(-1) - 1).clamp_min(1)).sqrt()

    def each(self, of_agent: Tensor) -> Tensor:
        """Return for each step the number of its agent: [n] from [A]."""
        return of_agent.repeat_interleave(len(self.steps) // self.agents, output_size=len(self.steps))


@dataclass(frozen=True)
class ExactBatch:
    """Levels whose outcome is a function of the action probabilities at their N reachable states."""

    states: int
    """N"""
    explore: Callable[[Callable[[Tensor], Tensor], float], tuple[Tensor, Tensor]]
    """a policy (observations → logits) and a probability p → indices [V] of the states that the policy reaches with a
    probability above p, and its logits there [V, A]"""
    everywhere: Callable[[Callable[[Tensor], Tensor]], Tensor]
    """a policy → its logits in all states [N, A]"""
    observe: Callable[[Tensor], Tensor]
    """indices of states [n] → their observations [n, *shape]"""
    outcome: Callable[[Tensor], tuple[Tensor, Tensor]]
    """action probabilities [Z, N, A] under Z equally likely settings of the private bits → P(L = l), and
    P(L = l) · E[C | L = l], each [B, K]"""
    by_lottery: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
    """the same → how often each lottery of a level is entered [Z, C, B], and its P(L = l) and E[C | L = l] [C, B, K]"""
    divergence: Callable[[Tensor, str], Tensor]
    """the same, and a reference → the divergence of trajectories from it [B], the mean over private bits"""
    visits: Callable[[Tensor], Tensor]
    """action probabilities [N, A] → the probability that a mini-episode reaches each state [N]"""
    best_return: Tensor
    """[B, K] m(l)"""
    num_lengths: Tensor
    """[B] k"""
    by_luck: Tensor
    """[B] whether anything in the level depends on luck"""
    reward: Reward
    """the rule that pays mini-episodes"""
    objective: Objective
    """what the policy is trained to make large"""


def sample(logits: Tensor, uniform: Tensor) -> Tensor:
    """Sample one action per row: the largest logit after adding Gumbel noise, computed from ``uniform`` in [0, 1)."""
    return (logits - (-uniform.clamp_min(1e-20).log()).log()).argmax(-1)
