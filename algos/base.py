"""The base classes of the algorithms: optimisers, schedules, and learning from sampled mini-episodes.

The latter is a loss of TorchRL, on minibatches of a collected batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from omegaconf import MISSING
from torch import Tensor, nn

from drest_torch.algos.networks.policy import weights_unchanged
from drest_torch.limits import limited

if TYPE_CHECKING:  # TorchRL takes seconds to import, and a configuration needs none of it
    from tensordict import TensorDictBase
    from torchrl.objectives import LossModule

    from drest_torch.algos.actor import Actor, Once, StateView

CREDITS = ("mini", "meta")
"""``mini``: the return of a step is the reward of its own mini-episode, as in the paper. ``meta``: it extends to the
end of the meta-episode, so the choice of a length is also credited with its effect on later discounts."""
ADAM_EPSILON = 1e-5
"""Epsilon in Adam's denominator."""
WIDE = 8
"""Muon trains weight matrices with at least this many rows and columns."""
LONG = 256
"""With more steps than this, TorchRL's vectorised GAE is faster than its loop over time."""
METRICS = {
    "loss_objective": "loss/objective",
    "loss_actor": "loss/objective",
    "loss_critic": "loss/critic",
    "entropy": "policy/entropy",
    "kl_approx": "policy/kl",
    "clip_fraction": "policy/clip_fraction",
}
"""Our names of what TorchRL's losses return; any other number is logged as ``loss/NAME``."""
UNUSED = ("loss_entropy", "max_ratio", "mean_ratio")


@dataclass
class NetworkConfig:
    """The settings of every algorithm that trains a network."""

    name: str = MISSING
    """The module in algos/."""
    credit: str = limited(choices=CREDITS, default="mini")
    """Credit horizon: mini (a mini-episode, as in the paper) or meta (the whole meta-episode)."""
    lr: float = limited(at_least=0, default=0.001)
    """Learning rate of Adam at the start; it falls to 0, linearly over the run."""
    muon_lr: float | None = limited(at_least=0, default=None)
    """Learning rate of Muon at the start, which then trains all wide weight matrices; it falls as `lr` does. null: Adam
    trains them too."""
    entropy: float = limited(at_least=0, default=0.1)
    """Weight of the entropy bonus at the start; it falls to 0, linearly over the run."""
    max_grad_norm: float = limited(above=0, finite=False, default=0.5)
    """The gradient is scaled down to this norm."""


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


def falling(start: float, progress: float) -> float:
    """Return the value of a schedule that falls linearly from ``start`` to 0, for a ``progress`` from 0 to 1."""
    return start - start * min(max(progress, 0.0), 1.0)


class Learner(ABC):
    """An algorithm and its policy."""

    learns_from: Literal["mini-episodes", "levels", "world"] = "mini-episodes"
    """The argument of `update`: a TensorDict of mini-episodes, levels whose outcome is known in closed form
    (`drest_torch.training.exact_batch.ExactBatch`), or the number of mini-episodes to play in a world that the learner
    holds itself."""
    needs_critic = False
    is_tabular = False
    """Whether the algorithm trains a table (`drest_torch.algos.networks.table`) and no network."""

    def __init__(self, policy: Any, critic: Any, config: Any, rng: torch.Generator) -> None:
        self.policy, self.critic, self.config, self.rng = policy, critic, config, rng
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def set_progress(self, progress: float) -> None:  # noqa: B027 (schedules are optional)
        """Set the schedules to this fraction of the run, from 0 to 1."""

    @abstractmethod
    def scheduled(self) -> dict[str, float]:
        """Return the current values of the schedules, as metrics."""

    @abstractmethod
    def update(self, batch: Any) -> dict[str, Tensor]:
        """Make one update on what `learns_from` names; return the metrics of `docs/explanation/metrics.md`."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state besides that of networks and optimisers; writing to these tensors restores it."""
        return {}


class NetworkLearner(Learner):
    """An algorithm that trains the weights of its policy, and of its critic if it has one, by gradients.

    The optimiser is Adam. If ``muon_lr`` is set, Muon (Jordan et al. 2024) trains all matrices except the narrow ones
    of the last layers: it makes the steps of a matrix orthogonal, so that all directions are learned at the same pace.
    """

    def __init__(self, policy: Any, critic: Any, config: Any, rng: torch.Generator) -> None:
        super().__init__(policy, critic, config, rng)
        self.networks = nn.ModuleList([policy] if critic is None else [policy, critic])
        parameters = list(self.networks.parameters())
        matrices = [] if config.muon_lr is None else [parameter for parameter in parameters if _is_wide(parameter)]
        others = [parameter for parameter in parameters if not any(parameter is matrix for matrix in matrices)]
        self.optimizers["adam"] = torch.optim.Adam(others, lr=config.lr, eps=ADAM_EPSILON)
        if matrices:
            self.optimizers["muon"] = torch.optim.Muon(matrices, lr=config.muon_lr, weight_decay=0.0)
        self.set_progress(0.0)

    def set_progress(self, progress: float) -> None:
        self.lr = falling(self.config.lr, progress)
        self.entropy_coeff = falling(self.config.entropy, progress)
        rates = {"adam": self.lr}
        if "muon" in self.optimizers:
            rates["muon"] = falling(self.config.muon_lr, progress)
        for name, rate in rates.items():
            self.optimizers[name].param_groups[0]["lr"] = rate

    def scheduled(self) -> dict[str, float]:
        return {"optim/lr": self.lr, "optim/entropy_coeff": self.entropy_coeff}

    def descend(self, loss: Tensor) -> Tensor:
        """Take one optimiser step; return the norm of the gradient before clipping."""
        self.networks.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.networks.parameters(), self.config.max_grad_norm)
        for optimizer in self.optimizers.values():
            optimizer.step()
        return norm


class SampledLearner(NetworkLearner):
    """A policy-gradient algorithm on batches [slots, time] of whole mini-episodes. Subclasses make the loss.

    ``actor`` and ``value`` are the policy and the critic as modules of TorchRL. Minibatches are steps drawn from the
    whole batch, or with ``group`` whole groups of so many neighbouring slots, which share states. They are used once,
    unless the configuration has ``epochs``; with ``max_kl`` an update ends when the policy of a minibatch is further
    than this from the one that played it.
    """

    def __init__(
        self,
        policy: Any,
        critic: Any,
        config: Any,
        rng: torch.Generator,
        *,
        actor: Actor,
        value: Once | None,
        view: StateView | None = None,
        group: int | None = None,
    ) -> None:
        from torchrl.objectives.value import GAE

        super().__init__(policy, critic, config, rng)
        self.actor, self.value, self.view, self.group = actor, value, view, group
        self.epochs, self.max_kl = getattr(config, "epochs", 1), getattr(config, "max_kl", None)
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

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of the loss, such as a coefficient that adapts: all but the networks that it shares."""
        networks = {tensor.data_ptr() for tensor in self.networks.state_dict().values()}
        state = self.loss.state_dict()
        return {f"loss.{name}": tensor for name, tensor in state.items() if tensor.data_ptr() not in networks}

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
            METRICS.get(name, f"loss/{name}"): value.detach().mean()
            for name, value in losses.items()
            if name not in UNUSED
        }
        if "loss/objective" in metrics:
            metrics["loss/objective"] = -metrics["loss/objective"]
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


def _is_wide(parameter: Tensor) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= WIDE
