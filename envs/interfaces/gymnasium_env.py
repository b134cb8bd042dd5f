"""Gymnasium environments of the worlds: a vector of them that steps as one tensor, and a single one.

One Gymnasium episode is one mini-episode; ``terminated`` marks its end. E mini-episodes make a meta-episode, which
stays on one level; a new meta-episode samples a new level. This module needs ``gymnasium`` (the extra ``gym``), and
nothing else in the project imports it. For environments of others see `gymnasium_wrappers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from drest_torch.envs.interfaces.slots import EpisodeState, Slots
from drest_torch.envs.levels import Level
from drest_torch.reward import Reward

Array = NDArray[Any]


class GridworldVectorEnv(VectorEnv[Array, Array, Array]):
    """A vector of environments that steps as one tensor; each equals a `GridworldGymEnv` with the same seed.

    The arguments are those of `GridworldGymEnv`, and ``num_envs``, the number of environments.

    An environment whose mini-episode ends begins the next one within the same step. Its last observation and the
    ``info`` of its end are in ``infos["final_obs"]`` and ``infos["final_info"]``, as Gymnasium prescribes.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
    moment: EpisodeState
    """The state after the last step: where a mini-episode ended, its end and not the start of the next one."""

    def __init__(
        self,
        levels: Mdp | Sequence[Level],
        num_envs: int,
        *,
        observation: str = "grid",
        reward: Reward | None = None,
        plain_coins: bool = False,
    ) -> None:
        mdp = levels if isinstance(levels, Mdp) else compile_levels(levels)
        self.num_envs, self.plain_coins = num_envs, plain_coins
        self.reward = reward or Reward()
        self.reward.check_sequential()
        optima = solve(mdp, self.reward.gamma, committed=self.reward.committed)
        self.slots = Slots(mdp, optima, num_envs)
        self.mdp = self.slots.mdp
        self._observe = make_observation(observation, mdp)
        self._names = np.array([level.name for level in mdp.levels], dtype=object)
        self._counts = torch.zeros(num_envs, optima.lengths.shape[1])  # N, how often each length was played
        self._coins = torch.zeros(num_envs)
        self._seeded = False
        self.single_observation_space = self._space()
        self.single_action_space = spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _space(self) -> spaces.Box:
        """Return the space of observations, which are negative for the coins and delays of lotteries alone."""
        mdp = self.mdp
        largest = (float(numbers.abs().max()) for numbers in (mdp.outcomes.coins, mdp.outcomes.delay))
        high = max(float(mdp.max_time), mdp.height, mdp.width, *largest)
        return spaces.Box(-high if mdp.has_lotteries else 0.0, high, self._observe.shape, np.float32)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin a mini-episode in every environment; ``seed=s`` seeds environment i with s + i."""
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        if seeds is None:
            seeds = [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"{len(seeds)} seeds for {self.num_envs} environments; expected one each")
        chosen = [i for i, number in enumerate(seeds) if number is not None or not self._seeded]
        if chosen:
            key = torch.tensor([int(seeding.np_random(seeds[i])[0].integers(1 << 62)) for i in chosen])
            of_levels, of_luck = (streams.mix(key, torch.full_like(key, stream)) for stream in (0, 1))
            self.slots.seed(of_levels, of_luck, torch.tensor(chosen))
            self._seeded = True
        self._begin(torch.ones(self.num_envs, dtype=torch.bool), (options or {}).get("level"))
        self.moment = self.slots.now
        return self._observation(), self._info()

    def _begin(self, here: Tensor, level: Any = None) -> None:
        """Begin the next mini-episode where ``here`` [B] is true, and a new meta-episode where one is complete.

        If levels [B] are given, begin a new meta-episode on them.
        """
        slots, new = self.slots, here
        if level is None:
            new = here & ((slots.metas == 0) | (self._counts.sum(-1) >= self.reward.episodes_per_meta))
            level = torch.where(new, slots.sample_levels(), slots.now.level)
        slots.metas = slots.metas + new
        self._counts[new] = 0
        self._coins[here] = 0
        slots.start(torch.as_tensor(level), here)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Take one action in every environment [num_envs]; return what `GridworldGymEnv.step` returns, as arrays."""
        names, before, slots = self._info()["level"], self.slots.now, self.slots
        action = torch.as_tensor(actions, dtype=torch.int64)
        played = slots.step(action)
        self.moment = slots.now
        self._coins += played.coin * self.reward.gamma**before.ticks
        ended, reward, final = played.mini_done, played.coin, {}
        if ended.any():
            column, best = slots.look_up(played.length)
            column = column.unsqueeze(-1)
            chosen_before = self._counts.gather(-1, column).squeeze(-1)
            discount = self.reward.discount(chosen_before, self._counts.sum(-1), slots.num_lengths)
            paid = self.reward.pay(self._coins, discount, best)
            self._counts.scatter_add_(-1, column, ended.unsqueeze(-1).float())
            ends = {
                "level": names,
                "length": played.length,
                "coins": self._coins.double(),
                "discount": discount.double(),
            }
            final = self._final(before, action, ended, ends)
            self._begin(ended)
        if not self.plain_coins:
            reward = torch.where(ended, paid, 0) if final else torch.zeros_like(reward)
        truncated = np.zeros(self.num_envs, dtype=bool)
        return self._observation(), reward.double().numpy(), ended.numpy(), truncated, self._info() | final

    def _final(self, before: EpisodeState, action: Tensor, ended: Tensor, ends: dict[str, Any]) -> dict[str, Any]:
        """Return what a step says of the mini-episodes that it ended: the last observation, without time, and these."""
        here, last = ended.numpy(), self.mdp.advance(before.spot, before.taken, action)
        time_left = self.slots.now.time_left * ~ended
        self.moment = before._replace(spot=last.spot, taken=last.taken, time_left=time_left)
        seen = self._observe(last.spot, last.taken, time_left).numpy()
        observations = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(here):
            observations[i] = seen[i]
        info = _masked({key: np.where(here, values, 0) for key, values in ends.items()}, here)
        return _masked({"final_obs": observations, "final_info": info}, here)

    def _observation(self) -> Array:
        now = self.slots.now
        return self._observe(now.spot, now.taken, now.time_left).numpy()

    def _info(self) -> dict[str, Any]:
        return _masked({"level": self._names[self.slots.now.level.numpy()]}, np.ones(self.num_envs, dtype=bool))


def _masked(entries: dict[str, Any], here: Array) -> dict[str, Any]:
    """Return entries of ``info`` with the masks of the environments that have them, as Gymnasium prescribes."""
    return entries | {f"_{key}": here.copy() for key in entries}


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
        self._envs = GridworldVectorEnv(levels, 1, observation=observation, reward=reward, plain_coins=plain_coins)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin a mini-episode; return its first observation and ``info``."""
        super().reset(seed=seed)
        level = (options or {}).get("level")
        observations, info = self._envs.reset(seed=seed, options={"level": None if level is None else [level]})
        return observations[0], {"level": info["level"][0]}

    def step(self, action: np.int64 | int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Take one action; return the observation, the reward, whether the mini-episode ended, False, and ``info``."""
        observations, reward, terminated, _, info = self._envs.step(np.array([action]))
        if terminated[0]:
            observations, info = info["final_obs"], info["final_info"]
        shown = {key: values.tolist()[0] for key, values in info.items() if not key.startswith("_")}
        return observations[0], float(reward[0]), bool(terminated[0]), False, shown

    def render(self) -> Any:
        """Return the world as it is now, after the last tick of a mini-episode as it was at its end."""
        if self.render_mode is None:
            return None
        from drest_torch.envs.view import rendering  # an environment is played without matplotlib

        mdp, moment = self._envs.mdp, self._envs.moment
        level, taken, time_left = mdp.levels[int(moment.level)], int(moment.taken), int(moment.time_left)
        agent = divmod(int(moment.spot) % mdp.num_cells, mdp.width)
        if self.render_mode == "ansi":
            text = rendering.to_text(level, colour=False, agent=agent, taken=taken)
            return f"{text}\ntime left: {time_left}\n"
        return rendering.frame(level, taken=taken, agent=agent, time_left=time_left)


def register(name: str = "drest/Gridworld-v0") -> None:
    """Register the worlds for ``gymnasium.make`` and ``gymnasium.make_vec`` under this name."""
    gymnasium.register(
        name,
        entry_point="drest_torch.envs.interfaces.gymnasium_env:GridworldGymEnv",
        vector_entry_point="drest_torch.envs.interfaces.gymnasium_env:GridworldVectorEnv",
    )
