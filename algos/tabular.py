"""The paper's REINFORCE on a table of logits, for one small world. The table has a row for each observation.

Mini-episodes are played ε-greedily, one after the other, with an update after each. The logits of every step move along
the gradient of the log-probability of its action, times the discounted reward from that step on. The gradient is that
of the softmax policy although the ε-greedy policy plays, as the paper's text suggests.

Coins are divided by m of the mini-episode's final length, even if they were collected before the choice of length.
Later actions are not credited with earlier coins, so the update is then not exactly the gradient of the expected
return. It is exact if no coin can be collected before the choice of length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from omegaconf import MISSING
from torch import Tensor

from drest_torch.algos import base
from drest_torch.algos.base import Effort, Need, Source, model_needs
from drest_torch.algos.networks.spec import TABLE
from drest_torch.algos.networks.table import TablePolicy
from drest_torch.errors import ConfigError
from drest_torch.limits import limited
from drest_torch.reward import Reward

if TYPE_CHECKING:  # importing numba takes a while, and configurations do not need it
    from drest_torch.algos.tabular_kernel import Rules, World


@dataclass
class Schedule:
    """The settings of a table's learning rate and exploration."""

    lr: float = limited(above=0, default=0.25)
    """Learning rate at the start of the schedule."""
    lr_end: float = limited(above=0, default=0.01)
    """Learning rate at the end of the schedule."""
    epsilon: float = limited(above=0, at_most=1, default=0.5)
    """Epsilon, the probability that an action is sampled uniformly, at the start of the schedule."""
    epsilon_end: float = limited(above=0, at_most=1, default=0.001)
    """Epsilon at the end of the schedule."""
    decay_episodes: int = limited(at_least=1, default=65536)
    """Mini-episodes over which both fall exponentially. Afterwards they are constant."""
    random_episodes: int = limited(at_least=0, default=524288)
    """Mini-episodes of uniformly random play before that, with the initial learning rate. The paper has none. With
    `levels.clock=steps` they let the table learn about the coins behind a button before it stops pressing it."""
    discount_bumps: bool = True
    """True to discount the return by gamma even for a bump that takes no time, with `levels.clock=moves`."""


@dataclass
class Config(Schedule):
    """The settings of tabular training."""

    name: str = MISSING
    """The module in algos/."""
    episodes: int = limited(at_least=1, default=4096)
    """Mini-episodes between two lines of metrics; the table is updated after each mini-episode."""


class Tabular(base.Algorithm):
    """The training of one agent with `drest_torch.algos.tabular_kernel`, which plays the mini-episodes itself."""

    policy: TablePolicy
    _limit: int | None = None

    @classmethod
    def on(cls, task: Source, config: Any, rng: torch.Generator) -> Tabular:
        policy, _ = task.networks()
        world, best_return = task.world()
        divisor = best_return if task.reward.divide_by_best else [1.0] * len(best_return)
        algorithm = cls(policy, None, config, rng)
        algorithm.begin(world, rules_for(config, task.reward, divisor))
        return algorithm

    @classmethod
    def needs(cls, cfg: Any, objective: Any) -> Iterator[Need]:
        algo, named = f"algo={cfg.algo.name}", f"objective={cfg.objective.name}"
        yield from model_needs(cfg)
        if objective is not None:
            yield "algo.name", "generalist", f", but {named} as it is set needs the exact outcome of levels"
        yield "start_from", None, f", but {algo} trains a table"
        yield "reward.episodes_at_start", None, f", which {algo} does not have"
        yield "policy.private_bits", 0, f", and {algo} has no private bits to sample"
        for key, value in ("policy.observation", "vector"), ("reward.counting", "sequential"), ("device", "cpu"):
            yield key, value, f" does not go with {algo}"

    @classmethod
    def network(cls, name: str) -> str:
        return TABLE

    def describe(self, network: str) -> str:
        return "a table"

    def begin(self, world: World, rules: Rules) -> None:
        """Set the world and the rules, and initialise the state of an untrained agent."""
        from drest_torch.algos.tabular_kernel import new_state

        seed = torch.randint(1 << 62, (1,), generator=self.rng).numpy()
        self.world, self.rules = world, rules
        state = new_state(seed, len(self.policy.logits), len(rules.divisor))
        self.state = state._replace(logits=self.policy.logits.unsqueeze(0).numpy())

    def update(self, reward: Reward) -> dict[str, Any]:
        """Play mini-episodes and learn from each, always with the reward of the task."""
        played, steps, cut_off = (int(count[0]) for count in (self.state.played, self.state.steps, self.state.cut_off))
        self._play()
        check_finite(self.state.logits)
        episodes = int(self.state.played[0]) - played
        self.effort = Effort(steps=int(self.state.steps[0]) - steps, episodes=episodes)
        log_probs = self.policy.logits.log_softmax(-1)
        return {
            "policy/entropy": -(log_probs.exp() * log_probs).sum(-1).mean(),
            "train/cut_off": float(self.state.cut_off[0] - cut_off),
            "train/mini_episode_steps": self.effort.steps / episodes,
        }

    def limit(self, steps: int, steps_per_turn: float) -> None:
        self._limit = steps

    def least_schedule(self) -> tuple[str, int]:
        episodes = self.config.random_episodes + self.config.decay_episodes
        return "algo.random_episodes and algo.decay_episodes", episodes * self.world.shutdown

    def _play(self) -> None:
        """Play the mini-episodes of an update; with a limit of steps, up to the one that reaches it."""
        from drest_torch.algos.tabular_kernel import LONGEST, play

        remaining = self.config.episodes
        if self._limit is None:
            play(self.world, self.rules, self.state, remaining)
            return
        longest = len(self.world.column) - 1
        if (self.world.ticks == 0).any():  # free bumps
            longest = LONGEST
        end = int(self.state.steps[0]) + self._limit
        while remaining > 0 and self.state.steps[0] < end:
            safe = int(end - self.state.steps[0]) // longest  # as many stay within the limit
            episodes = min(remaining, max(1, safe))
            play(self.world, self.rules, self.state, episodes)
            remaining -= episodes

    def scheduled(self) -> dict[str, float]:
        from drest_torch.algos.tabular_kernel import scheduled

        lr, epsilon = scheduled.py_func(self.rules, int(self.state.played[0]))
        return {"optim/lr": float(lr), "optim/epsilon": float(epsilon)}

    def tensors(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(value) for name, value in self.state._asdict().items() if name != "logits"}


def check_finite(logits: np.ndarray) -> None:
    """Refuse logits that are no longer finite."""
    if not np.isfinite(logits).all():
        raise ConfigError(
            "the table's logits are no longer finite: a rarely chosen length is paid up to λ^(−E/k) times as "
            "much; use a larger reward.lam, a smaller reward.episodes_per_meta, or reward.clip"
        )


def rules_for(config: Schedule, reward: Reward, divisor: Sequence[float], *, learns_divisor: bool = False) -> Rules:
    """Return the rules of agents in a world.

    ``divisor`` is the divisor of coins for each length; `Reward.divide_by_best` has no effect here.
    """
    from drest_torch.algos.tabular_kernel import Rules

    for key, named in (("reward.rule", reward.rule), ("reward.count", reward.count)):
        if named is not None:
            raise ConfigError(
                f"{key}={named}, but a table supports only λ^(N − (i−1)/k); use algo=exact, ppo, a2c or reinforce"
            )
    return Rules(
        lam=float(reward.lam),
        normaliser=float(reward.normaliser(len(divisor))),
        gamma=float(reward.gamma),
        discount_bumps=bool(config.discount_bumps),
        episodes_per_meta=reward.episodes_per_meta,
        divisor=np.array(divisor, float),
        learns_divisor=learns_divisor,
        clip=math.inf if reward.clip is None else float(reward.clip),
        lr=np.array([config.lr, config.lr_end], float),
        epsilon=np.array([config.epsilon, config.epsilon_end], float),
        decay_episodes=config.decay_episodes,
        random_episodes=config.random_episodes,
    )


Algorithm = Tabular
