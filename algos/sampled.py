"""Algorithms that learn from sampled mini-episodes: a loss of TorchRL, on minibatches of a collected batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.algos.base import NetworkConfig, NetworkLearner
from drest_torch.algos.networks.policy import weights_unchanged
from drest_torch.limits import limited

if TYPE_CHECKING:  # TorchRL takes seconds to import, and a configuration needs none of it
    from tensordict import TensorDictBase
    from tensordict.nn import TensorDictModule
    from torchrl.objectives import LossModule

    from drest_torch.algos.actor import Actor, StateView

LONG = 256
"""With more steps than this, TorchRL's vectorised GAE is faster than its loop over time."""
METRICS = {
    "loss_critic": "loss/critic",
    "entropy": "policy/entropy",
    "kl_approx": "policy/kl",
    "clip_fraction": "policy/clip_fraction",
}
"""Our names of what TorchRL's losses return; any other number is logged as ``loss/NAME``."""
UNUSED = ("loss_entropy", "max_ratio", "mean_ratio")


@dataclass
class SampledConfig(NetworkConfig):
    """The settings of algorithms that learn from sampled mini-episodes."""

    episodes: int = limited(at_least=1, default=1024)
    """Mini-episodes that are played for one batch."""
    minibatches: int = limited(at_least=1, default=1)
    """Parts that a batch is split into, one optimiser step each."""
    normalise_advantage: bool = False
    """Whether advantages are shifted and scaled to mean 0 and deviation 1 over the batch."""


@dataclass
class CriticConfig(SampledConfig):
    """The further settings of algorithms with a critic."""

    critic_width: int | None = limited(at_least=1, default=None)
    """Units of the critic's hidden layers; null: as many as the policy has. A convolutional critic reads the policy's
    map."""
    gae_lambda: float = limited(at_least=0, at_most=1, default=0.95)
    """Lambda of generalised advantage estimation."""
    critic_coeff: float = limited(at_least=0, default=0.5)
    """Weight of the critic's squared error."""


class SampledLearner(NetworkLearner):
    """A policy-gradient algorithm on batches [slots, time] of whole mini-episodes. Subclasses make the loss.

    ``actor`` and ``value`` are the policy and the critic as modules of TorchRL. Minibatches are steps drawn from the
    whole batch, or with ``group`` whole groups of so many neighbouring slots, which share states.
    """

    epochs = 1
    max_kl: float | None = None
    """The update ends when the policy of a minibatch is further than this from the one that played it."""

    def __init__(
        self,
        policy: Any,
        critic: Any,
        config: Any,
        rng: torch.Generator,
        *,
        actor: Actor,
        value: TensorDictModule | None,
        view: StateView | None = None,
        group: int | None = None,
    ) -> None:
        from torchrl.objectives.value import GAE

        super().__init__(policy, critic, config, rng)
        self.actor, self.value, self.view, self.group = actor, value, view, group
        self.loss = self.make_loss(actor, value)
        self.gae = GAE(gamma=1.0, lmbda=1.0 if value is None else config.gae_lambda, value_network=None)
        ends = "mini_done" if config.credit == "mini" else "done"
        self.gae.set_keys(done=ends, terminated=ends)

    @abstractmethod
    def make_loss(self, actor: Actor, value: Any) -> LossModule:
        """Return the loss: a module of `torchrl.objectives` that shares the weights of the networks."""

    def update(self, batch: TensorDictBase) -> dict[str, Tensor]:
        return self.improve(*self.weigh(batch))

    def improve(self, steps: TensorDictBase, metrics: dict[str, Tensor]) -> dict[str, Tensor]:
        """Train on what `weigh` returns; return its metrics and those of training."""
        history: list[dict[str, Tensor]] = []
        for part in (part for _ in range(self.epochs) for part in self._minibatches(steps)):
            if (step := self._descend(part)) is None:
                break
            history.append(step)
        if self.view is not None:
            self.view.forget()
        means = {name: torch.stack([step[name] for step in history]).mean(0) for name in history[0]}
        return metrics | means | {"optim/steps": torch.tensor(len(history))}

    def steps_of(self, batch: TensorDictBase) -> TensorDictBase:
        """Return the steps [N] of the mini-episodes that ended in a batch, slot by slot."""
        from tensordict import TensorDict

        from drest_torch.transforms.base import played

        slot, time = played(batch).nonzero(as_tuple=True)
        inputs = {*self.actor.in_keys, *(self.value.in_keys if self.value is not None else [])} - {"memory"}
        keys = [*inputs, "action", self.actor.log_prob_keys[0]]
        steps = TensorDict({key: batch.get(key)[slot, time] for key in keys}, [len(slot)])
        return steps.set("slot", slot).set("time", time)

    @torch.no_grad()
    def weigh(self, batch: TensorDictBase) -> tuple[TensorDictBase, dict[str, Tensor]]:
        """Return the steps that were played [N] with their advantages, and metrics."""
        from tensordict import TensorDict

        steps = self.steps_of(batch)
        slot, time = steps.pop("slot"), steps.pop("time")
        if self.view is not None:
            steps["state"] = self.view.keep()[slot, time]
        values = torch.zeros_like(batch.get(("next", "reward")))
        if self.value is not None:
            with weights_unchanged(self.policy, self.critic):
                values[slot, time] = self.value(steps).pop("state_value")
        to_come = torch.cat((values[:, 1:], torch.zeros_like(values[:, :1])), 1)
        following = batch.get("next").select("reward", "mini_done", "done")
        weighed = TensorDict({"state_value": values, "next": following.set("state_value", to_come)}, batch.shape)
        self.gae.vectorized = batch.shape[1] > LONG
        weighed = self.gae(weighed)
        for key in ("advantage", "value_target"):
            steps[key] = weighed[key][slot, time]
        metrics = {}
        # Groups of slots follow one another, and so do their steps.
        self.counts = (slot // (self.group or 1)).bincount(minlength=len(batch) // (self.group or 1))
        advantage = self.baselined(steps)
        if self.value is not None:
            metrics["critic/explained_variance"] = 1 - advantage.var() / steps["value_target"].var().clamp_min(1e-16)
        if self.config.normalise_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        return steps.set("advantage", advantage), metrics

    def baselined(self, steps: TensorDictBase) -> Tensor:
        """Return the advantages [N, 1], less a baseline if the algorithm has one besides its critic."""
        return steps["advantage"]

    def _minibatches(self, steps: TensorDictBase) -> Iterator[TensorDictBase]:
        count = self.config.minibatches
        if self.group is None:
            order = torch.randperm(len(steps), generator=self.rng, device=self.rng.device)
            yield from (steps[index] for index in order.tensor_split(count))
            return
        members = torch.arange(len(steps), device=steps.device).split(self.counts.tolist())
        order = torch.randperm(len(members), generator=self.rng, device=self.rng.device)
        for chosen in order.tensor_split(min(count, len(members))):
            yield steps[torch.cat([members[group] for group in chosen.tolist()])]

    def _descend(self, part: TensorDictBase) -> dict[str, Tensor] | None:
        """Take one step on a minibatch; return its metrics, or None if the policy has gone too far for another step."""
        with weights_unchanged(self.policy, self.critic):
            losses = self.loss(part)
        if self.max_kl is not None and float(losses["kl_approx"].detach()) > self.max_kl:
            return None
        total = sum(value for name, value in losses.items() if name.startswith("loss_"))
        metrics = {
            METRICS.get(name, f"loss/{name}"): value.detach() for name, value in losses.items() if name not in UNUSED
        }
        objective = next((name for name in ("loss/loss_objective", "loss/loss_actor") if name in metrics), None)
        if objective is not None:
            metrics["loss/objective"] = -metrics.pop(objective)
        return metrics | {"optim/grad_norm": self.descend(total)}

    def set_progress(self, progress: float) -> None:
        super().set_progress(progress)
        if hasattr(self, "loss") and isinstance(getattr(self.loss, "entropy_coeff", None), Tensor):
            self.loss.entropy_coeff.fill_(self.entropy_coeff)

    def shared(self) -> dict[str, Any]:
        """Return the arguments that TorchRL's actor-critic losses have in common."""
        return {
            "entropy_coeff": self.config.entropy,
            "critic_coeff": self.config.critic_coeff / 2,
            "loss_critic_type": "l2",
            "functional": False,
        }
