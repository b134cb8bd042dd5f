"""What ours is measured against: Stable-Baselines3, and TorchRL's own pipeline, with the same networks.

The Gymnasium environment that Stable-Baselines3 plays is written as one writes it for speed in plain Python,
so that the comparison does not charge it with our tensors; `check_plain` holds it to ours.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.envs import TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import A2CLoss, ClipPPOLoss
from torchrl.objectives.value import GAE

from algos.networks import ACTIVATIONS, Critic, Policy, Size
from algos.updates import linear
from drest_torch import DReSTReward
from envs.gridworld import GridworldEnv
from envs.gym import GridworldGymEnv, GridworldVectorEnv, MetaReward
from envs.levels import Level
from envs.mdp import NUM_ACTIONS, STEPS, Mdp, compile_levels
from envs.observations import CentredObservation, make_observation
from envs.solver import solve


@dataclass(frozen=True)
class Setting:
    """What both sides are told; ``config`` holds the values of `configs/algo/*.yaml`."""

    algo: str
    size: Size
    config: Any
    reward: MetaReward
    envs: int
    steps: int
    """of each environment for one update"""
    counting: str = "sequential"
    group: int = 1

    @property
    def batch(self) -> int:
        return self.envs * self.steps // self.config.minibatches

    @property
    def epochs(self) -> int:
        return self.config.epochs if self.algo == "ppo" else 1


# ------------------------------------------------------------------- the environment in plain Python


class PlainLevels:
    """A level set as Python lists and numpy arrays, shared by all environments that play it."""

    def __init__(self, levels: Sequence[Level]) -> None:
        mdp, unit = compile_levels(levels), CentredObservation.DELAY_UNIT
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
        steps = np.clip(times - np.arange(CentredObservation.TIME_STEPS), 0, 1)
        self.times = np.concatenate([steps, times / (2 * unit)], axis=1).astype(np.float32)


class PlainEnv(gymnasium.Env):
    """The same worlds, reward and `centred` observation without a tensor."""

    def __init__(self, levels: PlainLevels, reward: MetaReward, seed: int = 0) -> None:
        self.levels, self.lam, self.episodes = levels, reward.lam, reward.episodes_per_meta
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


def check_plain(levels: Sequence[Level], mini_episodes: int = 300) -> None:
    """The plain environment must say what ours says."""
    reward = MetaReward(episodes_per_meta=8)
    plain, ours = PlainEnv(PlainLevels(levels), reward), GridworldGymEnv(levels, observation="centred", reward=reward)
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


# ------------------------------------------------------------------------------- Stable-Baselines3


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


def plain_vec_env(levels: PlainLevels, reward: MetaReward, envs: int, kind: type[VecEnv] = DummyVecEnv) -> VecEnv:
    return kind([lambda seed=seed: PlainEnv(levels, reward, seed) for seed in range(envs)])


def raw_rates(levels: Sequence[Level]) -> dict[str, float]:
    """Environment steps/s with random actions in what Stable-Baselines3 can play."""
    reward = MetaReward()
    some = PlainLevels(levels[:200])  # each process of SubprocVecEnv gets a copy of the levels
    kinds = {
        "SubprocVecEnv, 8 plain environments": plain_vec_env(some, reward, 8, SubprocVecEnv),
        "DummyVecEnv, 8 plain environments": plain_vec_env(some, reward, 8),
        "DummyVecEnv, 64 plain environments": plain_vec_env(some, reward, 64),
        "our vector environment, 64": TensorVecEnv(GridworldVectorEnv(levels, 64, observation="centred")),
        "our vector environment, 512": TensorVecEnv(GridworldVectorEnv(levels, 512, observation="centred")),
    }
    rates = {}
    for name, env in kinds.items():
        env.reset()
        actions = np.random.default_rng(0).integers(NUM_ACTIONS, size=(500, env.num_envs))
        began = time.perf_counter()
        for action in actions:
            env.step(action)
        rates[name] = actions.size / (time.perf_counter() - began)
        env.close()
    return rates


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

    def probabilities(self, observation: Tensor) -> Tensor:
        return self.model.policy.get_distribution(observation).distribution.probs


# ----------------------------------------------------------------------------------------- TorchRL


class TorchRL:
    """The library's own parts on our environment: Collector, DReSTReward, GAE, loss module, Adam."""

    def __init__(self, mdp: Mdp, setting: Setting) -> None:
        self.setting, cfg, reward = setting, setting.config, setting.reward
        observe = make_observation("centred", mdp)
        self.policy = Policy(observe.shape, NUM_ACTIONS, setting.size, scale=observe.scale)
        # The scale of this observation is 1, so the bodies are the networks, for any batch shape.
        actor = ProbabilisticActor(
            TensorDictModule(self.policy.net.body, ["observation"], ["logits"]),
            in_keys=["logits"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        )
        critic = ValueOperator(Critic(observe.shape, setting.size, scale=observe.scale).net.body)
        env = GridworldEnv(
            mdp, setting.envs, episodes_per_meta=reward.episodes_per_meta, gamma=reward.gamma, observation="centred"
        )
        paying = DReSTReward(reward.lam, gamma=reward.gamma, num_lengths=env.optima.lengths.shape[1])
        self.frames = setting.envs * setting.steps
        self.collector = Collector(
            TransformedEnv(env, paying),
            actor,
            frames_per_batch=self.frames,
            total_frames=-1,
            track_traj_ids=False,
            auto_register_policy_transforms=False,
        )
        self.batches = iter(self.collector)
        self.gae = GAE(gamma=1.0, lmbda=cfg.gae_lambda, value_network=critic, deactivate_vmap=True)
        self.gae.set_keys(done="mini_done", terminated="mini_done")
        common = {"critic_coeff": cfg.critic_coeff / 2, "loss_critic_type": "l2", "functional": False}
        if setting.algo == "ppo":
            self.loss: nn.Module = ClipPPOLoss(
                actor, critic, clip_epsilon=cfg.clip, entropy_coeff=cfg.entropy, **common
            )
        else:
            self.loss = A2CLoss(actor, critic, entropy_coeff=cfg.entropy, **common)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=cfg.lr, eps=cfg.adam_eps)

    def iterate(self, progress: float) -> int:
        cfg = self.setting.config
        self.loss.entropy_coeff.fill_(linear(cfg.entropy, cfg.entropy_end, progress))
        for group in self.optimizer.param_groups:
            group["lr"] = linear(cfg.lr, cfg.lr_end, progress)
        with torch.no_grad():
            batch = self.gae(next(self.batches)).reshape(-1)
        if cfg.normalise_advantage:
            advantage = batch["advantage"]
            batch["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        batch = batch.select("observation", "action", "action_log_prob", "advantage", "value_target")
        for _ in range(self.setting.epochs):
            for index in torch.randperm(self.frames).split(self.setting.batch):
                self._descend(self.loss(batch[index]))
        return self.frames

    def _descend(self, losses: Any) -> None:
        self.optimizer.zero_grad()
        sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
        nn.utils.clip_grad_norm_(self.loss.parameters(), self.setting.config.max_grad_norm)
        self.optimizer.step()

    def probabilities(self, observation: Tensor) -> Tensor:
        return self.policy(observation).softmax(-1)
