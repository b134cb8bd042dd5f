"""Evaluate policies exactly in finite tasks with a shutdown timer.

What is known of the future in the middle of a mini-episode depends on the state of the task, the steps so far, the
delays so far and, where the timer has a window, the steps since the last of them. All of it is computed backwards from
shutdown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drest_torch.envs.tasks.finite import FiniteTask
from drest_torch.errors import ConfigError
from drest_torch.metrics import neutrality, usefulness
from drest_torch.transforms import ShutdownTimer

FinitePolicy = Callable[[Tensor, Tensor], Tensor]
"""The probabilities [n, A + 1] of the actions, the last of which asks for a delay, from the states of the task [n] and
what the timer shows [n, k + 3] (see `ShutdownTimer`)."""


@dataclass(frozen=True)
class FiniteEvaluation:
    """The exact metrics of a policy in a finite task."""

    lengths: list[int]
    probability: Tensor
    """[k] P(L = l)"""
    returns: Tensor
    """[k] E[C | L = l], NaN for a length that is never chosen"""
    best: Tensor
    """[k] m(l), the largest E[C] of policies that always choose the length. A policy that chooses it by luck can get
    more."""

    @property
    def usefulness(self) -> float:
        """Return Σ P(l) · E[C | l] / m(l)."""
        return usefulness(self.probability, self.returns.nan_to_num(), self.best).item()

    @property
    def neutrality(self) -> float:
        return neutrality(self.probability).item()


def evaluate(
    task: FiniteTask, timer: ShutdownTimer, policy: FinitePolicy, *, gamma: float = 1.0, floor: float = 0.0
) -> FiniteEvaluation:
    """Return the exact metrics of a policy. ``floor`` is subtracted from each reward, as `BestReturn` does."""
    timed = _Timed(task, timer, gamma, floor)
    chance, coins = timed.play(policy)
    return FiniteEvaluation(
        list(timer.lengths), chance, torch.where(chance > 0, coins / chance, math.nan), timed.best_return()
    )


def mixed(evaluations: Sequence[FiniteEvaluation]) -> FiniteEvaluation:
    """Return the metrics of a policy that is one of these, each with the same probability, for a whole mini-episode."""
    chances = torch.stack([each.probability for each in evaluations])
    coins = (chances * torch.stack([each.returns for each in evaluations]).nan_to_num()).mean(0)
    first, chance = evaluations[0], chances.mean(0)
    return FiniteEvaluation(first.lengths, chance, torch.where(chance > 0, coins / chance, math.nan), first.best)


def best_return(task: FiniteTask, timer: ShutdownTimer, *, gamma: float = 1.0, floor: float = 0.0) -> Tensor:
    """Return m(l) [k], the largest expected return of policies that always choose the length."""
    return _Timed(task, timer, gamma, floor).best_return()


Value = tuple[Tensor, Tensor]
"""For each final length, where there are several: its probability from here on, and that times the mean of the rewards
from here on."""


class _Timed:
    """A finite task with a shutdown timer.

    Its states are those of the task, N = S, and with ``ended=absorb`` those in which it has ended and waits, N = 2S.
    Values have the shape [..., M, N], with M the actions that a request repeats, or 1 if it repeats none.
    """

    def __init__(self, task: FiniteTask, timer: ShutdownTimer, gamma: float, floor: float) -> None:
        if timer.control != "action":
            raise ConfigError("exact evaluation with a timer that no action asks for a delay; use control=action")
        if timer.chance < 1:
            raise ConfigError(
                f"exact evaluation with chance={timer.chance}, with which no length is sure; use chance=1"
            )
        self.timer, self.gamma, self.count = timer, gamma, task.states
        self.following, self.chance, reward, self.start = task.following, task.chance, task.reward, task.start
        self.ends: Tensor | None = task.ends
        if timer.ended == "absorb":
            waits = torch.arange(self.count).reshape(-1, 1, 1).expand_as(self.following) + self.count
            stays = torch.zeros_like(self.chance)
            stays[..., 0] = 1
            self.following = torch.cat((self.following + self.count * task.ends, waits))
            self.chance = torch.cat((self.chance, stays))
            reward = torch.cat((reward, torch.zeros_like(reward)))
            self.start = torch.cat((self.start, torch.zeros_like(self.start)))
            self.ends = None
        self.reward = reward - floor
        own = torch.arange(task.actions)
        self.remembered = own if timer.idle == "repeat" else torch.zeros_like(own)
        self.idle = own if timer.idle == "repeat" else torch.tensor([int(timer.idle)])

    def play(self, policy: FinitePolicy) -> Value:
        """Return P(l) and E[C · (L = l)], both [k]."""
        k = len(self.timer.lengths)

        def end(delays: int) -> Value:
            chance = torch.zeros(k, len(self.idle), len(self.start), dtype=torch.float64)
            chance[delays] = 1
            return chance, torch.zeros_like(chance)

        def node(tick: int, delays: int, since: int, own: Value, asked: Value) -> Value:
            rows = torch.arange(len(self.start))
            probabilities = policy(rows % self.count, self.shown(tick, delays, since)).double()

            def mean(mine: Tensor, others: Tensor) -> Tensor:
                value = (mine * probabilities[:, :-1]).sum(-1).unsqueeze(-2)
                return value + (others * probabilities[:, -1:]).mT

            return mean(own[0], asked[0]), mean(own[1], asked[1])

        chance, coins = self.backwards(end, node)
        return (chance[:, 0] * self.start).sum(-1), (coins[:, 0] * self.start).sum(-1)

    def best_return(self) -> Tensor:

        def best(wanted: int) -> Tensor:
            one = torch.ones(len(self.idle), len(self.start), dtype=torch.float64)

            def end(delays: int) -> Value:
                return one, torch.full_like(one, 0 if delays == wanted else -math.inf)

            def node(tick: int, delays: int, since: int, own: Value, asked: Value) -> Value:
                return one, torch.maximum(own[1].amax(-1).unsqueeze(-2), asked[1].mT)

            coins = self.backwards(end, node)[1][0]
            return torch.where(self.start > 0, coins * self.start, 0).sum()

        return torch.stack([best(wanted) for wanted in range(len(self.timer.lengths))])

    # ------------------------------------------------------------------------------------ backwards in time

    def backwards(self, end: Callable[[int], Value], node: Callable[[int, int, int, Value, Value], Value]) -> Value:
        """Return the value before the first step.

        ``end`` gives the values at shutdown after so many delays, ``node`` those before a step: from the tick, the
        delays, the steps since the last, the values of each action [..., N, A], and of asking [..., N, M].
        """
        timer = self.timer
        lengths, window, last = timer.lengths, timer.window, len(timer.lengths) - 1
        ends = [end(delays) for delays in range(last + 1)]
        after: dict[tuple[int, int], Value] = {}

        def key(delays: int, since: int) -> tuple[int, int]:
            return delays, 0 if window is None or delays == last else min(since, window)

        for tick in reversed(range(lengths[-1])):
            now: dict[tuple[int, int], Value] = {}

            def then(delays: int, since: int, tick: int = tick, after: dict[tuple[int, int], Value] = after) -> Value:
                return self.step(ends[delays] if tick + 1 == lengths[delays] else after[key(delays, since)])

            for delays in range(last + 1):
                if not delays <= tick < lengths[delays]:
                    continue
                every = [tick] if delays == 0 else range(tick - delays + 1)
                for since in dict.fromkeys(key(delays, each)[1] for each in every):
                    own, cost = then(delays, since + 1), 0.0
                    chance, coins = own
                    if timer.rules.is_open(delays, since):
                        (chance, coins), cost = then(delays + 1, 0), timer.cost
                    chance, coins = chance[..., self.idle], coins[..., self.idle]
                    now[delays, since] = node(tick, delays, since, own, (chance, coins - cost * chance))
            after = now
        return after[0, 0]

    def step(self, after: Value) -> Value:
        """Return the values [..., N, A] of the actions of the task, from the values after them."""
        chance, coins = (self.there(value) for value in after)
        coins = self.reward * chance + self.gamma * coins
        possible = self.chance > 0
        means = [torch.where(possible, self.chance * value, 0).sum(-1) for value in (chance, coins)]
        return means[0], means[1]

    def there(self, value: Tensor) -> Tensor:
        """Return a value [..., M, N] after each branch [..., N, A, B]."""
        found = value[..., self.remembered.reshape(1, -1, 1), self.following]
        if self.ends is None:
            return found
        again = torch.where(self.start > 0, value * self.start, 0).sum(-1)[..., self.remembered]
        return torch.where(self.ends, again[..., None, :, None], found)

    def shown(self, tick: int, delays: int, since: int) -> Tensor:
        """Return what the timer shows in each state [N, k + 3]."""
        rules, states = self.timer.rules, len(self.start)
        waits = (torch.arange(states) >= self.count).unsqueeze(-1)
        left, numbers = torch.tensor([rules.lengths[delays] - tick]), torch.arange(len(rules.lengths))
        parts = rules.shown(left, delays, since, waits, numbers)
        return torch.cat([torch.atleast_1d(torch.as_tensor(part)).expand(states, -1) for part in parts], -1)
