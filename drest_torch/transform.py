"""The DReST reward as a TorchRL transform, for any environment that plays mini-episodes."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torchrl.data import Composite, TensorSpec, Unbounded
from torchrl.envs import Transform

from drest_torch.errors import ConfigError
from drest_torch.reward import Reward


class DReSTReward(Transform):
    """The reward λ^(N − (i−1)/k) · C/m of each mini-episode, paid at its end (section 5 of the paper).

    C is the γ-discounted total of the mini-episode's rewards, counted from its start; N how often a
    mini-episode of this length was played before in the meta-episode; i − 1 how many were played at all.
    The first mini-episode of a meta-episode has discount 1. All rewards of a mini-episode share one
    discount and one m, and both are known at its end only, so they are paid there: an advantage estimator
    with γ = 1 within the mini-episode then sees the paper's return at its start.

    λ = 1 gives the default reward c/m by the same road, and with ``divide_by_best=False`` c.

    The environment's ``done`` must be the end of a meta-episode; mini-episodes end within it, told by these
    entries of the step's tensordict, each of shape [*batch, 1]:

    `of` makes it from a `drest_torch.reward.Reward`.

    Args:
        lam: λ in (0, 1]; the smaller, the stronger the incentive to vary the length.
        gamma: discount per tick of a reward within its mini-episode.
        num_lengths: k, or the most of them where ``num_lengths_key`` gives each slot its own.
        divide_by_best: whether C is divided by m, read from ``best_return_key``.
        clip: the largest reward paid for a mini-episode, if any.
        mini_done_key: bool, whether this step ended a mini-episode.
        length_key: int64, which of the k lengths the mini-episode had, where it ended.
        num_lengths_key: int64, k of each slot; None if all have ``num_lengths``.
        best_return_key: float, m of the length, where the mini-episode ended.
        tick_key: int64, ticks played of the current mini-episode; None counts the steps here.

    Adds ``drest_counts`` [*batch, k] and ``drest_coins`` (the discounted total so far) to the tensordict,
    and ``reward_raw``, the environment's own reward. The counters live in the tensordict, so they can be
    seen in the data; a policy must not be shown them.
    """

    def __init__(
        self,
        lam: float = 0.9,
        *,
        gamma: float = 1.0,
        num_lengths: int = 2,
        divide_by_best: bool = True,
        clip: float | None = None,
        mini_done_key: NestedKey = "mini_done",
        length_key: NestedKey = "mini_len",
        num_lengths_key: NestedKey | None = "num_lengths",
        best_return_key: NestedKey = "best_return",
        tick_key: NestedKey | None = "tick",
    ) -> None:
        if num_lengths < 1:
            raise ConfigError(f"num_lengths {num_lengths}; expected at least 1")
        super().__init__(in_keys=["reward"], out_keys=["reward"])
        self.reward = Reward(lam, gamma, divide_by_best=divide_by_best, clip=clip)
        self.num_lengths = num_lengths
        self.mini_done_key, self.length_key, self.num_lengths_key = mini_done_key, length_key, num_lengths_key
        self.best_return_key, self.tick_key = best_return_key, tick_key

    @classmethod
    def of(cls, reward: Reward, **others: Any) -> DReSTReward:
        """Return the transform that pays by a `Reward`; ``others`` are ``num_lengths`` and the keys.

        How many mini-episodes a meta-episode has is for the environment to say.
        """
        if reward.counting != "sequential":
            raise ConfigError(
                f"counting={reward.counting}, and the transform counts one mini-episode after the other; "
                "use counting=sequential"
            )
        transform = cls(**others)
        transform.reward = reward
        return transform

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        counts, coins = tensordict.get("drest_counts"), tensordict.get("drest_coins")
        ended, length = next_tensordict.get(self.mini_done_key), next_tensordict.get(self.length_key)
        raw = next_tensordict.get("reward")
        if self.reward.gamma == 1:
            coins = coins + raw
        else:
            coins = coins + raw * self.reward.gamma ** tensordict.get(self.tick_key or "drest_tick")
        k = self.num_lengths if self.num_lengths_key is None else next_tensordict.get(self.num_lengths_key)
        # `length` and m mean something at the end of a mini-episode only; elsewhere nothing is paid or counted.
        discount = self.reward.discount(counts.gather(-1, length), counts.sum(-1, keepdim=True), k)
        best = next_tensordict.get(self.best_return_key) if self.reward.divide_by_best else None
        paid = torch.where(ended, self.reward.pay(coins, discount, best), 0)
        next_tensordict.set("reward", paid)
        next_tensordict.set("reward_raw", raw)
        next_tensordict.set("drest_counts", counts.scatter_add(-1, length, ended.to(counts.dtype)))
        next_tensordict.set("drest_coins", coins * ~ended)
        if self.tick_key is None:
            next_tensordict.set("drest_tick", (tensordict.get("drest_tick") + 1) * ~ended)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for name, (shape, dtype) in self._state_entries().items():
            zero = torch.zeros((*tensordict_reset.batch_size, shape), dtype=dtype, device=tensordict_reset.device)
            tensordict_reset.set(name, zero)
        return tensordict_reset

    def _state_entries(self) -> dict[str, tuple[int, torch.dtype]]:
        entries = {"drest_counts": (self.num_lengths, torch.float32), "drest_coins": (1, torch.float32)}
        return entries if self.tick_key is not None else entries | {"drest_tick": (1, torch.int64)}

    def _state_specs(self, spec: Composite) -> dict[str, TensorSpec]:
        return {
            name: Unbounded((*spec.shape, shape), dtype=dtype, device=spec.device)
            for name, (shape, dtype) in self._state_entries().items()
        }

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        for name, spec in self._state_specs(observation_spec).items():
            observation_spec[name] = spec
        return observation_spec

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        state = input_spec["full_state_spec"]
        for name, spec in self._state_specs(state).items():
            state[name] = spec
        return input_spec

    def transform_reward_spec(self, reward_spec: TensorSpec) -> TensorSpec:
        composite = reward_spec if isinstance(reward_spec, Composite) else Composite(reward=reward_spec)
        composite["reward_raw"] = composite["reward"].clone()
        return composite

    def forward(self, tensordict: Any) -> Any:
        raise RuntimeError("DReSTReward needs the steps one after the other; it works in a TransformedEnv alone")
