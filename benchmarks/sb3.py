"""Stable-Baselines3 with the networks and settings of a run, on our gridworlds as a vector environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.pipelines import Autocast, Plan
from drest_torch.algos.base import ADAM_EPSILON
from drest_torch.algos.networks.base import ACTIVATIONS
from drest_torch.config.schema import reward_of
from drest_torch.envs import counter_rng as streams
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.interfaces.slots import Slots
from drest_torch.envs.levels import Level
from drest_torch.reward import Reward


class GridworldVecEnv(VecEnv):
    """Slots with the DReST reward, as a vector environment of Stable-Baselines3 that steps all slots at once."""

    def __init__(self, levels: Sequence[Level], num_envs: int, reward: Reward) -> None:
        mdp = compile_levels(levels)
        self.reward, self.observe = reward, make_observation("centred", mdp)
        self.slots = Slots(mdp, solve(mdp, reward.gamma), num_envs)
        self.counts = torch.zeros(num_envs, self.slots.optima.lengths.shape[1])
        self.coins = torch.zeros(num_envs)
        space = spaces.Box(0.0, float(mdp.max_time), self.observe.shape, np.float32)
        super().__init__(num_envs, space, spaces.Discrete(NUM_ACTIONS))

    def reset(self) -> np.ndarray:
        slot = torch.arange(self.num_envs)
        self.slots.seed(streams.mix(slot, slot * 0), streams.mix(slot, slot * 0 + 1), slot)
        self._begin(torch.ones_like(slot, dtype=torch.bool))
        return self._observation()

    def _begin(self, here: torch.Tensor) -> None:
        """Begin the next mini-episode of these environments, and a new meta-episode if the last is complete."""
        slots = self.slots
        new = here & ((slots.metas == 0) | (self.counts.sum(-1) >= self.reward.episodes_per_meta))
        level = torch.where(new, slots.sample_levels(), slots.now.level)
        slots.metas = slots.metas + new
        self.counts[new] = 0
        self.coins[here] = 0
        slots.start(level, here)

    def _observation(self) -> np.ndarray:
        now = self.slots.now
        return self.observe(now.spot, now.taken, now.time_left).numpy()

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = torch.from_numpy(actions)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict]]:
        slots, ticks = self.slots, self.slots.now.ticks
        played = slots.step(self.actions)
        self.coins += played.coin * self.reward.gamma**ticks
        ended, paid = played.mini_done, torch.zeros(self.num_envs)
        if ended.any():
            column, best = slots.look_up(played.length)
            before = self.counts.gather(-1, column.unsqueeze(-1)).squeeze(-1)
            discount = self.reward.discount(before, self.counts.sum(-1), slots.num_lengths)
            paid = torch.where(ended, self.reward.pay(self.coins, discount, best), 0)
            self.counts.scatter_add_(-1, column.unsqueeze(-1), ended.unsqueeze(-1).float())
            self._begin(ended)
        return self._observation(), paid.numpy(), ended.numpy(), [{}] * self.num_envs  # no end is a truncation

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return [getattr(self, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def close(self) -> None:
        pass


class StableBaselines:
    """PPO or A2C of Stable-Baselines3 with Adam, and a policy and a critic of the same size as ours."""

    def __init__(self, levels: Sequence[Level], plan: Plan) -> None:
        algo, size = plan.cfg.algo, plan.size
        reward = replace(reward_of(plan.cfg), episodes_at_start=None)
        env = GridworldVecEnv(levels, plan.envs, reward)
        arch = [size.width] * size.depth
        policy = {"net_arch": {"pi": arch, "vf": arch}, "activation_fn": ACTIVATIONS[size.activation]}
        policy |= {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {"eps": ADAM_EPSILON}}
        common: dict[str, Any] = {"gamma": 1.0, "gae_lambda": algo.gae_lambda, "max_grad_norm": algo.max_grad_norm}
        common |= {"learning_rate": algo.lr, "ent_coef": algo.entropy, "device": "cpu", "seed": 0}
        common |= {"vf_coef": algo.critic_coeff / 2}  # its squared error has no 1/2
        common |= {"n_steps": plan.steps, "normalize_advantage": algo.normalise_advantage}
        if algo.name == "ppo":
            common |= {"batch_size": plan.minibatch, "n_epochs": plan.epochs, "clip_range": algo.clip}
        else:
            common |= {"use_rms_prop": False}
        kind = PPO if algo.name == "ppo" else A2C
        self.model = kind("MlpPolicy", env, policy_kwargs=policy, **common)
        networks, precision = self.model.policy, plan.precision
        for name in ("policy_net", "value_net"):
            hidden_layers = Autocast(getattr(networks.mlp_extractor, name), precision, is_last=False)
            setattr(networks.mlp_extractor, name, hidden_layers)
        networks.action_net = Autocast(networks.action_net, precision)
        networks.value_net = Autocast(networks.value_net, precision)
        self.steps = plan.envs * plan.steps

    def update(self) -> float:
        """Learn from a batch; return its environment steps."""
        self.model.learn(self.steps, reset_num_timesteps=False, log_interval=None)
        return self.steps
