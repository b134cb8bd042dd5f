"""Stable-Baselines3 with the same networks and values as ours, on our vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.pipelines import Plan
from drest_torch.algos.networks.base import ACTIVATIONS
from drest_torch.building.parts import reward_of
from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv
from drest_torch.envs.levels import Level


class TensorVecEnv(VecEnv):
    """`GridworldVectorEnv` as Stable-Baselines3 wants it."""

    def __init__(self, env: GridworldVectorEnv) -> None:
        self.env = env
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> np.ndarray:
        return self.env.reset(seed=0)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict]]:
        seen, reward, terminated, _, _ = self.env.step(self.actions)
        return seen, reward, terminated, [{}] * self.num_envs  # terminations are no truncations: nothing to add

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.env, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [getattr(self.env, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def close(self) -> None:
        self.env.close()


class StableBaselines:
    """Its PPO or A2C with Adam, and a policy and a critic of the same size as ours."""

    def __init__(self, levels: Sequence[Level], plan: Plan) -> None:
        algo, size = plan.cfg.algo, plan.size
        reward = replace(reward_of(plan.cfg), episodes_at_start=None)
        env = TensorVecEnv(GridworldVectorEnv(levels, plan.envs, observation="centred", reward=reward))
        arch = [size.width] * size.depth
        policy = {"net_arch": {"pi": arch, "vf": arch}, "activation_fn": ACTIVATIONS[size.activation]}
        policy |= {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {"eps": algo.adam_eps}}
        common: dict[str, Any] = {"gamma": 1.0, "gae_lambda": algo.gae_lambda, "max_grad_norm": algo.max_grad_norm}
        common |= {"learning_rate": algo.lr, "ent_coef": algo.entropy, "device": "cpu", "seed": 0}
        common |= {"vf_coef": algo.critic_coeff / 2}  # its squared error has no 1/2
        common |= {"n_steps": plan.steps, "normalize_advantage": algo.normalise_advantage}
        if algo.name == "ppo":
            common |= {"batch_size": plan.minibatch, "n_epochs": plan.epochs, "clip_range": algo.clip}
        else:
            common |= {"use_rms_prop": False}
        self.model = (PPO if algo.name == "ppo" else A2C)("MlpPolicy", env, policy_kwargs=policy, **common)
        self.steps = plan.envs * plan.steps

    def update(self) -> float:
        """Learn from one batch; return the steps played."""
        self.model.learn(self.steps, reset_num_timesteps=False, log_interval=None)
        return self.steps
