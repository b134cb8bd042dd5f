"""A Gymnasium environment with every kind of space. It does not import torch, so that workers start fast."""

import os
import signal

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env):
    """An environment whose observations have every kind of space; an episode lasts `length` steps."""

    observation_space = spaces.Dict(
        {
            "body": spaces.Dict({"place": spaces.Box(-9, 9, (2, 2), np.float64), "gear": spaces.Discrete(3, start=1)}),
            "image": spaces.Box(0, 255, (2, 2, 3), np.uint8),
            "dice": spaces.MultiDiscrete([2, 3]),
            "bits": spaces.MultiBinary(3),
            "mission": spaces.Text(9),
            "pair": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 9, ()))),
        }
    )
    action_space = spaces.Box(-1, 1, (2, 2), np.float64)

    def __init__(self, length=3, fail=None, render_mode=None):
        self.length, self.fail, self.render_mode = length, fail, render_mode

    def _seen(self):
        body = {"place": np.full((2, 2), self.t), "gear": 1 + self.t % 3}
        bits, pair = np.array([1, 0, self.t % 2], np.int8), (self.t % 2, np.array(self.t))
        image = np.full((2, 2, 3), self.level, np.uint8)
        dice = np.array([self.t % 2, self.t % 3])
        return {"body": body, "image": image, "dice": dice, "bits": bits, "mission": "go", "pair": pair}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.level = 0, int(self.np_random.integers(256))
        return self._seen(), {}

    def step(self, action):
        assert action.shape == (2, 2)
        assert action.dtype == np.float64
        self.t += 1
        if self.t == 2 and self.fail:
            self.fail()
        return self._seen(), 1.0, False, self.t == self.length, {}

    def render(self):
        return np.full((4, 4, 3), self.level, np.uint8)


def stop():
    raise RuntimeError("the motor\nis hot")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    os._exit(3)
