"""The worlds as a Gymnasium environment.

One Gymnasium episode is one mini-episode; ``terminated`` marks its end. E mini-episodes make a meta-episode, which
stays on one level; a new meta-episode samples a new level. This module needs ``gymnasium`` (the extra ``gym``), and no
other module imports it. For third-party environments see `gymnasium_wrappers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import Level
from drest_torch.reward import MetaEpisode, Reward

Array = NDArray[Any]


class GridworldGymEnv(gymnasium.Env[Array, np.int64]):
    """A Gymnasium environment on one world at a time, whose episodes are mini-episodes.

    Args:
        levels: the level set, as levels or already compiled.
        observation: ``grid``, ``centred`` or ``vector``.
        reward: the parameters of the reward; None: DReST with the defaults of `Reward`.
        plain_coins: whether each coin pays its value immediately, in place of the DReST reward.

    The reward is paid at the end of the mini-episode.

    ``reset(seed=...)`` restarts the random stream of levels and luck. ``reset(options={"level": index})`` begins a
    meta-episode on that level. Any other ``reset`` continues the meta-episode. Abandoned mini-episodes are not counted.
    ``info`` contains the name of the level and, at the end of a mini-episode, its ``length``, its γ-discounted
    ``coins`` and its ``discount``.

    With ``render_mode="rgb_array"`` `render` returns a picture of the world, with the time left in the corner. It needs
    Matplotlib (the extra ``train``).
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(
        self,
        levels: Mdp | Sequence[Level],
        *,
        observation: str = "grid",
        reward: Reward | None = None,
        plain_coins: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode={render_mode!r}; expected None or rgb_array")
        self.plain_coins, self.render_mode = plain_coins, render_mode
        self.reward = reward or Reward()
        self.reward.check_sequential()
        self.mdp = mdp = levels if isinstance(levels, Mdp) else compile_levels(levels)
        self.optima = solve(mdp, self.reward.gamma)
        self._observe = make_observation(observation, mdp)
        self._level: int | None = None
        self._meta_episode = MetaEpisode(self.reward)
        self._time_left = torch.zeros(1, dtype=torch.int64)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        # The coins and delays of lotteries can be negative.
        largest = (float(numbers.abs().max()) for numbers in (mdp.outcomes.coins, mdp.outcomes.delay))
        high = max(float(mdp.max_time), mdp.height, mdp.width, *largest)
        self.observation_space = spaces.Box(-high if mdp.has_lotteries else 0.0, high, self._observe.shape, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Start a mini-episode, and a new meta-episode if one is complete; return the observation and ``info``."""
        super().reset(seed=seed)
        level = (options or {}).get("level")
        is_new = self._level is None or seed is not None or level is not None
        if is_new or self._meta_episode.is_complete:
            self._level = int(self.np_random.integers(self.mdp.num_levels)) if level is None else int(level)
            self._meta_episode = MetaEpisode(self.reward)
        index = torch.tensor([self._level])
        self._spot, self._time_left = self.mdp.start[index], self.mdp.shutdown[index]
        self._taken, self._ticks, self._coins = torch.zeros_like(index), 0, torch.zeros(1, dtype=torch.float64)
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Step the world; return the observation, the reward, the end of the mini-episode, False, and ``info``."""
        if not self._time_left:
            raise ResetNeeded("the mini-episode is over or has not begun; call reset() first")
        luck = torch.tensor([self.np_random.random()], dtype=torch.float64) if self.mdp.any_chance else None
        arrival = self.mdp.advance(self._spot, self._taken, torch.tensor([int(action)]), luck)
        self._coins = self._coins + arrival.coin * self.reward.gamma**self._ticks
        self._spot, self._taken = arrival.spot, arrival.taken
        self._time_left = self.mdp.time_after(self._time_left, arrival)
        self._ticks += int(arrival.ticks)
        ended, info = not self._time_left, self._info()
        paid = self._end(info) if ended else 0.0
        return self._observation(), float(arrival.coin) if self.plain_coins else paid, ended, False, info

    def render(self) -> Any:
        """Return a picture of the current state of the world."""
        if self.render_mode is None:
            return None
        from drest_torch.envs.view.rendering import frame  # Matplotlib is only needed for rendering

        agent = divmod(int(self._spot) % self.mdp.num_cells, self.mdp.width)
        level = self.mdp.levels[self._level or 0]
        return frame(level, taken=int(self._taken), agent=agent, time_left=int(self._time_left))

    def _end(self, info: dict[str, Any]) -> float:
        """Count the mini-episode, add its results to ``info``, and return its reward."""
        optima, level = self.optima, self._level
        length = int((optima.lengths[level] == self._ticks).nonzero())
        best_return = optima.best_return[level, length]
        paid, discount = self._meta_episode.pay(length, int(optima.num_lengths[level]), self._coins, best_return)
        info |= {"length": self._ticks, "coins": float(self._coins), "discount": discount}
        return paid

    def _observation(self) -> Array:
        return self._observe(self._spot, self._taken, self._time_left)[0].numpy()

    def _info(self) -> dict[str, Any]:
        return {"level": self.mdp.levels[self._level or 0].name}
