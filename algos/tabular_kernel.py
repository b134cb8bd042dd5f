"""Compiled REINFORCE on tables of logits, for many agents at once, each with its own random stream.

An agent's result depends on its stream alone, not on the other agents.

The kernel implements counting and paying itself, because compiled code cannot call `drest_torch.reward`;
tests/algos/test_table.py compares it with the paper's formula. It pays each coin when it is collected, so its clip
limits the reward of a coin, whereas `Reward.clip` limits that of a mini-episode. An infinite discount makes the logits
infinite, which `drest_torch.algos.tabular.check_finite` refuses.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numba
import numpy as np
import torch
from numba import njit, prange


def _keep_torchs_threads() -> None:
    """Start numba's threads and restore torch's number of threads, which the start resets to the number of cores.

    The threading layer is safe in forked processes, unless the user has chosen another one.
    """
    threads = torch.get_num_threads()
    if "NUMBA_THREADING_LAYER" not in os.environ:
        numba.config.THREADING_LAYER = "forksafe"  # type: ignore[attr-defined]
    numba.get_num_threads()
    torch.set_num_threads(threads)


_keep_torchs_threads()

NUM_ACTIONS = 4
LONGEST = 4096
"""The largest number of steps of a mini-episode: on a clock that counts moves a policy can bump into walls for ever.
A longer mini-episode is cut off, not trained on, and not counted among the lengths."""


class World(NamedTuple):
    """The transition tables of a level with R rows and K lengths. A row is a state without its time."""

    target: np.ndarray
    """[R, 4] the row after the action."""
    coin: np.ndarray
    """[R, 4] the value of the collected coin."""
    ticks: np.ndarray
    """[R, 4] the duration of the action: 1, or 0 for a free bump."""
    delay: np.ndarray
    """[R, 4] the delay of the pressed button, if it works."""
    chance: np.ndarray
    """[R, 4] the probability that this button works."""
    start: int
    """The row at the start."""
    shutdown: int
    """The time left at the start."""
    column: np.ndarray
    """[T + 1] the index of a trajectory-length among the level's lengths."""


class Rules(NamedTuple):
    """The `Reward` and the `drest_torch.algos.tabular.Schedule` of all agents."""

    lam: float
    normaliser: float
    """k in the normalising factor λ^(−(i−1)/k)."""
    gamma: float
    discount_bumps: bool
    episodes_per_meta: int
    divisor: np.ndarray
    """[K] the divisor of coins for each length: m(l) or a substitute."""
    learns_divisor: bool
    """True if the largest return so far given the length replaces m(l)."""
    clip: float
    """The largest reward of a coin."""
    lr: np.ndarray
    epsilon: np.ndarray
    """[2] ε at the start and at the end of the schedule, like the learning rate."""
    decay_episodes: int
    random_episodes: int


class TableState(NamedTuple):
    """The state of A agents, which `play` changes in place."""

    logits: np.ndarray
    """[A, R, 4] the logits of actions."""
    stream: np.ndarray
    """[A] the state of the agent's random stream, as int64."""
    played: np.ndarray
    """[A] mini-episodes played."""
    steps: np.ndarray
    """[A] environment steps."""
    cut_off: np.ndarray
    """[A] mini-episodes that were cut off."""
    in_meta: np.ndarray
    """[A] i − 1, the mini-episodes so far in the current meta-episode."""
    chosen_before: np.ndarray
    """[A, K] N, the count of each length in the current meta-episode."""
    best_seen: np.ndarray
    """[A, K] the largest return so far given each length."""


def new_state(seeds: np.ndarray, rows: int, lengths: int) -> TableState:
    """Return the state of untrained agents, each with the stream of its seed."""
    agents = len(seeds)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros((agents, *shape), np.int64)

    logits = np.zeros((agents, rows, NUM_ACTIONS))
    stream = _mix(np.asarray(seeds, np.uint64)).view(np.int64)
    return TableState(logits, stream, zeros(), zeros(), zeros(), zeros(), zeros(lengths), np.zeros((agents, lengths)))


def _mix(z: np.ndarray) -> np.ndarray:
    """Map neighbouring seeds to unrelated streams (with the finaliser of MurmurHash3)."""
    z = (z ^ (z >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    z = (z ^ (z >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return z ^ (z >> np.uint64(33))


# Without the GIL, so that a process can end without waiting for the kernel.
# numba names the cached kernel after the number of the line below, and stores the names of the module and of the
# classes above with it. If these change, the line number must change as well: otherwise the cache of an earlier version
# cannot be read.
@njit(parallel=True, cache=True, nogil=True)
def play(world: World, rules: Rules, state: TableState, episodes: int) -> None:
    """Play ``episodes`` mini-episodes with every agent, and update its table after each."""
    for agent in prange(len(state.logits)):
        scratch = _Scratch(
            np.empty(LONGEST, np.int64),
            np.empty(LONGEST, np.int64),
            np.empty(LONGEST),
            np.empty(LONGEST),
            np.empty((LONGEST, NUM_ACTIONS)),
        )
        for _ in range(episodes):
            _mini_episode(world, rules, state, agent, scratch)


class _Scratch(NamedTuple):
    """The steps of one mini-episode."""

    row: np.ndarray
    action: np.ndarray
    coin: np.ndarray
    discount: np.ndarray
    """The discount factor of the following return."""
    chance: np.ndarray
    """[LONGEST, 4] the probabilities of the softmax policy."""


@njit
def _mini_episode(world: World, rules: Rules, state: TableState, agent: int, steps: _Scratch) -> None:
    """Play one mini-episode and update the table, unless the mini-episode is cut off."""
    gamma, logits = rules.gamma, state.logits[agent]
    lr, epsilon = scheduled(rules, state.played[agent])
    row, left, count, tick, total = world.start, world.shutdown, 0, 0, 0.0
    while left > 0 and count < LONGEST:
        chance = steps.chance[count]
        _softmax(logits[row], chance)
        action = _sample(chance, epsilon, state.stream, agent)
        coin = world.coin[row, action]
        steps.row[count], steps.action[count], steps.coin[count] = row, action, coin
        ticks = world.ticks[row, action]
        steps.discount[count] = gamma if ticks > 0 or rules.discount_bumps else 1.0
        total += gamma**tick * coin
        tick += ticks
        left -= ticks
        delay, works = world.delay[row, action], world.chance[row, action]
        if delay > 0 and (works == 1.0 or _uniform(state.stream, agent) < works):
            left += delay
        row = world.target[row, action]
        count += 1
    state.played[agent] += 1
    state.steps[agent] += count
    if left > 0:
        state.cut_off[agent] += 1
        return
    factor = _discount_over_divisor(rules, state, agent, world.column[tick], total)
    _learn(logits, steps, count, lr, factor, rules.clip)


@njit
def _discount_over_divisor(rules: Rules, state: TableState, agent: int, length: int, total: float) -> float:
    """Return λ^(N − (i−1)/k) ÷ m of the last mini-episode, and update the counts."""
    state.best_seen[agent, length] = max(state.best_seen[agent, length], total)
    divisor = state.best_seen[agent, length] if rules.learns_divisor else rules.divisor[length]
    exponent = state.chosen_before[agent, length] - state.in_meta[agent] / rules.normaliser
    state.chosen_before[agent, length] += 1
    state.in_meta[agent] += 1
    if state.in_meta[agent] == rules.episodes_per_meta:
        state.in_meta[agent] = 0
        state.chosen_before[agent, :] = 0
    return rules.lam**exponent / divisor if divisor > 0.0 else 0.0


@njit
def _learn(logits: np.ndarray, steps: _Scratch, count: int, lr: float, factor: float, clip: float) -> None:
    """Make one step of gradient ascent on Σ_t G_t log π(a_t), where G_t is the discounted reward from step t on."""
    to_go = 0.0
    for step in range(count - 1, -1, -1):
        # A step without a coin is paid 0 even if the factor is infinite.
        reward = min(factor * steps.coin[step], clip) if steps.coin[step] > 0.0 else 0.0
        to_go = reward + steps.discount[step] * to_go
        change = lr * to_go
        for action in range(NUM_ACTIONS):
            logits[steps.row[step], action] -= change * steps.chance[step, action]
        logits[steps.row[step], steps.action[step]] += change


@njit
def scheduled(rules: Rules, played: int) -> tuple[float, float]:
    """Return the learning rate and ε after ``played`` mini-episodes."""
    progress = min(max(played - rules.random_episodes, 0) / rules.decay_episodes, 1.0)
    lr = rules.lr[0] ** (1.0 - progress) * rules.lr[1] ** progress
    epsilon = rules.epsilon[0] ** (1.0 - progress) * rules.epsilon[1] ** progress
    return lr, 1.0 if played < rules.random_episodes else epsilon


@njit
def _softmax(logits: np.ndarray, chance: np.ndarray) -> None:
    """Write the softmax of four logits to ``chance``."""
    top = logits.max()
    total = 0.0
    for action in range(NUM_ACTIONS):
        chance[action] = np.exp(logits[action] - top)
        total += chance[action]
    for action in range(NUM_ACTIONS):
        chance[action] /= total


@njit
def _sample(chance: np.ndarray, epsilon: float, stream: np.ndarray, agent: int) -> int:
    """Sample an action of the ε-greedy policy."""
    if _uniform(stream, agent) < epsilon:
        return int(_uniform(stream, agent) * NUM_ACTIONS)
    u = _uniform(stream, agent)
    for action in range(NUM_ACTIONS - 1):
        u -= chance[action]
        if u < 0.0:
            return action
    return NUM_ACTIONS - 1


@njit
def _uniform(stream: np.ndarray, agent: int) -> float:
    """Return the next number in [0, 1) of an agent's stream (splitmix64)."""
    stream[agent] += np.int64(-0x61C8864680B583EB)
    z = np.uint64(stream[agent])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53
