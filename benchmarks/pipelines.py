"""Complete training as ours has it and as TorchRL's own parts make it, with the same networks and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import TransformedEnv
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import A2CLoss, ClipPPOLoss
from torchrl.objectives.value import GAE

from benchmarks.measuring import Bench, Work
from drest_torch import DReSTReward
from drest_torch.algos.base import ADAM_EPSILON
from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Critic, Policy
from drest_torch.config.compose import compose
from drest_torch.config.schema import reward_of
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import Level
from drest_torch.training.run import Run, run_of

AS_OTHERS = {
    "ppo": ("reward.group=16", "algo.episodes=4096", "algo.minibatches=8", "algo.epochs=3"),
    "a2c": ("algo.minibatches=1",),  # those of Stable-Baselines3 has none
}
"""Batches that other libraries do well with. Ours are larger by default: many slots on few levels cost us little."""
PLAIN = (
    *("policy=mlp", "policy.observation=centred", "algo.muon_lr=null", "algo.critic_width=null"),
    *("levels.selection=0", "levels.test=1", "test.paper=false", "logger=none", "progress=false", "run_dir=unused"),
)
"""What others have as well, and nothing to evaluate on."""


def our_run(bench: Bench, algo: str, *words: str) -> Run:
    """A run of ours on random levels, which writes nothing before it trains."""
    levels = f"levels.train={bench.size(2_000, 20)}"
    few = ("algo.episodes=64", "reward.group=2", "reward.episodes_per_meta=2") if bench.quick else ()
    return run_of(compose(f"algo={algo}", levels, *PLAIN, *AS_OTHERS[algo], *few, *words), Path("unused"))


def updates(run: Run) -> Work:
    """An update of ours; the steps of it."""

    def work() -> float:
        before = run.state.steps
        run.update()
        return run.state.steps - before

    return work


@dataclass(frozen=True)
class Plan:
    """How others train with the values of a run of ours."""

    cfg: Any
    envs: int
    steps: int
    """of each environment for one update"""

    @property
    def minibatch(self) -> int:
        return self.envs * self.steps // self.cfg.algo.minibatches

    @property
    def epochs(self) -> int:
        return self.cfg.algo.epochs if self.cfg.algo.name == "ppo" else 1

    @property
    def size(self) -> NetworkSize:
        policy = self.cfg.policy
        return NetworkSize(policy.width, policy.depth, policy.activation)


class TorchRL:
    """The library's own parts on our environment: Collector, DReSTReward, GAE, loss module, Adam."""

    def __init__(self, levels: Sequence[Level], plan: Plan) -> None:
        self.plan, self.algo, reward = plan, plan.cfg.algo, reward_of(plan.cfg)
        mdp = compile_levels(levels)
        observe = make_observation("centred", mdp)
        policy = Policy(observe.shape, NUM_ACTIONS, plan.size, scale=observe.scale)
        actor = ProbabilisticActor(  # the scale of the centred observation is 1, so that the body is the network
            TensorDictModule(policy.net.body, ["observation"], ["logits"]),
            in_keys=["logits"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        )
        critic = ValueOperator(Critic(observe.shape, plan.size, scale=observe.scale).net.body)
        env = GridworldEnv(
            mdp, plan.envs, episodes_per_meta=reward.episodes_per_meta, gamma=reward.gamma, observation="centred"
        )
        paying = DReSTReward(reward.lam, gamma=reward.gamma, num_lengths=env.optima.lengths.shape[1])
        self.frames = plan.envs * plan.steps
        options = {"track_traj_ids": False, "auto_register_policy_transforms": False}
        frames = {"frames_per_batch": self.frames, "total_frames": -1}
        self.batches = iter(Collector(TransformedEnv(env, paying), actor, **frames, **options))
        self.gae = GAE(gamma=1.0, lmbda=self.algo.gae_lambda, value_network=critic, deactivate_vmap=True)
        self.gae.set_keys(done="mini_done", terminated="mini_done")
        common: dict[str, Any] = {"critic_coeff": self.algo.critic_coeff / 2, "loss_critic_type": "l2"}
        if self.algo.name == "ppo":
            common |= {"clip_epsilon": self.algo.clip}
        kind = ClipPPOLoss if self.algo.name == "ppo" else A2CLoss
        self.loss: nn.Module = kind(actor, critic, entropy_coeff=self.algo.entropy, functional=False, **common)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=self.algo.lr, eps=ADAM_EPSILON)

    def update(self) -> float:
        """Learn from one batch; return the steps played."""
        with torch.no_grad():
            batch = self.gae(next(self.batches)).reshape(-1)
        if self.algo.normalise_advantage:
            advantage = batch["advantage"]
            batch["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        batch = batch.select("observation", "action", "action_log_prob", "advantage", "value_target")
        for _ in range(self.plan.epochs):
            for index in torch.randperm(self.frames).split(self.plan.minibatch):
                self.optimizer.zero_grad()
                losses = self.loss(batch[index])
                sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
                nn.utils.clip_grad_norm_(self.loss.parameters(), self.algo.max_grad_norm)
                self.optimizer.step()
        return self.frames
