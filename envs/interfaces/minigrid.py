"""MiniGrid's partially observable tasks, with observations for networks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from drest_torch.errors import UserError

CATEGORIES = (11, 6, 3)
"""The numbers of objects, colours and states of MiniGrid."""


def make_minigrid(name: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Return a MiniGrid environment with a one-hot image, float32 [7, 7, 20], and without the mission.

    For a batch of copies: ``GymnasiumBatch(partial(make_minigrid, "MiniGrid-DoorKey-5x5-v0"), 16)``.
    """
    if find_spec("minigrid") is None:
        raise UserError(f"{name} needs minigrid; pip install 'drest_torch[envs]'")
    env = gymnasium.make(f"minigrid:{name}", **options)
    space: Any = env.observation_space
    image = spaces.Box(0.0, 1.0, (*space["image"].shape[:2], sum(CATEGORIES)), np.float32)
    columns, one_hot = np.cumsum((0, *CATEGORIES[:-1])), np.eye(sum(CATEGORIES), dtype=np.float32)

    def encode(observation: dict[str, Any]) -> dict[str, Any]:
        return {"image": one_hot[observation["image"] + columns].sum(-2), "direction": observation["direction"]}

    encoded_space = spaces.Dict({"image": image, "direction": space["direction"]})
    return gymnasium.wrappers.TransformObservation(env, encode, encoded_space)
