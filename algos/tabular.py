"""The paper's algorithm: REINFORCE (Williams 1992) on a table with a row of logits for each observation.

Mini-episodes are played ε-greedily, one after the other, and the table learns from each at once: every
step's logits move along the gradient of the log-probability of its action, times the discounted reward
from that step on. As in the paper, as far as it can be told, the gradient is the softmax policy's although
the ε-greedy policy plays; `gradient=behaviour` takes that of the policy that plays.

Coins are divided by the m of the length that the mini-episode turns out to have, also those taken before
that was decided. As later actions are not credited with earlier coins, the update is then not quite the
gradient of the expected return; where no coin can be had before the choice of length, it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
from omegaconf import MISSING
from torch import Tensor, nn

from algos.base import Learner
from algos.networks.base import Size, Symmetries
from algos.tabular_kernel import NUM_ACTIONS, Rules, Worlds, new_state, play
from drest_torch.limits import limited
from drest_torch.reward import Reward

GRADIENTS = ("softmax", "behaviour")


def _keep_torchs_threads() -> None:
    """Start numba's threads now and set torch's number back: starting them sets it to the number of cores."""
    threads = torch.get_num_threads()
    numba.get_num_threads()
    torch.set_num_threads(threads)


_keep_torchs_threads()


@dataclass
class Schedule:
    """How a table is trained."""

    lr: float = limited(above=0)
    lr_end: float = limited(above=0)
    epsilon: float = limited(above=0, at_most=1)
    epsilon_end: float = limited(above=0, at_most=1)
    decay_episodes: int = limited(at_least=1)
    random_episodes: int = limited(at_least=0)
    gradient: str = limited(choices=GRADIENTS)
    discount_bumps: bool = MISSING


@dataclass
class Config(Schedule):
    name: str = MISSING
    episodes: int = limited(at_least=1)


class TablePolicy(nn.Module):
    """Logits of the actions from observations [x, y, c…, b…], looked up.

    The row of an observation is its cell, counted row by row, then a bit for each coin and button: 1 once
    it is taken.
    """

    noise = 0
    logits: Tensor

    def __init__(self, width: int, height: int, num_objects: int) -> None:
        super().__init__()
        self.width, self.num_objects = width, num_objects
        rows = width * height << num_objects
        self.register_buffer("logits", torch.zeros(rows, NUM_ACTIONS, dtype=torch.float64))
        self._bits = torch.arange(num_objects)

    def forward(self, observation: Tensor, noise: Tensor | None = None) -> Tensor:
        return self.logits[self.row(observation)]

    def row(self, observation: Tensor) -> Tensor:
        seen = observation.long()
        taken = ((1 - seen[:, 2:]) << self._bits).sum(-1)
        return (seen[:, 1] * self.width + seen[:, 0] << self.num_objects) | taken


class Tabular(Learner):
    """One agent of `algos.tabular_kernel`, as a learner among the others."""

    learns_from = "world"
    policy: TablePolicy

    @classmethod
    def new_policy(
        cls, observation: Any, num_actions: int, size: Size, noise: int, symmetries: Symmetries | None
    ) -> TablePolicy:
        return TablePolicy(observation.width, observation.height, observation.num_objects)

    def begin(self, worlds: Worlds, rules: Rules) -> None:
        """The world to play in, and the rules to play by."""
        (generator,) = self.draws.generators
        seed = torch.randint(1 << 62, (1,), generator=generator).numpy()
        self._worlds, self._rules = worlds, rules
        state = new_state(seed, len(self.policy.logits), rules.divisor.shape[1])
        self.state = state._replace(logits=self.policy.logits.unsqueeze(0).numpy())

    def update(self, episodes: int) -> dict[str, Tensor]:
        """Play so many mini-episodes, with an update after each."""
        cut_off = int(self.state.cut_off[0])
        play(self._worlds, self._rules, self.state, episodes)
        logits = self.policy.logits.log_softmax(-1)
        entropy = -(logits.exp() * logits).sum(-1).mean()
        return {"policy/entropy": entropy, "train/cut_off": torch.tensor(float(self.state.cut_off[0] - cut_off))}

    def scheduled(self) -> dict[str, float]:
        lr, epsilon = schedule(self.config, int(self.state.played[0]))
        return {"optim/lr": lr, "optim/epsilon": epsilon}

    def tensors(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(value) for name, value in self.state._asdict().items() if name != "logits"}


def schedule(config: Schedule, played: int) -> tuple[float, float]:
    """The learning rate and ε after so many mini-episodes, as `algos.tabular_kernel` computes them."""
    done = min(max(played - config.random_episodes, 0) / config.decay_episodes, 1.0)
    lr, epsilon = (
        start ** (1 - done) * end**done
        for start, end in ((config.lr, config.lr_end), (config.epsilon, config.epsilon_end))
    )
    return lr, 1.0 if played < config.random_episodes else epsilon


def rules_for(
    agents: int,
    config: Schedule,
    reward: Reward,
    *,
    num_lengths: int,
    divisor: Sequence[float],
    learns_divisor: bool = False,
) -> Rules:
    """Return the rules of agents that differ in nothing but their streams, all on level 0, which has k lengths.

    ``divisor`` is what coins are divided by, given each length; `Reward.divide_by_best` is not asked.
    """

    def each(value: Any, kind: type = float) -> np.ndarray:
        return np.repeat(np.array([value], kind), agents, 0)

    return Rules(
        level=each(0, int),
        lam=each(reward.lam),
        normaliser=each(reward.normaliser(num_lengths)),
        gamma=each(reward.gamma),
        discount_bumps=each(config.discount_bumps, bool),
        episodes_per_meta=each(reward.episodes_per_meta, int),
        divisor=each(list(divisor)),
        learns_divisor=each(learns_divisor, bool),
        clip=each(math.inf if reward.clip is None else reward.clip),
        lr=each([config.lr, config.lr_end]),
        epsilon=each([config.epsilon, config.epsilon_end]),
        decay_episodes=each(config.decay_episodes, int),
        random_episodes=each(config.random_episodes, int),
        behaviour_gradient=each(config.gradient == "behaviour", bool),
    )


Algorithm = Tabular
