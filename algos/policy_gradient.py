"""Policy-gradient training on sampled mini-episodes: an update of PPO, A2C or REINFORCE."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.algos.base import Effort, Need, NetworkAlgorithm, Share, Source, divergence
from drest_torch.algos.networks.policy import weights_unchanged
from drest_torch.algos.networks.regularization import sub_network
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward

if TYPE_CHECKING:  # importing TorchRL takes seconds, and configurations do not need it
    from tensordict import TensorDictBase
    from torchrl.objectives import LossModule

    from drest_torch.algos.actor import Actor

LONG = 256
"""The number of time steps from which TorchRL's vectorised GAE is faster than its loop over time."""
METRICS = {
    "loss_objective": "loss/objective",
    "loss_actor": "loss/objective",
    "loss_critic": "loss/critic",
    "entropy": "policy/entropy",
    "kl_approx": "policy/kl",
    "clip_fraction": "policy/clip_fraction",
}
"""The metrics for the outputs of TorchRL's losses; any other output is logged as ``loss/NAME``."""
UNUSED = ("loss_entropy", "max_ratio", "mean_ratio")


class SampledAlgorithm(NetworkAlgorithm):
    """A policy-gradient algorithm on batches [slots, time] of whole mini-episodes. Subclasses provide the loss.

    ``environment`` is a `drest_torch.play.collector.Environment`, whose slots play the batches. Minibatches are random
    steps of the whole batch or, if slots form groups, whole groups, which share states. They are used once, or for the
    configured ``epochs``. With ``max_kl`` an update ends at a minibatch with a larger divergence from the policy that
    played it.

    With dropout an update trains one sub-network, on steps that the whole network has played. Probability ratios and
    divergences compare the sub-network with itself before the update.
    """

    drops_units = True

    def __init__(
        self,
        policy: Any,
        critic: Any,
        config: Any,
        rng: torch.Generator,
        *,
        environment: Any,
        precision: torch.dtype = torch.float32,
    ) -> None:
        from torchrl.objectives.value import GAE

        from drest_torch.algos.actor import ObservationTable

        super().__init__(policy, critic, config, rng, precision=precision)
        self.environment = environment
        self.view, self.table = environment.view, ObservationTable()
        if self.view is not None:
            self.view.are_rounded = all(getattr(network, "rounds_inputs", False) for network in self.networks)
        self.actor = environment.actor(policy, self.table, precision=precision)
        self.value = environment.value(critic, self.table, precision=precision)
        self.group = environment.group or self.actor.reads.slots_together
        self.epochs, self.max_kl = getattr(config, "epochs", 1), getattr(config, "max_kl", None)
        self.loss = self.make_loss(self.actor, self.value)
        self.gae = GAE(gamma=1.0, lmbda=1.0 if critic is None else config.gae_lambda, value_network=None)
        end = "mini_done" if config.credit == "mini" else "done"
        self.gae.set_keys(done=end, terminated=end)
        plays = environment.actor(policy, precision=precision)
        self.collector = environment.collector(plays, learns=True)
        self._limit: tuple[int, float] | None = None

    @classmethod
    def on(cls, task: Source, config: Any, rng: torch.Generator) -> SampledAlgorithm:
        environment = task.environment(with_critic=cls.needs_critic)
        context = environment.critic_context if cls.needs_critic else None
        policy, critic = task.networks(critic_width=getattr(config, "critic_width", None), context=context)
        return cls(policy, critic, config, rng, environment=environment, precision=task.precision)

    @classmethod
    def needs(cls, cfg: Any, objective: Any) -> Iterator[Need]:
        reward, named = cfg.reward, f"objective={cfg.objective.name}"
        counting = f"reward.counting={reward.counting}"
        if objective is not None:
            if not objective.can_be_sampled():
                yield "algo.name", "generalist", f", but {named} as it is set needs the exact outcome of levels"
            yield "reward.counting", "averaged", f" has no groups, and {named} compares their mini-episodes"
        if reward.counting == "sequential":
            yield "reward.episodes_at_start", None, f", but with {counting} a meta-episode is as long as it is"
            return
        beside = f"which with {counting} are side by side, unlike sequential ones"
        yield "algo.credit", "mini", f" goes from one mini-episode to the next, {beside}"
        yield "reward.group", max(2, reward.group), f", but with {counting} a batch is whole groups of at least 2"

    @classmethod
    def shares(cls, shares: Iterable[Share]) -> Iterable[Share]:
        return shares

    @abstractmethod
    def make_loss(self, actor: Actor, value: Any) -> LossModule:
        """Return the loss: a module of `torchrl.objectives` that shares the weights of the networks."""

    # ------------------------------------------------------------------------------------ one update

    def update(self, reward: Reward) -> dict[str, Any]:
        """Collect a batch with this reward, and train on its steps."""
        self.environment.set_reward(reward)
        self.environment.renew_levels()
        if self._limit is not None:
            self.environment.limit(*self._limit)
        with sub_network(self.policy, self.rng):
            with weights_unchanged(self.policy, self.critic):
                batch = self.collector.collect(self.rng)  # [slots, time]: a meta-episode of each slot
                steps = self.with_advantages(batch)  # [N]: the steps of complete mini-episodes
            metrics = self.metrics_of(batch, steps)  # learning normalises the advantages in place
            metrics |= self.learn(steps)
        return metrics | self.environment.metrics()

    def limit(self, steps: int, steps_per_turn: float) -> None:
        self._limit = steps, steps_per_turn

    @property
    def whole_batch(self) -> float:
        whole: float = self.environment.whole_batch
        return whole

    def learn(self, steps: TensorDictBase) -> dict[str, Any]:
        """Train on steps with their advantages, minibatch by minibatch; return the mean metrics."""
        if self.config.normalise_advantage:
            steps["advantage"] = normalised(steps["advantage"])
        history: list[dict[str, Tensor]] = []
        for part in self.minibatches(steps):
            metrics = self.step(part)
            if metrics is None:
                break
            history.append(metrics)
        self.table.clear()
        means = {name: torch.stack([step[name] for step in history]).mean(0) for name in history[0]}
        return means | {"optim/steps": len(history)}

    def step(self, part: TensorDictBase) -> dict[str, Tensor] | None:
        """Take one optimiser step on a minibatch; return None if ``max_kl`` is exceeded."""
        with weights_unchanged(self.policy, self.critic):
            losses = self.loss(part)
        if self.max_kl is not None and float(losses["kl_approx"].detach()) > self.max_kl:
            return None
        total = sum(value for name, value in losses.items() if name.startswith("loss_"))
        if self.anchor is not None:
            total = total + self.penalty(part)
        return _metrics_of(losses) | {"optim/grad_norm": self.descend(total)}

    def stay_close(self, policy: Any, weight: float) -> None:
        super().stay_close(policy, weight)
        self.reference = self.environment.actor(policy, self.table, precision=self.precision)

    def penalty(self, part: TensorDictBase) -> Tensor:
        """Return the penalty on the divergence from the fixed policy of `stay_close`, for the steps of a minibatch."""
        assert self.anchor is not None
        with torch.no_grad():
            reference = self.reference.get_dist(part).outputs
        return self.anchor[1] * divergence(self.actor.get_dist(part).outputs, reference).mean()

    @torch.no_grad()
    def with_advantages(self, batch: TensorDictBase) -> TensorDictBase:
        """Return the steps [N] of complete mini-episodes, with their advantages.

        Generalised advantage estimation runs on the batch [slots, time], which has the steps in order.
        """
        from tensordict import TensorDict
        from torch.nn.functional import pad

        if self.view is not None:
            self.table.fill(self.view, batch)
        steps = self.steps_of(batch)
        slot, time = steps["slot"], steps.pop("time")
        values = torch.zeros_like(batch.get(("next", "reward")))  # [slots, time, 1]; 0 where nothing was played
        if self.value is not None:
            values[slot, time] = self.value(steps).pop("state_value")
        after = batch.get("next").select("reward", "mini_done", "done")
        after["state_value"] = pad(values[:, 1:], (0, 0, 0, 1))  # the last step always ends an episode
        self.gae.vectorized = batch.shape[1] > LONG
        whole = self.gae(TensorDict({"state_value": values, "next": after}, batch.shape))
        for key in ("advantage", "value_target"):
            steps[key] = whole[key][slot, time]
        steps["advantage"] = self.baselined(steps)
        return steps

    def steps_of(self, batch: TensorDictBase) -> TensorDictBase:
        """Return the steps [N] of complete mini-episodes in a batch, slot by slot, with their slot and time."""
        from tensordict import TensorDict

        from drest_torch.transforms.mini_episodes import played

        slot, time = played(batch).nonzero(as_tuple=True)
        if len(slot) == 0:
            raise ConfigError(f"no mini-episode ended within {batch.shape[1]} steps; train with levels.clock=steps")
        inputs = set(self.actor.in_keys)
        if self.value is not None:
            inputs |= set(self.value.in_keys)
        keys = [*(inputs - {"memory"}), "action", self.actor.log_prob_keys[0]]
        steps = TensorDict({key: batch.get(key)[slot, time] for key in keys}, [len(slot)])
        return steps.set("slot", slot).set("time", time)

    def baselined(self, steps: TensorDictBase) -> Tensor:
        """Return the advantages [N, 1], minus a baseline if the algorithm has one besides its critic."""
        return steps["advantage"]

    def sizes_of_groups(self, steps: TensorDictBase) -> Tensor:
        """Return the number of steps of each group of slots; the steps of a group are contiguous."""
        sizes = (steps["slot"] // (self.group or 1)).bincount()
        return sizes[sizes > 0]

    def minibatches(self, steps: TensorDictBase) -> Iterator[TensorDictBase]:
        """Yield the minibatches of each epoch: steps in random order, or whole groups of slots."""
        rng, number, groups = self.rng, len(steps), None
        if self.group is not None:
            sizes = self.sizes_of_groups(steps)
            groups = torch.arange(len(steps), device=steps.device).split(sizes.tolist())
            number = len(groups)
        for _ in range(self.epochs):
            order = torch.randperm(number, generator=rng, device=rng.device)
            for part in order.tensor_split(min(self.config.minibatches, number)):
                if groups is not None:
                    part = torch.cat([groups[group] for group in part.tolist()])
                yield steps[part]

    def metrics_of(self, batch: TensorDictBase, steps: TensorDictBase) -> dict[str, Any]:
        """Return the metrics of a batch before training on it, and set `effort`."""
        episodes = int(batch.get(("next", "mini_done")).sum())
        self.effort = Effort(steps=len(steps), episodes=episodes, turns=self.environment.turns)
        metrics = {
            "train/return": batch.get(("next", "reward")).sum() / episodes,
            "train/mini_episode_steps": len(steps) / episodes,
        }
        if self.value is not None:
            unexplained = steps["advantage"].var() / steps["value_target"].var().clamp_min(1e-16)
            metrics["critic/explained_variance"] = 1 - unexplained
        return metrics

    # ------------------------------------------------------------------------------------ its state

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of the average and of the loss, without the weights of the networks."""
        networks = {tensor.data_ptr() for tensor in self.networks.state_dict().values()}
        state = self.loss.state_dict()
        losses = {f"loss.{name}": tensor for name, tensor in state.items() if tensor.data_ptr() not in networks}
        return super().tensors() | losses

    def set_progress(self, progress: float) -> None:
        super().set_progress(progress)
        if hasattr(self, "loss") and isinstance(getattr(self.loss, "entropy_coeff", None), Tensor):
            self.loss.entropy_coeff.fill_(self.entropy_coeff)

    def shared(self) -> dict[str, Any]:
        """Return the common arguments of TorchRL's actor-critic losses."""
        return {
            "entropy_coeff": self.config.entropy,
            "critic_coeff": self.config.critic_coeff / 2,
            "loss_critic_type": "l2",
            "functional": False,
        }


def normalised(advantage: Tensor) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1."""
    return (advantage - advantage.mean()) / (advantage.std() + 1e-8)


def _metrics_of(losses: TensorDictBase) -> dict[str, Tensor]:
    """Return the metrics of a loss."""
    metrics = {
        METRICS.get(name, f"loss/{name}"): value.detach().mean() for name, value in losses.items() if name not in UNUSED
    }
    if "loss/objective" in metrics:
        metrics["loss/objective"] = -metrics["loss/objective"]
    return metrics
