"""Gymnasium environments of the worlds: a single one, and a vector of them that steps as one tensor.

One Gymnasium episode is one mini-episode; ``terminated`` marks its end. E mini-episodes make a meta-episode, which
stays on one level; a new meta-episode samples a new level. This module needs ``gymnasium`` (the extra ``gym``), and
nothing else in the project imports it. For environments of others see `gymnasium_wrappers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from torch import Tensor

from drest_torch.envs import counter_rng as streams
from drest_torch.envs.dynamics.mdp import NUM_ACTIONS, Mdp, compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.interfaces.slots import Slots
from drest_torch.envs.levels import Level
from drest_torch.reward import Reward

Array = NDArray[Any]


class _Ended(NamedTuple):
    """The mini-episodes that a step ended; all [n]."""

    slot: Tensor
    observation: Tensor
    """The last observation: the agent in its final cell, with no time left."""
    length: Tensor
    coins: Tensor
    """The γ-discounted total."""
    discount: Tensor
    """The DReST discount."""
    spot: Tensor
    taken: Tensor


class _Worlds:
    """Slots that play mini-episodes on a level set and are paid for them."""

    def __init__(
        self, levels: Mdp | Sequence[Level], slots: int, observation: str, reward: Reward, plain_coins: bool
    ) -> None:
        mdp = levels if isinstance(levels, Mdp) else compile_levels(levels)
        reward.check_sequential()
        self.reward, self.plain_coins = reward, plain_coins
        self.optima = solve(mdp, reward.gamma, committed=reward.committed)
        self.observe = make_observation(observation, mdp)
        self.slots = Slots(mdp, self.optima, slots)
        self.mdp = self.slots.mdp
        self._names = np.array([level.name for level in mdp.levels], dtype=object)
        self._counts = torch.zeros(slots, self.optima.lengths.shape[1])  # N, how often each length was played
        self._coins = torch.zeros(slots)

    def seed(self, slot: Tensor, key: Tensor) -> None:
        """Restart the random streams of these slots; the next call must begin a meta-episode."""
        of_levels, of_luck = (streams.mix(key, torch.full_like(key, stream)) for stream in (0, 1))
        self.slots.seed(of_levels, of_luck, slot)

    def begin(self, slot: Tensor, level: Tensor | None = None) -> None:
        """Begin the next mini-episode of these slots, and a new meta-episode where the current one is complete.

        If levels are given, begin a new meta-episode on them.
        """
        slots = self.slots
        here = torch.zeros_like(slots.metas, dtype=torch.bool).index_fill(0, slot, True)
        if level is None:
            complete = self._counts.sum(-1) >= self.reward.episodes_per_meta
            new = here & ((slots.metas == 0) | complete)
            levels = torch.where(new, slots.sample_levels(), slots.now.level)
        else:
            new, levels = here, slots.now.level.index_put((slot,), level.long())
        slots.metas = slots.metas + new
        self._counts[new] = 0
        self._coins[here] = 0
        slots.start(levels, here)

    def step(self, action: Tensor) -> tuple[Tensor, _Ended]:
        """Play one step in every slot; return the rewards [B] and the mini-episodes that ended."""
        before = self.slots.now
        played = self.slots.step(action)
        self._coins += played.coin * self.reward.gamma**before.ticks
        slot = played.mini_done.nonzero().squeeze(-1)
        column, best, k, coins, length = (
            values[slot]
            for values in (*self.slots.look_up(played.length), self.slots.num_lengths, self._coins, played.length)
        )
        discount = self.reward.discount(self._counts[slot, column], self._counts[slot].sum(-1), k)
        self._counts[slot, column] += 1
        self._coins[slot] = 0
        last = self.mdp.advance(before.spot[slot], before.taken[slot], action[slot])
        observation = self.observe(last.spot, last.taken, torch.zeros_like(slot))
        ended = _Ended(slot, observation, length, coins, discount, last.spot, last.taken)
        if self.plain_coins:
            return played.coin, ended
        paid = self.reward.pay(coins, discount, best)
        return torch.zeros_like(played.coin).index_put((slot,), paid), ended

    def observation(self) -> Array:
        """Return the observations of all slots."""
        now = self.slots.now
        return self.observe(now.spot, now.taken, now.time_left).numpy()

    def moment(self) -> tuple[int, int, int]:
        """Return the spot, what is taken and the time left in the first slot."""
        now = self.slots.now
        return int(now.spot[0]), int(now.taken[0]), int(now.time_left[0])

    def level(self) -> Level:
        """Return the level of the first slot."""
        return self.mdp.levels[int(self.slots.now.level[0])]

    def level_names(self) -> Array:
        """Return the name of the level of each slot."""
        return self._names[self.slots.now.level.numpy()]

    def space(self) -> spaces.Box:
        """Return the space of observations, which are negative for the coins and delays of lotteries alone."""
        high = float(max(self.mdp.max_time, self.mdp.height, self.mdp.width, float(self.mdp.coin.max())))
        if (lotteries := self.mdp.lotteries) is None:
            return spaces.Box(0.0, high, self.observe.shape, np.float32)
        high = max(high, float(lotteries.coins.abs().max()), float(lotteries.delay.abs().max()))
        return spaces.Box(-high, high, self.observe.shape, np.float32)


def _key(generator: np.random.Generator) -> int:
    return int(generator.integers(1 << 62))


class GridworldGymEnv(gymnasium.Env[Array, np.int64]):
    """A Gymnasium environment with one world at a time, in which each episode is a mini-episode.

    Args:
        levels: the level set, as levels or already compiled.
        observation: ``grid``, ``centred`` or ``vector``.
        reward: the parameters of the reward; None: DReST with the defaults of `Reward`.
        plain_coins: whether each coin pays its value at once, instead of the DReST reward.

    The reward is paid at the end of the mini-episode.

    ``reset(seed=...)`` restarts the random streams of levels and luck. ``reset(options={"level": index})`` begins a
    meta-episode on that level. Any other ``reset`` continues the meta-episode. A mini-episode that is abandoned before
    its end is not counted. ``info`` holds the name of the level and, at the end of a mini-episode, its ``length``, its
    γ-discounted ``coins`` and its ``discount``.

    With ``render_mode="rgb_array"`` `render` returns a picture of the world, whose number in the corner is the time
    left, and with ``"ansi"`` its map as text. Both need Matplotlib (the extra ``train``).
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}

    def __init__(
        self,
        levels: Mdp | Sequence[Level],
        *,
        observation: str = "grid",
        reward: Reward | None = None,
        plain_coins: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            modes = ", ".join(self.metadata["render_modes"])
            raise ValueError(f"render_mode={render_mode!r}; expected None or one of {modes}")
        self.render_mode = render_mode
        self._worlds = _Worlds(levels, 1, observation, reward or Reward(), plain_coins)
        self._slot = torch.zeros(1, dtype=torch.int64)
        self._seeded = False
        self.observation_space = self._worlds.space()
        self.action_space = spaces.Discrete(NUM_ACTIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin a mini-episode; return its first observation and ``info``."""
        super().reset(seed=seed)
        if seed is not None or not self._seeded:
            self._worlds.seed(self._slot, torch.tensor([_key(self.np_random)]))
            self._seeded = True
        level = (options or {}).get("level")
        self._worlds.begin(self._slot, None if level is None else torch.tensor([level]))
        self._moment = self._worlds.moment()
        return self._worlds.observation()[0], self._info()

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take one action; return the observation, the reward, whether the mini-episode ended, False, and ``info``."""
        reward, ended = self._worlds.step(torch.tensor([int(action)]))
        if not len(ended.slot):
            self._moment = self._worlds.moment()
            return self._worlds.observation()[0], float(reward), False, False, self._info()
        self._moment = int(ended.spot), int(ended.taken), 0
        last = {"length": int(ended.length), "coins": float(ended.coins), "discount": float(ended.discount)}
        return ended.observation[0].numpy(), float(reward), True, False, self._info() | last

    def render(self) -> Any:
        """Return the world as it is now, after the last tick of a mini-episode as it was at its end."""
        if self.render_mode is None:
            return None
        from drest_torch.envs.view import rendering  # an environment is played without matplotlib

        spot, taken, time_left = self._moment
        mdp, level = self._worlds.mdp, self._worlds.level()
        agent = divmod(spot % mdp.num_cells, mdp.width)
        if self.render_mode == "ansi":
            return f"{rendering.to_text(level, colour=False, agent=agent, taken=taken)}\ntime left: {time_left}\n"
        return rendering.frame(level, taken=taken, agent=agent, time_left=time_left)

    def _info(self) -> dict[str, Any]:
        return {"level": self._worlds.level_names()[0]}


class GridworldVectorEnv(VectorEnv[Array, Array, Array]):
    """A vector of environments that steps as one tensor; each equals a `GridworldGymEnv` with the same seed.

    The arguments are those of `GridworldGymEnv`, and ``num_envs``, the number of environments.

    An environment whose mini-episode ends begins the next one within the same step. Its last observation and the
    ``info`` of its end are in ``infos["final_obs"]`` and ``infos["final_info"]``, as Gymnasium prescribes.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        levels: Mdp | Sequence[Level],
        num_envs: int,
        *,
        observation: str = "grid",
        reward: Reward | None = None,
        plain_coins: bool = False,
    ) -> None:
        self.num_envs = num_envs
        self._worlds = _Worlds(levels, num_envs, observation, reward or Reward(), plain_coins)
        self._every = torch.arange(num_envs)
        self._seeded = False
        self.single_observation_space = self._worlds.space()
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin a mini-episode in every environment; ``seed=s`` seeds environment i with s + i."""
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is None:
            seeds = [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments; expected one each")
        slots = [i for i, number in enumerate(seeds) if number is not None or not self._seeded]
        if slots:
            self._worlds.seed(torch.tensor(slots), torch.tensor([_key(seeding.np_random(seeds[i])[0]) for i in slots]))
            self._seeded = True
        level = (options or {}).get("level")
        self._worlds.begin(self._every, None if level is None else torch.as_tensor(level))
        return self._worlds.observation(), self._info()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Take one action in every environment [num_envs]; return what `GridworldGymEnv.step` returns, as arrays."""
        names = self._worlds.level_names()
        reward, ended = self._worlds.step(torch.as_tensor(actions, dtype=torch.int64))
        terminated = np.zeros(self.num_envs, dtype=bool)
        terminated[ended.slot.numpy()] = True
        final: dict[str, Any] = {}
        if len(ended.slot):
            self._worlds.begin(ended.slot)
            final = self._final(ended, terminated, names)
        truncated = np.zeros_like(terminated)
        return self._worlds.observation(), reward.double().numpy(), terminated, truncated, self._info() | final

    def _info(self) -> dict[str, Any]:
        return {"level": self._worlds.level_names(), "_level": np.ones(self.num_envs, dtype=bool)}

    def _final(self, ended: _Ended, terminated: Array, names: Array) -> dict[str, Any]:
        slot = ended.slot.numpy()
        observations = np.full(self.num_envs, None, dtype=object)
        observations[slot] = list(ended.observation.numpy())
        info: dict[str, Any] = {}
        values = {"length": ended.length, "coins": ended.coins.double(), "discount": ended.discount.double()}
        for key, value in {"level": names[slot], **{key: tensor.numpy() for key, tensor in values.items()}}.items():
            info[key] = np.zeros(self.num_envs, dtype=value.dtype)
            info[key][slot] = value
            info[f"_{key}"] = terminated.copy()
        return {
            "final_obs": observations,
            "_final_obs": terminated.copy(),
            "final_info": info,
            "_final_info": terminated.copy(),
        }


def register(name: str = "drest/Gridworld-v0") -> None:
    """Register the worlds for ``gymnasium.make`` and ``gymnasium.make_vec`` under this name."""
    gymnasium.register(
        name,
        entry_point="drest_torch.envs.interfaces.gymnasium_env:GridworldGymEnv",
        vector_entry_point="drest_torch.envs.interfaces.gymnasium_env:GridworldVectorEnv",
    )
