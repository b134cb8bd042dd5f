"""A TorchRL transform that adds shutdown, and a way to delay it, to any environment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Literal

import torch
from tensordict import TensorDictBase
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data import Binary, Bounded, Categorical, Composite, MultiCategorical, OneHot, TensorSpec, Unbounded
from torchrl.envs import EnvBase

from drest_torch.errors import ConfigError
from drest_torch.timer import MOST_STEPS, Timer
from drest_torch.transforms.base import (
    LEVEL,
    Entries,
    StatefulTransform,
    check_finite,
    check_resets,
    check_whole,
    choices,
    column,
    index_of,
    is_choice,
    observation_keys,
    overwrite,
    reset_slots,
    set_done,
    stays_ended,
    title,
    whole,
)

Predicate = Callable[[TensorDictBase], Tensor]
"""A function from the tensordict after a step to booleans [*batch] or [*batch, 1], True to request a delay."""


class ShutdownTimer(StatefulTransform):
    """A transform that ends an environment after ``base`` steps, or later if the agent requests delays.

    A mini-episode lasts T steps, regardless of ends of the environment. T is ``base`` at first, and each granted delay
    adds the next number of ``delays``: with n delays there are k = n + 1 lengths, and the index of a length is the
    number of delays. The environment's own end is never a length, because the agent could then choose a length by
    failing early.

    The environment's ``done`` is shutdown. The transform adds the observation ``timer``: the time left (divided by the
    longest length), the number of delays so far (one-hot), whether a delay can be requested, and whether the
    environment has ended. It adds ``mini_len`` (the index of the length) and ``tick`` (steps so far) for `MetaEpisodes`
    and `DReSTReward`.

    Args:
        base: the number of steps until shutdown.
        delays: the numbers of steps added by the first, second, … delay.
        control: the way to request a delay. ``action``: an extra last discrete action; the environment gets ``idle`` in
            this step. ``dimension``: an extra last dimension of a continuous action, from −1 to 1, or an extra choice,
            0 or 1, of a multi-categorical action; a positive number is a request, and the other dimensions act as
            usual. A function: a predicate of the tensordict after the step, such as the arrival at a place.
        idle: the action of the environment in a step with a request: its number, or ``repeat`` for the previous action
            (0 in the first step).
        window: the number of steps after the start, and after each delay, in which a delay can be requested; None:
            until shutdown.
        cost: the cost of a request while a delay can be requested.
        ended: the behaviour when the environment ends before shutdown. ``absorb``: it waits, with its last observation
            and rewards of 0. ``restart``: it is reset, and rewards continue.
        skip: whether to end a mini-episode early when the environment waits and no delay can be requested.
            ``timer_skipped`` is the number of skipped steps, for `BestReturn`.

    Example:
        >>> from torchrl.envs import GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), ShutdownTimer(100, [100]))
        >>> env.rollout(300)["mini_len"][-1]
    """

    comes_before = MappingProxyType(
        {"mini_done": "MetaEpisodes", "best_coins": "BestReturn", "drest_counts": "DReSTReward"}
    )

    def __init__(
        self,
        base: int,
        delays: Sequence[int] = (),
        *,
        control: Literal["action", "dimension"] | Predicate = "action",
        idle: int | Literal["repeat"] = "repeat",
        window: int | None = None,
        cost: float = 0.0,
        ended: Literal["absorb", "restart"] = "absorb",
        skip: bool = False,
    ) -> None:
        super().__init__()
        numbers = {f"delays[{i}]": delay for i, delay in enumerate(delays)}
        if window is not None:
            numbers["window"] = window
        check_whole("ShutdownTimer", base=base, **numbers)
        if base + sum(delays) > MOST_STEPS:
            raise ConfigError(
                f"ShutdownTimer with base={base} and delays={sum(delays)}; expected {MOST_STEPS} steps or fewer"
            )
        is_supported = callable(control) or control in ("action", "dimension")
        for name, value, is_allowed, expected in (
            ("control", control, is_supported, "action, dimension, or a function"),
            ("cost", cost, 0 <= cost < math.inf, "a finite number of at least 0"),
            ("ended", ended, ended in ("absorb", "restart"), "absorb or restart"),
        ):
            if not is_allowed:
                raise ConfigError(f"ShutdownTimer with {name}={value}; expected {expected}")
        self.rules = Timer.from_delays(base, delays, window)
        self.lengths = list(self.rules.lengths)
        """The lengths of a mini-episode in steps, by the number of delays."""
        self.control, self.idle, self.window, self.ended, self.skip = control, idle, window, ended, skip
        self.cost = cost
        self._ends = torch.tensor(self.lengths)

    # ------------------------------------------------------------------------------------ attachment

    def check_environment(self, parent: EnvBase) -> None:
        """Refuse an environment whose action space cannot be extended."""
        super().check_environment(parent)
        check_resets("ShutdownTimer", parent)
        if callable(self.control):
            return
        spec = parent.full_action_spec.get("action", None)
        if self.control == "action":
            if not is_choice(spec, len(parent.batch_size)):
                raise ConfigError(
                    f"{title(parent)} has the action space {_words(spec)}, to which no action can be added; use "
                    "control=dimension for a box of numbers or several choices, or a predicate of the state"
                )
            if self.idle != "repeat" and self.idle not in range(spec.space.n):
                raise ConfigError(
                    f"ShutdownTimer with idle={self.idle}, but {title(parent)} has the actions 0 to "
                    f"{spec.space.n - 1}; choose one of them, or repeat"
                )
        elif choices(spec, len(parent.batch_size)) is None and (
            spec is None or not spec.dtype.is_floating_point or spec.ndim != len(parent.batch_size) + 1
        ):
            raise ConfigError(
                f"{title(parent)} has the action space {_words(spec)}, to which no dimension can be added; use "
                "control=action for discrete actions, or a predicate of the state"
            )

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Add the state to the spec, and the action or dimension for requests."""
        input_spec = super().transform_input_spec(input_spec)
        if not callable(self.control):
            actions = input_spec["full_action_spec"]
            actions["action"] = _extended(actions["action"])
        if self.ended == "absorb" and self.parent is not None:  # a waiting environment repeats its last observation
            for key in observation_keys(self.parent):
                input_spec["full_state_spec"][key] = self.parent.observation_spec[key].clone()
        return input_spec

    def entries(self, batch: torch.Size, device: torch.device | None) -> Entries:
        entries: Entries = {
            "timer_waits": Binary(shape=(*batch, 1), dtype=torch.bool, device=device),
            "tick": whole(batch, device),
            "timer_since": whole(batch, device),
            "timer_delays": whole(batch, device),
            "timer": Unbounded((*batch, self.rules.size), device=device),
            "mini_len": index_of(len(self.lengths), batch, device),
        }
        if self._repeats:
            entries["timer_action"] = whole(batch, device)
        if self.skip:
            entries["timer_skipped"] = whole(batch, device)
        return entries

    @property
    def _repeats(self) -> bool:
        return self.control == "action" and self.idle == "repeat"

    # ------------------------------------------------------------------------------------ steps

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Split the action into the environment's action and the request for a delay."""
        action = tensordict.get("action", None)
        if callable(self.control) or action is None:
            return tensordict
        if self.control == "dimension":
            tensordict.set("timer_asked", action[..., -1:] > 0)
            tensordict.set("action", action[..., :-1])
            return tensordict
        spec = self.parent.full_action_spec["action"]
        is_one_hot = isinstance(spec, OneHot)
        chosen = action.unsqueeze(-1)
        if is_one_hot:
            chosen = action.long().argmax(-1, keepdim=True)
        requested = chosen == spec.space.n
        tensordict.set("timer_asked", requested)
        if self._repeats:
            chosen = torch.where(requested, tensordict.get("timer_action"), chosen)
            tensordict.set("timer_action", chosen)
        else:
            chosen = torch.where(requested, int(self.idle), chosen)
        env_action = chosen.squeeze(-1)
        if is_one_hot:
            env_action = spec.encode(env_action)
        return tensordict.set("action", env_action)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self.parent
        assert env is not None
        reward, done = column(next_tensordict, "reward"), column(next_tensordict, "done")
        check_finite(reward, env)
        waits, delays = tensordict.get("timer_waits"), tensordict.get("timer_delays")
        tick, since = tensordict.get("tick"), tensordict.get("timer_since")
        can_wait = self.ended == "absorb" and stays_ended(env)
        if self.ended == "absorb" and waits.any():
            reward = torch.where(waits, 0, reward)
            overwrite(next_tensordict, tensordict, waits, observation_keys(env))
        requested = self._requested(tensordict, next_tensordict) & self.rules.is_open(delays, since)
        delays, since = self.rules.after_request(delays, since, requested)
        tick = tick + 1
        left = self._left(tick, delays)
        shutdown = left <= 0
        if self.skip:
            settled = (waits | done) & ~self.rules.is_open(delays, since) & ~shutdown
            next_tensordict.set("timer_skipped", left * settled)
            shutdown = shutdown | settled
        # Reset the environment even if it waits, unless it supports steps after its end.
        ended = done & ~shutdown
        if not can_wait and ended.any():
            unchanged: list[NestedKey] = []
            if self.ended == "absorb":
                unchanged = observation_keys(env)
            reset_slots(env, next_tensordict, ended, level=tensordict.get(LEVEL, None), unchanged=unchanged)
        if self.ended == "absorb":
            waits = waits | done
        if self.cost:
            reward = reward - self.cost * requested
        next_tensordict.set("reward", reward)
        set_done(env, next_tensordict, shutdown)
        if self._repeats:
            next_tensordict.set("timer_action", tensordict.get("timer_action"))
        return self._publish(next_tensordict, waits=waits, tick=tick, left=left, delays=delays, since=since)

    def _requested(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> Tensor:
        if not callable(self.control):
            requested: Tensor = tensordict.get("timer_asked")
            return requested
        requested = self.control(next_tensordict)
        batch = tuple(next_tensordict.batch_size)
        description = type(requested).__name__
        if isinstance(requested, Tensor):
            description = f"{requested.dtype} {tuple(requested.shape)}"
            if requested.dtype == torch.bool and tuple(requested.shape) in (batch, (*batch, 1)):
                return requested.reshape(*batch, 1)
        raise ConfigError(
            f"the predicate that asks ShutdownTimer for delays returned {description}; expected "
            f"booleans, torch.bool {batch}"
        )

    def _left(self, tick: Tensor, delays: Tensor) -> Tensor:
        """Return the steps until shutdown."""
        return self._ends.to(tick.device)[delays] - tick

    def _publish(
        self, tensordict: TensorDictBase, *, waits: Tensor, tick: Tensor, left: Tensor, delays: Tensor, since: Tensor
    ) -> TensorDictBase:
        """Write the state and the observation of the timer."""
        numbers = torch.arange(len(self.lengths), device=tick.device)
        timer = self.rules.observation(left, delays, since, waits, numbers)
        entries = {
            "timer": torch.cat(timer, -1),
            "timer_waits": waits,
            "tick": tick,
            "timer_delays": delays,
            "timer_since": since,
            "mini_len": delays,
        }
        return tensordict.update(entries)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        state = super()._reset(tensordict, tensordict_reset)
        tick, delays = state.get("tick"), state.get("timer_delays")
        return self._publish(
            state,
            waits=state.get("timer_waits"),
            tick=tick,
            left=self._left(tick, delays),
            delays=delays,
            since=state.get("timer_since"),
        )


def _extended(spec: TensorSpec) -> TensorSpec:
    """Return the spec of actions with an extra action or dimension."""
    if isinstance(spec, MultiCategorical):  # a subclass of Categorical
        options = torch.cat((spec.nvec, torch.full_like(spec.nvec[..., :1], 2)), -1)
        return MultiCategorical(options, shape=options.shape, dtype=spec.dtype, device=spec.device)
    if isinstance(spec, Categorical):
        return Categorical(spec.space.n + 1, shape=spec.shape, dtype=spec.dtype, device=spec.device)
    if isinstance(spec, OneHot):
        actions = spec.space.n + 1
        return OneHot(actions, shape=(*spec.shape[:-1], actions), dtype=spec.dtype, device=spec.device)
    bound = torch.ones((*spec.shape[:-1], 1), dtype=spec.dtype, device=spec.device)
    low = torch.cat((spec.space.low, -bound), -1)
    high = torch.cat((spec.space.high, bound), -1)
    return Bounded(low, high, shape=low.shape, dtype=spec.dtype, device=spec.device)


def _words(spec: TensorSpec | None) -> str:
    if spec is None:
        return "no 'action'"
    return f"{type(spec).__name__}{tuple(spec.shape)}"
