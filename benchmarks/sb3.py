"""Stable-Baselines3 with the same networks and values as ours, on our vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.pipelines import Setting
from drest_torch.algos.base import linear
from drest_torch.algos.networks.base import ACTIVATIONS
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
    """Its PPO or A2C with Adam, a policy and a critic of the same size as ours, and our schedules."""

    def __init__(self, levels: Sequence[Level], setting: Setting) -> None:
        self.setting, cfg = setting, setting.config
        reward = replace(setting.reward, counting="sequential", episodes_at_start=None)
        env = TensorVecEnv(GridworldVectorEnv(levels, setting.envs, observation="centred", reward=reward))
        arch = [setting.size.width] * setting.size.depth
        policy = {"net_arch": {"pi": arch, "vf": arch}, "activation_fn": ACTIVATIONS[setting.size.activation]}
        policy |= {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {"eps": cfg.adam_eps}}
        common: dict[str, Any] = {"gamma": 1.0, "gae_lambda": cfg.gae_lambda, "max_grad_norm": cfg.max_grad_norm}
        common |= {"vf_coef": cfg.critic_coeff / 2}  # its squared error has no 1/2
        common |= {"n_steps": setting.steps, "normalize_advantage": cfg.normalise_advantage, "device": "cpu", "seed": 0}
        if setting.algo == "ppo":
            common |= {"batch_size": setting.batch, "n_epochs": setting.epochs, "clip_range": cfg.clip}
        else:
            common |= {"use_rms_prop": False}
        self.model = (PPO if setting.algo == "ppo" else A2C)("MlpPolicy", env, policy_kwargs=policy, **common)

    def iterate(self, progress: float) -> int:
        cfg = self.setting.config
        lr = linear(cfg.lr, cfg.lr_end, progress)
        self.model.lr_schedule = lambda _: lr
        self.model.ent_coef = linear(cfg.entropy, cfg.entropy_end, progress)
        steps = self.setting.envs * self.setting.steps
        self.model.learn(steps, reset_num_timesteps=False, log_interval=None)
        return steps
