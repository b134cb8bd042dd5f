"""The base classes of the algorithms: their interface to a task, optimisers, schedules and settings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from omegaconf import MISSING
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from drest_torch.algos.averaging import averaged_model
from drest_torch.algos.muon import LayerMuon
from drest_torch.algos.networks.base import repeated_weights, requirements
from drest_torch.limits import limited
from drest_torch.reward import Reward, largest_reward

CREDITS = ("mini", "meta")
"""``mini``: the return of a step is the reward of its own mini-episode, as in the paper. ``meta``: it extends to the
end of the meta-episode, so the choice of a length is also credited with its effect on later discounts."""
ADAM_EPSILON = 1e-5
"""Epsilon in Adam's denominator."""
WIDE = 8
"""Muon trains weight matrices with at least this many rows and columns."""
MUON_MATRICES = LAYER, BLOCK = "layer", "block"
"""``layer``: where symmetries repeat a trained block of weights, Muon orthogonalises the update of the whole layer.
``block``: it orthogonalises the update of the block."""
Share = tuple[tuple[str, int], tuple[str, int]]
"""A key with its number, and the key whose number it has to divide."""
Need = tuple[str, Any, str]
"""A key, its required value, and the reason: the end of an error message that begins with the key and its value."""


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
    muon_matrix: str = limited(choices=MUON_MATRICES, default=LAYER)
    """The update that Muon orthogonalises in a symmetric network: layer (that of a whole layer, with all blocks that
    symmetries repeat) or block (that of the trained block, as in versions before this key)."""
    entropy: float = limited(at_least=0, default=0.1)
    """Weight of the entropy bonus at the start; it falls to 0, linearly over the run."""
    max_grad_norm: float = limited(above=0, finite=False, default=0.5)
    """Maximum norm of the gradient, which is clipped to it."""
    weight_decay: float = limited(at_least=0, default=0.0)
    """Decoupled weight decay, as in AdamW and Muon: a step multiplies weight matrices and kernels by 1 - learning rate
    of their optimiser * weight_decay. Biases, norms and gains do not decay."""
    average: float | None = limited(above=0, at_most=1, default=None)
    """Decay of an exponential moving average of the policy's weights over optimiser steps, such as 0.99; 1: the mean of
    all steps. The averaged policy is evaluated and saved, and training is the same. null: no average."""


@dataclass
class SampledConfig(NetworkConfig):
    """The settings of algorithms that learn from sampled mini-episodes."""

    episodes: int = limited(at_least=1, default=1024)
    """Mini-episodes in one batch."""
    minibatches: int = limited(at_least=1, default=1)
    """Minibatches of a batch, one optimiser step each."""
    normalise_advantage: bool = False
    """Normalisation of advantages to mean 0 and standard deviation 1 over the batch."""


@dataclass
class CriticConfig(SampledConfig):
    """The further settings of algorithms with a critic."""

    critic_width: int | None = limited(at_least=1, default=None)
    """Units of the critic's hidden layers; null: as many as in the policy. A convolutional critic uses the policy's
    encoding of the map."""
    gae_lambda: float = limited(at_least=0, at_most=1, default=0.95)
    """Lambda of generalised advantage estimation."""
    critic_coeff: float = limited(at_least=0, default=0.5)
    """Weight of half the critic's squared error."""


class Source(Protocol):
    """The interface of a task to an algorithm: networks, and a source of training data."""

    @property
    def reward(self) -> Reward:
        """The reward at the end of training."""

    @property
    def precision(self) -> torch.dtype:
        """The precision of matrix products in training."""

    def networks(self, *, critic_width: int | None = None, context: int | None = None) -> tuple[Any, Any]:
        """Return an untrained policy and, with a ``context``, a critic that sees this many additional numbers."""

    def environment(self, *, with_critic: bool) -> Any:
        """Return an environment whose slots play the batches (`drest_torch.play.collector.Environment`)."""

    def exact_batches(self) -> Any:
        """Return level sets whose outcomes are known in closed form (`drest_torch.tasks.exact_batch`)."""

    def world(self) -> Any:
        """Return a single world as a table, and m of each of its lengths (`drest_torch.play.world_table`)."""

    def teachers(self, names: Sequence[str], checkpoint: str) -> Any:
        """Return trained agents whose mean policy is known in exact batches (`drest_torch.tasks.teachers`)."""


@dataclass(frozen=True)
class Effort:
    """The cost of an update."""

    steps: int
    """Environment steps; for exact gradients, which play nothing, ``algo.counted_steps``."""
    episodes: int = 0
    forward_rows: int = 0
    """Rows on which exact gradients ran the network, including `backward_rows`."""
    backward_rows: int = 0
    """Backpropagated rows."""
    turns: int = 0
    """Mini-episodes as `drest_torch.play.collector.Environment` counts them; 0: unknown."""


def falling(start: float, progress: float) -> float:
    """Return the value of a schedule that falls linearly from ``start`` to 0, for a ``progress`` from 0 to 1."""
    return start - start * min(max(progress, 0.0), 1.0)


class Algorithm(ABC):
    """A training algorithm for a policy."""

    needs_critic: ClassVar[bool] = False
    effort: Effort
    """The cost of the last update."""
    precision: torch.dtype = torch.float32
    """The precision of matrix products in training."""
    levels_per_update: int | None = None
    """The number of levels in an exact gradient; None: updates use environment steps."""
    agents: ClassVar[tuple[str, ...]] = ()
    """Keys of its configuration that list agents, whose files a run reads."""
    steps_are: ClassVar[str] = "steps"
    """The unit of `Effort.steps`, in words."""
    finite: ClassVar[tuple[str, ...]] = ("loss/objective", "loss/critic", "optim/grad_norm", "policy/entropy")
    """The metrics of an update that are not finite if the weights are not."""
    if_not_finite: ClassVar[str] = (
        "rewards, or steps, are too large; use a larger reward.lam, a smaller reward.episodes_per_meta, reward.clip, "
        "or a smaller algo.lr"
    )
    """The likely cause of metrics that are not finite, and the remedy."""
    drops_units: ClassVar[bool] = False
    """True if updates train sub-networks (`drest_torch.algos.networks.regularization.sub_network`)."""
    average: AveragedModel | None = None
    """The average of the policy's weights, if the algorithm has one."""

    def __init__(self, policy: Any, critic: Any, config: Any, rng: torch.Generator) -> None:
        self.policy, self.critic, self.config, self.rng = policy, critic, config, rng
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    @classmethod
    @abstractmethod
    def on(cls, task: Source, config: Any, rng: torch.Generator) -> Algorithm:
        """Return the algorithm with untrained networks, ready to learn from a task."""

    @classmethod
    def needs(cls, cfg: Any, objective: Any) -> Iterator[Need]:
        """Yield the values that a run with this algorithm must have; each need presupposes the earlier ones.

        ``objective`` is None for the return of the reward.
        """
        yield from ()

    @classmethod
    def shares(cls, shares: Iterable[Share]) -> Iterable[Share]:
        """Return the divisions of a task's batch that must be even."""
        return ()

    @classmethod
    def network(cls, name: str) -> str:
        """Return the name of the policy's network, if the configuration says ``name``."""
        return name

    @abstractmethod
    def describe(self, network: str) -> str:
        """Return a description of the policy and of any critic; the configuration names this ``network``."""

    def warning(self, reward: Reward) -> str | None:
        """Return a warning if the algorithm has to clip the largest rewards."""
        return None

    @abstractmethod
    def update(self, reward: Reward) -> dict[str, Any]:
        """Make one update with this reward, set `effort`, and return the metrics of `docs/explanation/metrics.md`."""

    def limit(self, steps: int, steps_per_turn: float) -> None:  # noqa: B027 (not all algorithms can)
        """Limit the next update to about this many environment steps, the rest of the budget.

        ``steps_per_turn`` is `Effort.steps` ÷ `Effort.turns` of the last update; 0: there is none.
        """

    @property
    def evaluated_policy(self) -> Any:
        """The policy that is evaluated and saved: with averaged weights, if the algorithm averages them."""
        if self.average is None or self.average.n_averaged == 0:
            return self.policy
        return self.average.module

    @property
    def whole_batch(self) -> float:
        """An estimate of the environment steps of an update that is not limited; 0: unknown."""
        return 0.0

    def least_schedule(self) -> tuple[str, int] | None:
        """Return the keys of schedules that do not follow the budget, and the fewest steps in which they can end."""
        return None

    def set_progress(self, progress: float) -> None:  # noqa: B027 (schedules are optional)
        """Set the schedules to this fraction of the run, from 0 to 1."""

    @abstractmethod
    def scheduled(self) -> dict[str, float]:
        """Return the current values of the schedules, as metrics."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state apart from networks and optimisers; writing to these tensors restores it."""
        return {}


class NetworkAlgorithm(Algorithm):
    """An algorithm that trains the weights of its policy, and of its critic if it has one, by gradients.

    The optimiser is Adam. If ``muon_lr`` is set, Muon (Jordan et al. 2024) trains all matrices except the narrow ones
    of the last layers. Muon orthogonalises the update of a matrix, so all directions are learned at the same pace. In
    symmetric networks the matrices are those of whole layers (`drest_torch.algos.muon`).
    """

    anchor: tuple[Any, float] | None = None
    """A fixed policy, and the weight of the penalty on the divergence from it (`stay_close`)."""

    def __init__(
        self,
        policy: Any,
        critic: Any,
        config: Any,
        rng: torch.Generator,
        *,
        precision: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(policy, critic, config, rng)
        self.precision = precision
        self.networks = nn.ModuleList([policy] if critic is None else [policy, critic])
        self.weights = list(self.networks.parameters())
        self.optimizers |= optimizers_of(self.networks, config)
        if config.average is not None:
            self.average = averaged_model(policy, config.average)
        self.set_progress(0.0)

    def set_progress(self, progress: float) -> None:
        self.lr = falling(self.config.lr, progress)
        self.entropy_coeff = falling(self.config.entropy, progress)
        for name, optimizer in self.optimizers.items():
            rate = self.lr if name == "adam" else falling(self.config.muon_lr, progress)
            for group in optimizer.param_groups:
                group["lr"] = rate

    def scheduled(self) -> dict[str, float]:
        return {"optim/lr": self.lr, "optim/entropy_coeff": self.entropy_coeff}

    def describe(self, network: str) -> str:
        policy = f"{network} network, {_size(self.policy)} parameters"
        return policy if self.critic is None else f"{policy}, and a critic of {_size(self.critic)}"

    def warning(self, reward: Reward) -> str | None:
        return cut_rewards(reward)

    def descend(self, loss: Tensor) -> Tensor:
        """Take one optimiser step; return the norm of the gradient before clipping."""
        for weight in self.weights:
            weight.grad = None
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.weights, self.config.max_grad_norm)
        for optimizer in self.optimizers.values():
            optimizer.step()
        if self.average is not None:
            self.average.update_parameters(self.policy)
        return norm

    def stay_close(self, policy: Any, weight: float) -> None:
        """Add a penalty to the loss of updates: ``weight`` times the mean divergence of actions from a fixed policy.

        The divergence is that of `divergence`, in nats, averaged over the steps of mini-episodes.
        """
        self.anchor = policy, weight

    def tensors(self) -> dict[str, Tensor]:
        if self.average is None:
            return {}
        return {"averaged_steps": self.average.n_averaged}


def optimizers_of(networks: nn.Module, config: Any) -> dict[str, torch.optim.Optimizer]:
    """Return the optimisers that together train all weights of the networks."""
    rate, decay = config.muon_lr, config.weight_decay
    layers = {}
    if rate is not None and config.muon_matrix == LAYER:
        wide = (layer for layer in repeated_weights(networks) if _is_wide(layer.whole(layer.weight)))
        layers = {id(layer.weight): layer for layer in wide}
    remaining = [weight for weight in networks.parameters() if id(weight) not in layers]
    matrices = [weight for weight in remaining if rate is not None and _is_wide(weight)]
    others = [weight for weight in remaining if rate is None or not _is_wide(weight)]
    optimizers: dict[str, torch.optim.Optimizer] = {}
    optimizers["adam"] = torch.optim.AdamW(decay_groups(others, decay), lr=config.lr, eps=ADAM_EPSILON, fused=True)
    if matrices:
        optimizers["muon"] = torch.optim.Muon(matrices, lr=rate, weight_decay=decay)
    if layers:
        optimizers["layer_muon"] = LayerMuon([*layers.values()], rate, decay)
    return optimizers


def divergence(logits: Tensor, reference: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence [n] of actions with some logits [n, A] from actions with others."""
    log_probs = logits.log_softmax(-1)
    return (log_probs.exp() * (log_probs - reference.log_softmax(-1))).sum(-1)


def decay_groups(weights: Sequence[Tensor], weight_decay: float) -> list[dict[str, Any]]:
    """Return the parameter groups of AdamW: matrices and kernels decay, weights with one dimension do not.

    Without decay there is one group, in the order of the weights in checkpoints.
    """
    if weight_decay == 0:
        return [{"params": weights, "weight_decay": 0.0}]
    matrices = [weight for weight in weights if weight.ndim > 1]
    others = [weight for weight in weights if weight.ndim <= 1]
    groups = {weight_decay: matrices, 0.0: others}
    return [{"params": params, "weight_decay": decay} for decay, params in groups.items() if params]


def model_needs(cfg: Any) -> Iterator[Need]:
    """Yield the requirements of algorithms that use the model of a gridworld: a gridworld, and a policy without
    memory."""
    algo = f"algo={cfg.algo.name}"
    if cfg.env.name != "gridworld":
        yield "algo.name", "ppo", f" knows the model of a gridworld, and env={cfg.env.name} has none"
    if requirements(cfg.policy.network).remembers:
        sees = f"{algo} needs one that sees the state alone, unlike algo=ppo, a2c or reinforce"
        yield "policy.network", "mlp", f" remembers earlier steps, and {sees}"


def cut_rewards(reward: Reward) -> str | None:
    """Return a warning if rewards can be too large for 32-bit numbers, so that they have to be clipped."""
    most = math.log10(largest_reward(torch.float32))
    if reward.clip is not None or reward.log10_of_largest() <= most:
        return None
    return (
        f"with reward.lam={reward.lam:g} and reward.episodes_per_meta={reward.episodes_per_meta} a length that is "
        f"hardly ever chosen can be paid 10^{reward.log10_of_largest():.0f}; rewards are cut at 10^{most:.0f}"
    )


def _size(network: nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in network.parameters()):,}"


def _is_wide(parameter: Tensor) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= WIDE
