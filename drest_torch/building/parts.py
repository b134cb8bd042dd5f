"""Make the reward, the observation and the map size of a run from its configuration."""

from __future__ import annotations

from dataclasses import fields

from drest_torch.algos.networks.base import requirements
from drest_torch.building import levels as data
from drest_torch.config.schema import Config
from drest_torch.envs.dynamics.mdp import Mdp
from drest_torch.envs.dynamics.observations import Observation, make_observation
from drest_torch.reward import Reward


def reward_of(cfg: Config) -> Reward:
    return Reward(**{field.name: getattr(cfg.reward, field.name) for field in fields(Reward)})


def observation(cfg: Config, mdp: Mdp) -> Observation:
    """Make the observation of a run's policy for a level set."""
    return make_observation(cfg.policy.observation, mdp, cfg.policy.time_steps)


def map_size(cfg: Config, levels: data.Levels) -> tuple[int, int]:
    """Return the rows and columns of the largest map; smaller maps are padded to it with wall."""
    if cfg.policy.observation == "vector":
        return levels.train[0].height, levels.train[0].width
    sizes = [(level.height, level.width) for level in levels.every()]
    if levels.split is not None:  # the size must not depend on how many levels are generated
        sizes.append((levels.split.config.height[1], levels.split.config.width[1]))
    height, width = max(height for height, _ in sizes), max(width for _, width in sizes)
    squares = requirements(cfg.policy.network).symmetries == "observation"
    if squares or cfg.levels.symmetries:  # a quarter turn swaps rows and columns
        return max(height, width), max(height, width)
    return height, width
