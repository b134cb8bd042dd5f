"""What an algorithm learns from: whole mini-episodes, N steps of M of them.

Many steps are taken in the same state, above all where a group of slots plays the same level. A `Batch` holds
observations once for each of the U distinct inputs of the policy, and the networks run on those alone. A
`LockstepBatch` has every slot in every tick instead, in shapes that never change, and can hold the mini-episodes of
several agents. An `ExactBatch` is levels whose outcome is known in closed form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from algos.generators import Draws
from drest_torch.reward import Reward


@dataclass(frozen=True)
class Batch:
    """Steps stand in the order they were played: tick by tick, round by round (``blocks``)."""

    observation: Tensor
    """[U, *shape] distinct observations"""
    noise: Tensor | None
    """[U, n] the policy's private noise there"""
    seen: Tensor
    """[N] index among the distinct observations"""
    action: Tensor
    """[N]"""
    log_prob: Tensor
    """[N] of the action when it was taken"""
    episode: Tensor
    """[N] the step's mini-episode"""
    ended: Tensor
    """[N] whether the mini-episode ended with it"""
    blocks: list[int]
    """number of steps of each block; the steps of one block belong to different slots"""
    slots: int
    """mini-episode m was played by slot m % slots in round m // slots"""
    group_size: int
    """so many slots beside each other play one level; minibatches are made of whole groups"""
    reward: Tensor
    """[M] paid for the mini-episode, at its end"""
    context: Tensor
    """[M, F] what is known of the meta-episode when the mini-episode starts; for the critic alone"""

    played: Tensor | None = None
    """[N] whether the step was taken at all; None: all were"""
    agents: int = 1
    """A; slots and groups are the agents' in turn, equally many each"""

    def __len__(self) -> int:
        return len(self.action)

    @property
    def steps(self) -> int:
        """Steps that were taken."""
        return len(self)

    @property
    def episodes(self) -> int:
        return len(self.reward)

    @property
    def num_groups(self) -> int:
        return self.slots // self.group_size

    def step_group(self) -> Tensor:
        """[N] the group of slots that each step belongs to."""
        return self.episode % self.slots // self.group_size

    def step_reward(self) -> Tensor:
        """[N] rewards where they are paid."""
        return self.reward[self.episode] * self.ended

    def whole(self) -> Part:
        return Part(
            steps=torch.arange(len(self), device=self.action.device),
            observation=self.observation,
            noise=self.noise,
            seen=self.seen,
            action=self.action,
            context=self._context(slice(None)),
        )

    def parts(self, count: int, draws: Draws) -> Iterator[Part]:
        """Split it by its groups into so many random parts; what is empty is left out."""
        groups = self.num_groups // self.agents
        first = torch.arange(self.agents, device=self.action.device).unsqueeze(-1) * groups
        order = draws.order(groups) + first
        for index in range(count):
            chosen = order[:, -(-index * groups // count) : -(-(index + 1) * groups // count)]
            if chosen.shape[1]:
                yield self.part(chosen)

    def part(self, groups: Tensor) -> Part:
        """The steps of these groups [A, g]."""
        chosen = torch.zeros(self.num_groups, dtype=torch.bool, device=groups.device)
        chosen[groups] = True
        steps = chosen[self.step_group()].nonzero().squeeze(-1)
        met = torch.zeros(len(self.observation), dtype=torch.bool, device=steps.device)
        met[self.seen[steps]] = True
        return Part(
            steps=steps,
            observation=self.observation[met],
            noise=None if self.noise is None else self.noise[met],
            seen=(met.cumsum(0) - 1)[self.seen[steps]],
            action=self.action[steps],
            context=self._context(steps),
        )

    def _context(self, steps: Tensor | slice) -> Tensor | None:
        return None if self.context.shape[1] == 0 else self.context[self.episode[steps]]


@dataclass(frozen=True)
class LockstepBatch(Batch):
    """Blocks are of all slots, and every step has an observation of its own; of some it is known that they were not
    ``played``, because the slot's mini-episode had ended before."""

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
            noise=None if self.noise is None else self.noise[steps],
            seen=None,
            action=self.action[steps],
            context=self._context(steps),
            played=self.played[steps],
            agents=self.agents,
        )


@dataclass(frozen=True)
class Part:
    """Some of the steps of a batch, with the observations they were taken at; those of one agent stand together."""

    steps: Tensor
    """[n] indices into the batch"""
    observation: Tensor
    noise: Tensor | None
    seen: Tensor | None
    """[n] index among the observations; None: each step has its own"""
    action: Tensor
    context: Tensor | None
    played: Tensor | None = None
    """[n] as in the batch"""
    agents: int = 1

    def evaluate(self, policy: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probability of each step's action, and the policy's entropy there, both [n]."""
        log_probs = policy(self.observation, self.noise).log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        if self.seen is None:
            return log_probs.gather(-1, self.action.unsqueeze(-1)).squeeze(-1), entropy
        flat = self.seen * log_probs.shape[-1] + self.action
        return log_probs.reshape(-1)[flat], entropy[self.seen]

    def value(self, critic: Callable[..., Tensor]) -> Tensor:
        """The critic's value of each step's state [n]."""
        if self.context is None or self.seen is None:
            found = critic(self.observation, self.noise, self.context)
            return found if self.seen is None else found[self.seen]
        noise = None if self.noise is None else self.noise[self.seen]
        return critic(self.observation[self.seen], noise, self.context)

    def mean(self, value: Tensor) -> Tensor:
        """[A] mean of [n] numbers over each agent's steps."""
        value = value.reshape(self.agents, -1)
        if self.played is None:
            return value.mean(-1)
        played = self.played.reshape(self.agents, -1)
        return (value * played).sum(-1) / played.sum(-1).clamp_min(1)

    def spread(self, value: Tensor) -> Tensor:
        """[A] standard deviation of [n] numbers over each agent's steps."""
        if self.played is None:
            return value.reshape(self.agents, -1).std(-1)
        played = self.played.reshape(self.agents, -1)
        squares = (value - self.each(self.mean(value))).square().reshape(self.agents, -1)
        return ((squares * played).sum(-1) / (played.sum(-1) - 1).clamp_min(1)).sqrt()

    def each(self, of_agent: Tensor) -> Tensor:
        """[n] for each step the number of its agent, given [A]."""
        return of_agent.repeat_interleave(len(self.steps) // self.agents, output_size=len(self.steps))


@dataclass(frozen=True)
class ExactBatch:
    """Levels whose outcome is a function of the action probabilities at their N reachable states."""

    states: int
    """N"""
    explore: Callable[[Callable[[Tensor], Tensor], float], tuple[Tensor, Tensor]]
    """a policy (observations → logits) and a probability → indices [V] of the states that the policy comes to with
    more than this probability, and its logits there [V, A]"""
    everywhere: Callable[[Callable[[Tensor], Tensor]], Tensor]
    """a policy → its logits in all states [N, A]"""
    observe: Callable[[Tensor], Tensor]
    """indices of states [n] → their observations [n, *shape]"""
    outcome: Callable[[Tensor], tuple[Tensor, Tensor]]
    """action probabilities [Z, N, A] under Z settings of private noise, all as likely → P(L = l), and that times
    E[C | L = l], each [B, K]"""
    visits: Callable[[Tensor], Tensor]
    """action probabilities [N, A] → how likely a mini-episode is to come to each state [N]"""
    best_return: Tensor
    """[B, K] m(l)"""
    num_lengths: Tensor
    """[B] k"""
    reward: Reward
    """How mini-episodes are paid."""


def sample(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw one action a row: the largest logit after adding Gumbel noise, made of numbers from 0 to 1."""
    return (logits - (-uniform.clamp_min(1e-20).log()).log()).argmax(-1)
