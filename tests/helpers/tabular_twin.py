"""The tabular algorithm in plain Python, as a reference for the compiled kernel."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numba
import pytest
import torch

from drest_torch.algos.tabular import rules_for
from drest_torch.algos.tabular_kernel import Rules, World
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import Optima, solve
from drest_torch.envs.levels import Level
from drest_torch.play.world_table import tabulate
from drest_torch.reward import Reward
from tests.helpers.simulator import Simulator, searched_optima

LONGEST = 4096


@pytest.fixture(autouse=True, scope="module")
def as_many_threads_as_torch() -> Iterator[None]:
    with threads(torch.get_num_threads()):
        yield


@dataclass(frozen=True)
class TabularRules:
    """Settings of an agent. ``divide``: rewards by m (best), by the largest return so far (seen), or not (none)."""

    lam: float = 0.9
    gamma: float = 1.0
    episodes_per_meta: int = 16
    divide: str = "best"
    clip: float | None = None
    lr: tuple[float, float] = (0.2, 0.2)
    epsilon: tuple[float, float] = (0.2, 0.2)
    decay_episodes: int = 100
    random_episodes: int = 0
    discount_bumps: bool = True
    normalise: bool = True


@dataclass
class Reached:
    """The state of a reference agent after training."""

    logits: torch.Tensor
    stream: int
    steps: int
    cut_off: int
    in_meta: int
    chosen: Counter[int]
    best_seen: dict[int, float]


UINT64 = (1 << 64) - 1


def rules_of(settings: TabularRules, optima: Optima) -> Rules:
    """Return the settings of agents as the kernel takes them."""
    ends = {
        "lr": settings.lr[0],
        "lr_end": settings.lr[1],
        "epsilon": settings.epsilon[0],
        "epsilon_end": settings.epsilon[1],
    }
    schedule = SimpleNamespace(**vars(settings) | ends)
    best = optima.best_return[0]
    # A learned divisor overrides the value here, which must have no effect.
    divisor = {"best": best, "none": torch.ones_like(best), "seen": torch.full_like(best, 77.0)}[settings.divide]
    reward = Reward(
        settings.lam, settings.gamma, settings.episodes_per_meta, clip=settings.clip, normalise=settings.normalise
    )
    return rules_for(schedule, reward, divisor.tolist(), learns_divisor=settings.divide == "seen")


def reference_agent(
    level: Level, settings: TabularRules, stream: int, logits: torch.Tensor, episodes: int, shape: Any
) -> Reached:
    """Train an agent from this random stream and these logits [R, 4], with rows indexed as in ``shape``."""
    random_numbers, logits = Stream(stream), logits.clone()
    optima = searched_optima(level, settings.gamma)
    k = len(optima)
    agent = Reached(logits, 0, 0, 0, 0, Counter(), dict.fromkeys(optima, 0.0))
    for played in range(episodes):
        share = min(max(played - settings.random_episodes, 0) / settings.decay_episodes, 1)
        lr, epsilon = between(*settings.lr, share), between(*settings.epsilon, share)
        if played < settings.random_episodes:
            epsilon = 1.0
        state, steps, total = Simulator(level), [], 0.0
        while not state.done and len(steps) < LONGEST:
            row = row_of(state.observation, shape.width, shape.bits)
            if random_numbers.uniform() < epsilon:
                action = math.floor(4 * random_numbers.uniform())
            else:
                u = random_numbers.uniform()
                up_to = logits[row].softmax(-1).cumsum(-1).tolist()
                action = sum(u >= bound for bound in up_to[:3])
            tick = state.ticks
            coin = state.step(
                action, button_works=lambda button: button.chance == 1 or random_numbers.uniform() < button.chance
            )
            total += coin * settings.gamma**tick
            steps.append((row, action, coin, len(steps) if settings.discount_bumps else tick))
        agent.steps += len(steps)
        if not state.done:
            agent.cut_off += 1
            continue
        length = state.ticks
        agent.best_seen[length] = max(agent.best_seen[length], total)
        m = {"best": optima, "seen": agent.best_seen, "none": dict.fromkeys(optima, 1.0)}[settings.divide][length]
        # Equation 1 of the paper, for mini-episode i of the meta-episode.
        i = agent.in_meta + 1
        discount = settings.lam ** (agent.chosen[length] - settings.normalise * (i - 1) / k)
        most = math.inf if settings.clip is None else settings.clip
        rows, actions, coins, times = zip(*steps, strict=True)
        rewards = [0.0 if m == 0 else min(most, discount * coin / m) for coin in coins]
        agent.in_meta, agent.chosen[length] = i, agent.chosen[length] + 1
        if i == settings.episodes_per_meta:
            agent.in_meta, agent.chosen = 0, Counter()
        gamma = settings.gamma ** torch.tensor(times, dtype=torch.float64)
        paid = torch.tensor(rewards, dtype=torch.float64) * gamma
        returns = paid.flip(0).cumsum(0).flip(0) / gamma
        logits.requires_grad_(True)
        log_prob = logits[[*rows]].log_softmax(-1)[range(len(rows)), actions]
        (gradient,) = torch.autograd.grad((returns * log_prob).sum(), logits)
        logits = logits.detach() + lr * gradient
    return replace(agent, logits=logits, stream=random_numbers.state)


@cache
def ready(level: Level, gamma: float = 1.0) -> tuple[World, Optima, Any]:
    """Return a level as tables, its optima, and the width and bits by which rows are indexed."""
    mdp = compile_levels([level])
    optima = solve(mdp, gamma)
    return tabulate(mdp, optima), optima, SimpleNamespace(width=mdp.width, bits=mdp.num_objects)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the threads of the kernel without changing those of torch, which the first call of numba would do."""
    torch_threads = torch.get_num_threads()
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(torch_threads)
    try:
        yield
    finally:
        numba.set_num_threads(before)


class Stream:
    """Splitmix64 (Steele, Lea and Flood 2014)."""

    def __init__(self, state: int) -> None:
        self.state = state & UINT64

    def next(self) -> int:
        self.state = self.state + 0x9E3779B97F4A7C15 & UINT64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & UINT64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & UINT64
        return z ^ z >> 31

    def uniform(self) -> float:
        return (self.next() >> 11) / 2**53


def row_of(observation: Sequence[int], width: int, bits: int) -> int:
    """Return the row of an observation [x, y, c…, b…]: by cell, then by taken objects, the first as the lowest bit."""
    x, y, *present = observation
    taken = [2**bit for bit, is_present in enumerate(present) if not is_present]
    return (y * width + x) * 2**bits + sum(taken)


def between(start: float, end: float, share: float) -> float:
    return 0.0 if start == end == 0.0 else math.exp((1 - share) * math.log(start) + share * math.log(end))
