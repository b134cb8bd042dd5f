"""Third-party environments for tests: a Gymnasium environment with a timer, and factories of TorchRL environments."""

import gymnasium
import numpy as np
from torchrl.envs import GymEnv


class Clock(gymnasium.Env):
    """An environment that ends after 3 steps, or after 5 if the first action is 1; action 0 pays 1."""

    metadata = {"render_modes": ["rgb_array"]}
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 5, (2,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.end = 0, 3
        return self._observation(), {}

    def step(self, action):
        if action == 1 and self.time == 0:
            self.end = 5
        self.time += 1
        return self._observation(), float(action == 0), self.time == self.end, False, {}

    def render(self):
        return None if self.render_mode is None else np.full((20, 30, 3), 40 * self.time, np.uint8)

    def _observation(self):
        return np.array([self.time, self.end], np.float32)


gymnasium.register("Clock-v0", Clock)
gymnasium.register("Dark-v0", lambda: Clock())  # does not take ``render_mode``


def clock(render_mode=None):
    return Clock(render_mode)


def pole(render_mode=None):
    return GymEnv("CartPole-v1", categorical_action_encoding=True, render_mode=render_mode)


def plain_pole():
    return GymEnv("CartPole-v1", categorical_action_encoding=True)
