"""Stable-Baselines3 with the same networks and values as ours, on plain environments and on our vector of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from torch import Tensor

from benchmarks.pipelines import Setting
from benchmarks.plain import PlainEnv, PlainLevels
from drest_torch.algos.base import linear
from drest_torch.algos.networks.base import ACTIVATIONS
from drest_torch.envs.interfaces.gymnasium_env import GridworldVectorEnv
from drest_torch.reward import Reward


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


def plain_vec_env(levels: PlainLevels, reward: Reward, envs: int, kind: type[VecEnv] = DummyVecEnv) -> VecEnv:
    return kind([lambda seed=seed: PlainEnv(levels, reward, seed) for seed in range(envs)])


class StableBaselines:
    """Its PPO or A2C with Adam, a policy and a critic of the same size as ours, and our schedules."""

    def __init__(self, env: VecEnv, setting: Setting) -> None:
        self.setting, cfg = setting, setting.config
        arch = [setting.size.width] * setting.size.depth
        common: dict[str, Any] = {
            "n_steps": setting.steps,
            "gamma": 1.0,
            "gae_lambda": cfg.gae_lambda,
            "vf_coef": cfg.critic_coeff / 2,  # its squared error has no 1/2
            "max_grad_norm": cfg.max_grad_norm,
            "normalize_advantage": cfg.normalise_advantage,
            "policy_kwargs": {
                "net_arch": {"pi": arch, "vf": arch},
                "activation_fn": ACTIVATIONS[setting.size.activation],
                "optimizer_class": torch.optim.Adam,
                "optimizer_kwargs": {"eps": cfg.adam_eps},
            },
            "device": "cpu",
            "seed": 0,
        }
        if setting.algo == "ppo":
            self.model = PPO(
                "MlpPolicy", env, batch_size=setting.batch, n_epochs=setting.epochs, clip_range=cfg.clip, **common
            )
        else:
            self.model = A2C("MlpPolicy", env, use_rms_prop=False, **common)

    def iterate(self, progress: float) -> int:
        cfg = self.setting.config
        lr = linear(cfg.lr, cfg.lr_end, progress)
        self.model.lr_schedule = lambda _: lr
        self.model.ent_coef = linear(cfg.entropy, cfg.entropy_end, progress)
        steps = self.setting.envs * self.setting.steps
        self.model.learn(steps, reset_num_timesteps=False, log_interval=None)
        return steps

    def collector(self, steps: int) -> Callable[[], float]:
        """Its collection alone, so many steps of every environment at a time."""
        model = self.model
        _, callback = model._setup_learn(10**12)
        callback.on_training_start({}, {})
        buffer = type(model.rollout_buffer)(
            steps,
            model.observation_space,
            model.action_space,
            device="cpu",
            gamma=model.gamma,
            gae_lambda=model.gae_lambda,
            n_envs=model.n_envs,
        )

        def work() -> float:
            model.collect_rollouts(model.env, callback, buffer, n_rollout_steps=steps)
            return steps * model.n_envs

        return work

    def logits(self, observation: Tensor) -> Tensor:
        return self.model.policy.get_distribution(observation).distribution.logits
