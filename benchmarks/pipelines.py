"""Complete training by this project and with the components of TorchRL, with the same networks and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
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
from drest_torch.algos.networks.precision import BFLOAT16, FLOAT32, supports_bfloat16
from drest_torch.config.compose import compose
from drest_torch.config.schema import reward_of
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import Level
from drest_torch.tasks.gridworlds import GridworldTask
from drest_torch.training.run import Run, run_of

AS_OTHERS = {
    "ppo": ("reward.group=16", "algo.episodes=4096", "algo.minibatches=8", "algo.epochs=3"),
    "a2c": ("algo.minibatches=1",),  # the A2C of Stable-Baselines3 has no minibatches
}
"""Batches that suit other libraries. Our defaults are larger, because many slots on few levels cost little."""
PLAIN = (
    *("policy=mlp", "policy.observation=centred", "algo.muon_lr=null", "algo.critic_width=null"),
    *("levels.selection=0", "levels.test=1", "test.paper=false", "logger=none", "progress=false", "run_dir=unused"),
)
"""A network and an optimiser that other libraries have, without evaluation."""


def precisions() -> tuple[str, ...]:
    """Return the precisions that this processor supports."""
    if supports_bfloat16(torch.device("cpu")):
        return FLOAT32, BFLOAT16
    return (FLOAT32,)


def our_run(bench: Bench, algo: str, *words: str, precision: str = FLOAT32) -> Run:
    """Return a run on random levels, which writes no files before training."""
    levels = f"levels.train={bench.size(2_000, 20)}"
    batch = list(AS_OTHERS[algo])
    if bench.quick:
        batch += ["algo.episodes=64", "reward.group=2", "reward.episodes_per_meta=2"]
    cfg = compose(f"algo={algo}", levels, *PLAIN, *batch, f"precision={precision}", *words)
    return run_of(cfg, Path("unused"))


@contextmanager
def critics_without_counts() -> Iterator[None]:
    """Start runs whose critic only sees the observation, like the critics of other libraries.

    With sequential counting the critic of a run usually also sees how often each length was chosen.
    """
    environment = GridworldTask.environment

    def without_counts(task: GridworldTask, *, with_critic: bool) -> Any:
        return environment(task, with_critic=False)

    with patch.object(GridworldTask, "environment", without_counts):
        yield


def updates(run: Run) -> Work:
    """Return work that makes an update of a run, counted in environment steps."""

    def work() -> float:
        before = run.state.steps
        run.update()
        return run.state.steps - before

    return work


@dataclass(frozen=True)
class Plan:
    """The training of other libraries with the settings of a run."""

    cfg: Any
    envs: int
    steps: int
    """Steps of each environment in an update."""
    precision: str = FLOAT32

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


class Autocast(nn.Module):
    """A network that computes in a precision. Its outputs are float32 unless another network follows."""

    def __init__(self, network: nn.Module, precision: str, *, is_last: bool = True) -> None:
        super().__init__()
        self.network, self.is_bfloat16, self.is_last = network, precision == BFLOAT16, is_last

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.is_bfloat16):
            outputs: Tensor = self.network(inputs)
        return outputs.float() if self.is_last else outputs


class TorchRL:
    """TorchRL's components on our environment: Collector, DReSTReward, GAE, a loss module, Adam."""

    def __init__(self, levels: Sequence[Level], plan: Plan) -> None:
        self.plan, self.algo, reward = plan, plan.cfg.algo, reward_of(plan.cfg)
        mdp = compile_levels(levels)
        observe = make_observation("centred", mdp)
        # The scale of the centred observation is 1, so the body is the whole network.
        policy = Policy(observe.shape, NUM_ACTIONS, plan.size, scale=observe.scale).net.body
        critic = Critic(observe.shape, plan.size, scale=observe.scale).net.body
        actor = ProbabilisticActor(
            TensorDictModule(Autocast(policy, plan.precision), ["observation"], ["logits"]),
            in_keys=["logits"],
            distribution_class=torch.distributions.Categorical,
            return_log_prob=True,
        )
        value = ValueOperator(Autocast(critic, plan.precision))
        env = GridworldEnv(
            mdp, plan.envs, episodes_per_meta=reward.episodes_per_meta, gamma=reward.gamma, observation="centred"
        )
        paying = DReSTReward(reward.lam, gamma=reward.gamma, num_lengths=env.optima.lengths.shape[1])
        self.frames = plan.envs * plan.steps
        options = {"track_traj_ids": False, "auto_register_policy_transforms": False}
        frames = {"frames_per_batch": self.frames, "total_frames": -1}
        self.batches = iter(Collector(TransformedEnv(env, paying), actor, **frames, **options))
        self.gae = GAE(gamma=1.0, lmbda=self.algo.gae_lambda, value_network=value, deactivate_vmap=True)
        self.gae.set_keys(done="mini_done", terminated="mini_done")
        common: dict[str, Any] = {"critic_coeff": self.algo.critic_coeff / 2, "loss_critic_type": "l2"}
        if self.algo.name == "ppo":
            common |= {"clip_epsilon": self.algo.clip}
        kind = ClipPPOLoss if self.algo.name == "ppo" else A2CLoss
        self.loss: nn.Module = kind(actor, value, entropy_coeff=self.algo.entropy, functional=False, **common)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=self.algo.lr, eps=ADAM_EPSILON)

    def update(self) -> float:
        """Learn from a batch; return its environment steps."""
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
