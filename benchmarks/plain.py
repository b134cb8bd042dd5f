"""The worlds as one writes them for speed without tensors: a Gymnasium environment in plain Python.

It copies the rules of `drest_torch.envs.dynamics` and the reward of `drest_torch.reward` on purpose: a comparison with
it measures what a project without ours would write, and must not charge it with our tensors. `check_plain`, which
tests/house/test_benchmarks.py calls, holds the copy to ours.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, STEPS, compile_levels
from drest_torch.envs.dynamics.observations import DELAY_UNIT, TIME_STEPS
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.interfaces.gymnasium_env import GridworldGymEnv
from drest_torch.envs.levels import Level
from drest_torch.reward import Reward


class PlainLevels:
    """A level set as Python lists and numpy arrays, shared by all environments that play it."""

    def __init__(self, levels: Sequence[Level]) -> None:
        mdp, unit = compile_levels(levels), DELAY_UNIT
        optima = solve(mdp)
        assert not mdp.any_chance
        assert not mdp.any_free_bumps
        self.reach = (mdp.height - 1, mdp.width - 1)
        per_level = (len(levels), mdp.height, mdp.width)
        coin, delay = mdp.coin.reshape(per_level), mdp.delay.reshape(per_level)
        share = coin / coin.amax((1, 2), keepdim=True)
        margin = [(0, 0), *((side, side) for side in self.reach)]
        wall = np.pad(mdp.wall.reshape(per_level).numpy(), margin, constant_values=True)
        self.planes = np.stack([wall, np.pad(share, margin), np.pad(delay / unit, margin)], axis=1).astype(np.float32)
        self.walls = wall.tolist()
        self.starts = [level.start for level in levels]
        self.shutdowns = [level.shutdown for level in levels]
        self.objects = [
            {(coin.row, coin.column): (coin.value, 0) for coin in level.coins}
            | {(button.row, button.column): (0.0, button.delay) for button in level.buttons}
            for level in levels
        ]
        self.best = [
            dict(itertools.islice(zip(lengths, best, strict=True), k))
            for lengths, best, k in zip(
                optima.lengths.tolist(), optima.best_return.tolist(), optima.num_lengths.tolist(), strict=True
            )
        ]
        times = np.arange(mdp.max_time + 1)[:, None]
        steps = np.clip(times - np.arange(TIME_STEPS), 0, 1)
        self.times = np.concatenate([steps, times / (2 * unit)], axis=1).astype(np.float32)


class PlainEnv(gymnasium.Env):
    """The same worlds, reward and `centred` observation without a tensor."""

    def __init__(self, levels: PlainLevels, reward: Reward, seed: int = 0) -> None:
        self.levels, self.lam, self.episodes = levels, reward.lam, reward.episodes_per_meta
        if reward != Reward(self.lam, episodes_per_meta=self.episodes):
            raise ValueError(f"{reward}; the plain environment pays by λ and E alone, so leave out the rest")
        self.random = random.Random(seed)
        self.window = 3 * (2 * levels.reach[0] + 1) * (2 * levels.reach[1] + 1)
        self.observation_space = spaces.Box(0.0, np.inf, (self.window + levels.times.shape[1],), np.float32)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self.played = self.episodes

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        if seed is not None:
            self.random.seed(seed)
        if self.played == self.episodes or options:
            self.level = options["level"] if options else self.random.randrange(len(self.levels.starts))
            self.counts: dict[int, int] = {}
            self.played = 0
        self.row, self.column = self.levels.starts[self.level]
        self.time, self.ticks, self.total = self.levels.shutdowns[self.level], 0, 0.0
        self.wall = self.levels.walls[self.level]
        self.objects = self.levels.objects[self.level].copy()
        self.planes = self.levels.planes[self.level].copy()
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        down, right = STEPS[action]
        reach_down, reach_right = self.levels.reach
        if not self.wall[self.row + down + reach_down][self.column + right + reach_right]:
            self.row += down
            self.column += right
        self.time -= 1
        self.ticks += 1
        found = self.objects.pop((self.row, self.column), None)
        if found:
            self.planes[1:, self.row + reach_down, self.column + reach_right] = 0
            self.total += found[0]
            self.time += found[1]
        if self.time:
            return self._observation(), 0.0, False, False, {}
        return self._observation(), self._pay(), True, False, {}

    def _pay(self) -> float:
        best = self.levels.best[self.level]
        chosen = self.counts.get(self.ticks, 0)
        discount = self.lam ** (chosen - self.played / len(best))
        self.counts[self.ticks] = chosen + 1
        self.played += 1
        return self.total and discount * self.total / best[self.ticks]

    def _observation(self) -> np.ndarray:
        down, right = self.levels.reach
        seen = np.empty(self.observation_space.shape, np.float32)
        window = self.planes[:, self.row : self.row + 2 * down + 1, self.column : self.column + 2 * right + 1]
        seen[: self.window] = window.reshape(-1)
        seen[self.window :] = self.levels.times[self.time]
        return seen


def in_order(reward: Reward) -> Reward:
    """Return the same reward for mini-episodes that are played one after the other."""
    return replace(reward, counting="sequential", episodes_at_start=None)


def check_plain(levels: Sequence[Level], mini_episodes: int = 300) -> None:
    """The plain environment must say what ours says."""
    reward = Reward(lam=0.9, gamma=1.0, episodes_per_meta=8)
    plain = PlainEnv(PlainLevels(levels), reward)
    ours = GridworldGymEnv(levels, observation="centred", reward=reward)
    actions = random.Random(0)
    for episode in range(mini_episodes):
        options = None if episode % 8 else {"level": actions.randrange(len(levels))}
        assert np.allclose(plain.reset(options=options)[0], ours.reset(options=options)[0])
        ended = False
        while not ended:
            action = actions.randrange(NUM_ACTIONS)
            (seen, paid, ended, *_), (expected, due, over, *_) = plain.step(action), ours.step(action)
            assert ended == over
            assert np.allclose(seen, expected)
            assert np.isclose(paid, due)
