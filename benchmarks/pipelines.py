"""Complete training as ours has it and as TorchRL's own parts make it, with the same networks and values."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
from omegaconf import OmegaConf
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import A2CLoss, ClipPPOLoss
from torchrl.objectives.value import GAE

from drest_torch import DReSTReward
from drest_torch.algos import ALGORITHMS
from drest_torch.algos.base import linear
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.building.parts import reward_of
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.gridworlds import Gridworlds
from drest_torch.reward import Reward

AS_OTHERS = {
    "ppo": ("reward.group=16", "algo.episodes=4096", "algo.minibatches=8", "algo.epochs=3"),
    "a2c": (),
}
"""Batches that other libraries do well with. Ours are larger by default: many slots on few levels cost us little."""


@dataclass(frozen=True)
class Setting:
    """What all sides are told; ``config`` holds the values of `configs/algo/*.yaml`."""

    algo: str
    size: NetworkSize
    config: Any
    reward: Reward
    envs: int
    steps: int
    """of each environment for one update"""
    group: int = 1

    @property
    def batch(self) -> int:
        return self.envs * self.steps // self.config.minibatches

    @property
    def epochs(self) -> int:
        return self.config.epochs if self.algo == "ppo" else 1


def setting_of(algo: str, *, envs: int = 0, steps: int = 0, **changes: Any) -> Setting:
    """Our defaults, but for `AS_OTHERS`, with these changes to the algorithm's values."""
    cfg = compose(f"algo={algo}", "policy=mlp", "algo.muon_lr=null", "algo.critic_width=null", *AS_OTHERS[algo])
    values: Any = OmegaConf.to_container(cfg.algo, resolve=True)
    policy = cfg.policy
    return Setting(
        algo,
        NetworkSize(policy.width, policy.depth, policy.activation),
        SimpleNamespace(**(values | changes)),
        reward_of(cfg),
        envs=envs or values["episodes"],
        steps=steps,
        group=cfg.reward.group,
    )


class Ours:
    """The parts of a run of this project, without its logging."""

    def __init__(self, mdp: Mdp, setting: Setting) -> None:
        observe, device = make_observation("centred", mdp), mdp.device
        self.rng = torch.Generator(device).manual_seed(0)
        counts = setting.reward.counting == "sequential"
        rounds = setting.reward.episodes_per_meta if counts and setting.group == 1 else 1
        self.worlds = Gridworlds.on(mdp, solve(mdp), observe, slots=setting.envs, rounds=rounds, group=setting.group)
        self.worlds.pay(setting.reward, shows_counts=counts)
        scale, context = observe.scale.cpu(), self.worlds.num_lengths if counts else 0
        policy = Policy(observe.shape, NUM_ACTIONS, setting.size, scale=scale).to(device)
        critic = Critic(observe.shape, setting.size, scale=scale, context=context).to(device)
        parts = {"actor": self.worlds.actor(policy), "value": self.worlds.value(critic), "view": self.worlds.view}
        kind: Any = ALGORITHMS[setting.algo].Algorithm
        self.learner = kind(policy, critic, setting.config, self.rng, **parts, group=self.worlds.group)
        self.collector = self.worlds.collector(self.learner.actor, learns=True)

    def collect(self) -> TensorDictBase:
        """Return a batch [slots, time]."""
        batch = self.collector.collect(self.rng)
        assert self.worlds.view is not None
        self._seen = self.worlds.view._seen
        return batch

    def update(self, batch: TensorDictBase) -> None:
        """Learn from the latest batch, again if need be: the view forgets it after each update."""
        assert self.worlds.view is not None
        self.worlds.view._seen = self._seen
        self.learner.update(batch)

    def iterate(self, progress: float) -> int:
        """Learn from one batch, ``progress`` (0 to 1) into the schedules; return the steps played."""
        self.learner.set_progress(progress)
        steps, metrics = self.learner.weigh(self.collect())
        self.learner.improve(steps, metrics)
        return len(steps)


class TorchRL:
    """The library's own parts on our environment: Collector, DReSTReward, GAE, loss module, Adam."""

    def __init__(self, mdp: Mdp, setting: Setting) -> None:
        self.setting, cfg, reward = setting, setting.config, setting.reward
        device = mdp.device
        observe = make_observation("centred", mdp)
        policy = Policy(observe.shape, NUM_ACTIONS, setting.size, scale=observe.scale.cpu()).to(device)
        actor = ProbabilisticActor(  # the scale of the centred observation is 1, so that the body is the network
            TensorDictModule(policy.net.body, ["observation"], ["logits"]),
            in_keys=["logits"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        )
        critic = ValueOperator(Critic(observe.shape, setting.size, scale=observe.scale.cpu()).to(device).net.body)
        env = GridworldEnv(
            mdp, setting.envs, episodes_per_meta=reward.episodes_per_meta, gamma=reward.gamma, observation="centred"
        )
        paying = DReSTReward(reward.lam, gamma=reward.gamma, num_lengths=env.optima.lengths.shape[1])
        self.frames = setting.envs * setting.steps
        options = {"track_traj_ids": False, "auto_register_policy_transforms": False}
        frames = {"frames_per_batch": self.frames, "total_frames": -1}
        self.batches = iter(Collector(TransformedEnv(env, paying), actor, **frames, **options))
        self.gae = GAE(gamma=1.0, lmbda=cfg.gae_lambda, value_network=critic, deactivate_vmap=True)
        self.gae.set_keys(done="mini_done", terminated="mini_done")
        common: dict[str, Any] = {"critic_coeff": cfg.critic_coeff / 2, "loss_critic_type": "l2", "functional": False}
        if setting.algo == "ppo":
            common |= {"clip_epsilon": cfg.clip}
        kind = ClipPPOLoss if setting.algo == "ppo" else A2CLoss
        self.loss: nn.Module = kind(actor, critic, entropy_coeff=cfg.entropy, **common)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=cfg.lr, eps=cfg.adam_eps)

    def iterate(self, progress: float) -> int:
        cfg = self.setting.config
        cast("torch.Tensor", self.loss.entropy_coeff).fill_(linear(cfg.entropy, cfg.entropy_end, progress))
        for group in self.optimizer.param_groups:
            group["lr"] = linear(cfg.lr, cfg.lr_end, progress)
        with torch.no_grad():
            batch = self.gae(next(self.batches)).reshape(-1)
        if cfg.normalise_advantage:
            advantage = batch["advantage"]
            batch["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        batch = batch.select("observation", "action", "action_log_prob", "advantage", "value_target")
        for _ in range(self.setting.epochs):
            for index in torch.randperm(self.frames, device=batch.device).split(self.setting.batch):
                self.optimizer.zero_grad()
                losses = self.loss(batch[index])
                sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
                nn.utils.clip_grad_norm_(self.loss.parameters(), cfg.max_grad_norm)
                self.optimizer.step()
        return self.frames
