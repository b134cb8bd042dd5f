"""Play any TorchRL environment with mini-episodes, and collect batches of whole mini-episodes from it.

The environment pays: `drest_torch.transforms.DReSTReward` is among its transforms. It is stepped in a plain loop: the
policy is one network on one tensor, and all slots step together until each has played its share of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from drest_torch.algos.batch import StepBatch
from drest_torch.algos.distributions import Distribution
from drest_torch.algos.generators import Generators
from drest_torch.errors import UserError
from drest_torch.rollout.play import sample_private_bits
from drest_torch.rollout.stepping import begin_with
from drest_torch.transforms import BestReturn, DReSTReward
from drest_torch.transforms.base import column, set_seed, title

LARGEST = 10.0
"""What standardised observations are limited to."""


@dataclass(frozen=True)
class Entry:
    """One entry of an observation, and where its numbers are among those of the whole."""

    key: str
    shape: tuple[int, ...]
    first: int

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)


class Flattener:
    """Makes one row of numbers of the entries of an observation, and standardises them.

    ``centre`` and ``spread`` [F] are measured once, with random actions (`measure`); images keep their values, divided
    by 255 if they are bytes.
    """

    def __init__(self, env: EnvBase, keys: Sequence[str]) -> None:
        self.name = title(env)
        entries, first = [], 0
        batch = len(env.batch_size)
        for key in keys:
            spec = env.observation_spec[key]
            entries.append(Entry(key, tuple(spec.shape[batch:]), first))
            first += entries[-1].numbers
        self.entries = entries
        self.shape = (first,)
        self.scale = torch.ones(first)
        self.centre, self.spread = torch.zeros(first), torch.ones(first)
        for entry in entries:
            if env.observation_spec[entry.key].dtype == torch.uint8:
                self.spread[entry.first : entry.first + entry.numbers] = 255.0

    def __call__(self, tensordict: TensorDictBase) -> Tensor:
        """Return the observations [slots, F]."""
        rows = self.rows(tensordict)
        return ((rows - self.centre) / self.spread).clamp(-LARGEST, LARGEST)

    def rows(self, tensordict: TensorDictBase) -> Tensor:
        """Return the observations as they are [slots, F]."""
        slots = tensordict.batch_size.numel()
        parts = [tensordict.get(entry.key).reshape(slots, -1).float() for entry in self.entries]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        if not torch.isfinite(rows).all():
            keys = [entry.key for entry, part in zip(self.entries, parts, strict=True) if not part.isfinite().all()]
            raise UserError(
                f"{self.name} shows NaN or infinity in '{keys[0]}'; mend the environment, or leave this out with "
                "env.observed"
            )
        return rows

    def measure(self, rows: Tensor, fixed: Sequence[str]) -> None:
        """Standardise vectors by the mean and the deviation of these rows [n, F], all but the ``fixed`` entries."""
        mean, spread = rows.mean(0), rows.std(0)
        for entry in self.entries:
            if len(entry.shape) == 1 and entry.key not in fixed:
                here = slice(entry.first, entry.first + entry.numbers)
                self.centre[here] = mean[here]
                self.spread[here] = torch.where(spread[here] > 1e-6, spread[here], 1)


@dataclass(frozen=True)
class Environment:
    """An environment with its transforms, and how a policy sees it and acts in it."""

    env: EnvBase
    flatten: Flattener
    distribution: Distribution
    num_lengths: int
    lengths: list[int]
    """Their names in tables: steps with a timer, else their indices."""
    best: BestReturn | None
    """None: the environment says m(l) itself."""
    drest: DReSTReward | None
    ask: float | None
    """The probability per step with which an untrained policy asks for a delay."""


class Step(NamedTuple):
    """One step of all slots."""

    playing: Tensor
    """[slots] whether the slot is still in its meta-episode"""
    live: Tensor
    """[slots] whether its step counts: it is playing, does not wait for its group, and something can still happen"""
    observation: Tensor
    private_bits: Tensor | None
    outputs: Tensor
    action: Tensor
    before: TensorDictBase
    after: TensorDictBase

    def flag(self, key: str) -> Tensor:
        """Return a flag after the step [slots]; one that the environment does not have is false."""
        value = self.after.get(key, None)
        return torch.zeros_like(self.live) if value is None else value.reshape(-1)


def steps(
    env: EnvBase,
    flatten: Flattener,
    policy: Callable[[Tensor, Tensor | None], Tensor],
    distribution: Distribution,
    rng: Generators,
    *,
    private_bits: int = 0,
    are_bits: bool = True,
) -> Iterator[Step]:
    """Play every slot from a new start to the end of one meta-episode. The seed is drawn from ``rng``."""
    slots = env.batch_size.numel()
    set_seed(env, int(rng.uniform(1, dtype=torch.float64).item() * 2**31))
    tensordict, take = begin_with(env)
    private = sample_private_bits(rng, slots, private_bits, are_bits)
    playing = torch.ones(slots, dtype=torch.bool)
    while playing.any():
        observation = flatten(tensordict)
        outputs = policy(observation, private)
        action = distribution.sample(outputs, rng)
        taken = distribution.played(action)
        tensordict.set("action", taken.reshape(*env.batch_size, *taken.shape[1:]))
        after, following = take(tensordict)
        live = playing
        for idle in ("mini_waits", "timer_settled"):  # nothing that the policy does matters
            if (waits := tensordict.get(idle, None)) is not None:
                live = live & ~waits.reshape(slots)
        yield Step(playing, live, observation, private, outputs, action, tensordict, after)
        playing = playing & ~after.get("done").reshape(slots)
        if private is not None:
            begins = after.get("mini_done").reshape(slots, 1)
            new = sample_private_bits(rng, slots, private_bits, are_bits)
            private = torch.where(begins, new, private)  # type: ignore[arg-type]
        tensordict = following


class EnvironmentCollector:
    """Collects batches: every slot of the environment plays one meta-episode for each.

    ``mean_best`` returns the mean of m(l) over lengths. A mini-episode is paid at its end, when its discount is known.
    An advance on that is paid with each reward, the reward divided by this mean: it is settled at the end, so that the
    return of the mini-episode is the same, and the return from any step on differs by a number that the past has
    determined alone. Policy gradients have the same mean, and less noise.

    With ``scaled`` the rewards themselves are divided by this mean, for rewards that are not divided by m(l): the same
    number for all lengths, which prefers none, and keeps what networks learn at a magnitude of 1.
    """

    def __init__(
        self,
        env: EnvBase,
        flatten: Flattener,
        distribution: Distribution,
        rng: Generators,
        *,
        num_lengths: int,
        mean_best: Callable[[], float] | None,
        log_discounts: Callable[[Tensor], Tensor] | None,
        scaled: bool = False,
        are_bits: bool = True,
    ) -> None:
        self.env, self.flatten, self.distribution, self.rng = env, flatten, distribution, rng
        self.num_lengths, self.mean_best, self.log_discounts = num_lengths, mean_best, log_discounts
        self.slots, self.scaled, self.are_bits = env.batch_size.numel(), scaled, are_bits
        self.context_size = 0 if log_discounts is None else num_lengths

    @torch.no_grad()
    def collect(self, policy: Any) -> StepBatch:
        """Play one batch with the current policy."""
        record = _Record()
        weight = None if self.mean_best is None else 1 / self.mean_best()
        slot, started = torch.arange(self.slots), torch.ones(self.slots, dtype=torch.bool)
        contexts: list[tuple[Tensor, Tensor]] = []
        rewards: list[tuple[Tensor, Tensor]] = []
        bits, are_bits = policy.private_bits, self.are_bits
        with torch.inference_mode():
            for step in steps(
                self.env, self.flatten, policy, self.distribution, self.rng, private_bits=bits, are_bits=are_bits
            ):
                episode = step.before.get("mini_idx").reshape(-1) * self.slots + slot
                mini_done = step.flag("mini_done")
                if self.log_discounts is not None and (begins := started & step.live).any():
                    counts = step.before.get("drest_counts").reshape(self.slots, -1)
                    contexts.append((episode[begins], self.log_discounts(counts[begins])))
                if (ends := mini_done & step.playing).any():
                    reward = column(step.after, "reward").reshape(-1)[ends]
                    rewards.append((episode[ends], reward * weight if weight is not None and self.scaled else reward))
                started = mini_done
                record.add(
                    step.live,
                    observation=step.observation,
                    private_bits=step.private_bits,
                    action=step.action,
                    outputs=step.outputs,
                    episode=episode,
                    ended=mini_done | step.flag("mini_waits") | step.flag("timer_settled"),
                    advance=None if weight is None else column(step.after, "reward_raw").reshape(-1),
                )
        return self._batch(record, rewards, contexts, weight)

    def _batch(
        self,
        record: _Record,
        rewards: list[tuple[Tensor, Tensor]],
        contexts: list[tuple[Tensor, Tensor]],
        weight: float | None,
    ) -> StepBatch:
        episodes = sum(len(episode) for episode, _ in rewards)
        reward, context = torch.zeros(episodes), torch.zeros(episodes, self.context_size)
        for target, parts in ((reward, rewards), (context, contexts)):
            for episode, values in parts:
                target[episode] = values
        columns, blocks = record.columns()
        log_prob = self.distribution.log_prob(columns.pop("outputs"), columns["action"])
        return StepBatch(
            observation=columns["observation"],
            private_bits=columns.get("private_bits"),
            seen=torch.arange(len(columns["action"])),
            action=columns["action"],
            log_prob=log_prob,
            episode=columns["episode"],
            ended=columns["ended"],
            blocks=blocks,
            slots=self.slots,
            group_size=1,
            reward=reward,
            context=context,
            advance=None if weight is None else columns["advance"] * weight,
        )


class _Record:
    """The steps of a batch, one tensor of each kind [slots, …] for each step of the environment."""

    def __init__(self) -> None:
        self._live: list[Tensor] = []
        self._lists: dict[str, list[Tensor]] = {}

    def add(self, live: Tensor, **values: Tensor | None) -> None:
        """Add a step of all slots; those of the live ones count."""
        self._live.append(live)
        for name, value in values.items():
            if value is not None:
                self._lists.setdefault(name, []).append(value)

    def columns(self) -> tuple[dict[str, Tensor], list[int]]:
        """Return the steps that count, each kind as one tensor, and how many of them each step of the environment has.

        Each kind is dropped here, as the batch need not be in memory twice.
        """
        live = torch.stack(self._live)
        index = live.flatten().nonzero().squeeze(-1)
        columns = {}
        for name in list(self._lists):
            whole = torch.cat(self._lists.pop(name))
            columns[name] = whole if len(index) == len(whole) else whole[index]
        return columns, live.sum(1).tolist()
