"""MiniGrid's partially observed tasks, seen as a network can read them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from drest_torch.envs.interfaces.gymnasium_spaces import Array

CATEGORIES = (11, 6, 3)
"""How many objects, colours and states MiniGrid knows."""


class OneHotView(gymnasium.ObservationWrapper[Any, Any, Any]):
    """A MiniGrid environment whose image is one-hot, float32 [7, 7, 20], and whose mission is dropped."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        seen: Any = env.observation_space
        image = spaces.Box(0.0, 1.0, (*seen["image"].shape[:2], sum(CATEGORIES)), np.float32)
        self.observation_space = spaces.Dict({"image": image, "direction": seen["direction"]})
        self._columns = np.cumsum((0, *CATEGORIES[:-1]))
        self._one_hot = np.eye(sum(CATEGORIES), dtype=np.float32)

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Return the observation with the image one-hot."""
        image: Array = self._one_hot[observation["image"] + self._columns].sum(-2)
        return {"image": image, "direction": observation["direction"]}


def make_minigrid(name: str, **options: Any) -> OneHotView:
    """Return a MiniGrid environment, such as "MiniGrid-DoorKey-5x5-v0".

    For a batch of copies: ``GymnasiumBatch(partial(make_minigrid, "MiniGrid-DoorKey-5x5-v0"), 16)``.
    """
    return OneHotView(gymnasium.make(f"minigrid:{name}", **options))
