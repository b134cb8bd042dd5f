"""A trained agent: load it, act with it, evaluate it on levels of your choice, and save it for others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from drest_torch.algos.networks.policy import Policy
from drest_torch.config.checks import device_of
from drest_torch.config.schema import LevelsConfig
from drest_torch.config.stored import load_config
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import Level, features_of, find_levels
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.exact import Evaluation, LevelSetEvaluator
from drest_torch.evaluation.sampled import greedily
from drest_torch.evaluation.summary import SplitScores, plot_policies, split_scores, split_summary
from drest_torch.files import write_json, write_whole
from drest_torch.rollout.episodes import Episode, sample_episodes
from drest_torch.training import levels as data
from drest_torch.training.build import evaluator, map_size, networks, reward_of
from drest_torch.training.checkpoints import load_checkpoint, load_module, save_checkpoint, step_checkpoints, step_path

PRETRAINED = Path(__file__).resolve().parent / "pretrained"
"""The folder of the agents that come with the project, as `Agent.save` writes them."""
SHIPPED = "generalist"
"""The agent that is loaded by default."""


class Agent:
    """A trained policy, loaded from the folder of its run: it acts, and can be evaluated on levels of your choice.

    >>> agent = Agent.load("generalist")
    >>> agent.probabilities("my_level.txt")
    {4: 0.5, 8: 0.5}
    """

    def __init__(self, folder: Path, *, checkpoint: str = "last", device: str = "cpu") -> None:
        self.folder = folder
        self.cfg = load_config(folder)
        self.device, self.cfg.device = device_of(device), device
        self.reward = reward_of(self.cfg)
        if self.cfg.levels.generator is not None:
            # Generation takes seconds, and one level is enough to infer the observation shape.
            self.cfg.levels.train = 1
        self.levels = data.load(self.cfg)
        self.map_size = map_size(self.cfg, self.levels)
        mdp = compile_levels(self.levels.train[:1], at_least=self.map_size, features=features_of(self.levels.every()))
        observe = make_observation(self.cfg.policy.observation, mdp)
        self.shape = observe.shape
        """The shape of one observation."""
        self.policy, _ = networks(self.cfg, observe, 0, with_critic=False, seed=self.cfg.seed)
        self.checkpoint = self._checkpoint_path(checkpoint)
        tensors, _ = load_checkpoint(self.checkpoint)
        load_module("policy", self.policy, tensors, self.checkpoint)
        self.policy.to(self.device)
        self._generator = torch.Generator(self.device)
        self.seed(self.cfg.seed)

    @classmethod
    def load(cls, path_or_name: str | Path = "generalist", *, checkpoint: str = "last", device: str = "cpu") -> Agent:
        """Load an agent from the folder of a run, or an agent that comes with the project by name (``generalist``).

        ``checkpoint`` is ``last``, ``best`` (on the run's selection levels) or a file.
        """
        folder = Path(path_or_name)
        if not folder.exists() and (PRETRAINED / str(path_or_name)).is_dir():
            folder = PRETRAINED / str(path_or_name)
        if not folder.is_dir():
            names = ", ".join(sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir()))
            raise CheckpointError(f"{path_or_name}: no such folder of a run, and no agent of that name ({names})")
        return cls(folder, checkpoint=checkpoint, device=device)

    def _checkpoint_path(self, checkpoint: str) -> Path:
        folder = self.folder / "checkpoints"
        if checkpoint == "best":
            best = folder / "best.safetensors"
            if not best.is_file():
                raise CheckpointError(f"{best}: no such checkpoint; only a run with selection levels keeps its best")
            return best
        if checkpoint != "last":
            return Path(checkpoint)
        if not (saved := step_checkpoints(folder)):
            raise CheckpointError(f"{folder}: no checkpoint in it yet; the run has to train a little longer")
        return saved[-1]

    def seed(self, seed: int) -> None:
        """Seed the agent: what it samples from now on is repeatable."""
        self._generator.manual_seed(seed)
        self._private: Tensor | None = None

    def begin_episode(self) -> None:
        """Start a mini-episode: new private bits are sampled at the next action."""
        self._private = None

    def act(self, observation: Any, *, greedy: bool = False) -> Any:
        """Sample an action for an observation, or for each observation of a batch: 0 up, 1 down, 2 left, 3 right.

        An observation is the environment's observation of the kind ``agent.observation``, as an array or a tensor. If
        the policy has private bits, call `begin_episode` at the start of each mini-episode: it keeps them to the end.
        """
        probabilities = self.action_probabilities(observation)
        batch = probabilities.reshape(-1, probabilities.shape[-1])
        if greedy:
            actions = batch.argmax(-1)
        else:
            actions = torch.multinomial(batch, 1, generator=self._generator).squeeze(-1)
        return int(actions[0]) if probabilities.ndim == 1 else actions

    @torch.no_grad()
    def action_probabilities(self, observation: Any) -> Tensor:
        """Return the probability of each action [4], or [n, 4] for a batch of observations, given the private bits."""
        array = torch.as_tensor(observation, dtype=torch.float32, device=self.device)
        single = array.ndim == len(self.shape)
        batch = array.unsqueeze(0) if single else array
        if tuple(batch.shape[1:]) != self.shape:
            raise ConfigError(
                f"an observation of shape {tuple(array.shape)}, and the policy sees {self.observation} observations of "
                f"shape {self.shape}; make the environment with observation={self.observation!r} and maps of "
                f"{self.map_size[0]} by {self.map_size[1]}"
            )
        probabilities = self.policy(batch, self._private_bits(len(batch))).softmax(-1)
        return probabilities[0] if single else probabilities

    def _private_bits(self, count: int) -> Tensor | None:
        """Return the private bits of each row [count, bits]; sample them if there are none yet."""
        if not self.policy.private_bits:
            return None
        if self._private is None or len(self._private) != count:
            sampled = torch.rand(count, self.policy.private_bits, generator=self._generator, device=self.device)
            self._private = (sampled < 0.5).float() if self.cfg.policy.private_kind == "bits" else sampled
        return self._private

    @property
    def name(self) -> str:
        """The name of the folder that the agent was loaded from."""
        return self.folder.absolute().name

    @property
    def observation(self) -> str:
        """The kind of observation that the policy sees: centred, grid or vector."""
        return self.cfg.policy.observation

    def probabilities(self, level: Level | str | Path) -> dict[int, float]:
        """Return the exact probability of each trajectory-length of a level, or of a file with one level."""
        return self.evaluate(level).evaluation.length_probabilities(0)

    def evaluate(
        self,
        levels: Level | Sequence[Level] | str | Path,
        *,
        greedy: bool = False,
        sampled: int | None = None,
        memory_gib: float = math.inf,
    ) -> Results:
        """Evaluate on levels, a level file, or worlds by name (``paper``): exactly, or by sampling.

        ``sampled`` is the number of mini-episodes to play on each level; None evaluates exactly. Levels that the policy
        cannot observe, or that are too large, raise an error with the reason.
        """
        if isinstance(levels, str | Path):
            levels = find_levels(str(levels))
        levels = [levels] if isinstance(levels, Level) else list(levels)
        rows, columns = self.map_size
        for level in levels:
            if level.height > rows or level.width > columns:
                raise ConfigError(
                    f"{level.place} has {level.height} rows and {level.width} columns and the policy was built for "
                    f"maps of at most {rows} by {columns}; train one on levels of that size (smaller ones are padded)"
                )
        if self.cfg.policy.observation == "vector" and len(levels) > 1:
            raise ConfigError(f"the policy sees the vector observation of 1 level; {len(levels)} levels were given")
        level_set = evaluator(
            self.cfg, self.reward, levels, self.map_size, self.device, sampled=sampled, memory_gib=memory_gib
        )
        if level_set.observe.shape != self.shape:
            raise ConfigError(
                f"the levels' {self.cfg.policy.observation} observation has shape {level_set.observe.shape} and the "
                f"policy's {self.shape}; it was trained on levels with other coins and buttons"
            )
        return Results(level_set, self.policy, level_set.evaluate(self.policy, greedy=greedy), greedy, self.name)

    def save(self, path: str | Path) -> Path:
        """Save the configuration and the policy, which `load` needs, to a new folder; return the folder."""
        folder = Path(path)
        tensors, meta = load_checkpoint(self.checkpoint)
        cfg: Any = load_config(self.folder)
        cfg.run_dir, cfg.threads = "runs/shipped", None
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "config.yaml", OmegaConf.to_yaml(cfg).encode())
        policy = {name: value for name, value in tensors.items() if name.startswith("policy.")}
        checkpoint = step_path(folder / "checkpoints", meta["steps"])
        save_checkpoint(checkpoint, policy, meta)
        for other in step_checkpoints(checkpoint.parent):
            if other != checkpoint:
                other.unlink()
        return folder


@dataclass(frozen=True)
class Results:
    """The evaluation of an agent on a level set."""

    evaluator: LevelSetEvaluator
    policy: Policy
    evaluation: Evaluation
    greedy: bool
    agent: str
    """The name of the agent in pictures."""

    @property
    def usefulness(self) -> float:
        """The mean usefulness over the levels."""
        return self.evaluation.means()["usefulness"]

    @property
    def neutrality(self) -> float:
        """The mean neutrality over the levels, in bits."""
        return self.evaluation.means()["neutrality"]

    def rows(self) -> list[SplitScores]:
        """Return the row of the printed table."""
        numbers = split_summary(self.evaluation, self.evaluator.evaluate_uniform(), len(self.evaluator.levels))
        return split_scores({"splits": {"levels": numbers}})

    def record(self) -> dict[str, Any]:
        """Return the JSON value of ``out=FILE``: the means, then every level."""
        return {"mean": self.evaluation.means(), "levels": self.evaluation.records()}

    def write(self, path: Path) -> None:
        """Write `record` to a JSON file."""
        write_json(path, self.record())

    def draw(self, folder: Path, most: int = 9) -> list[Path]:
        """Plot the policy on the first levels, one picture per level; return the files."""
        return plot_policies(
            self.evaluator, self.policy, self.evaluation, folder, most=most, agent=self.agent, greedy=self.greedy
        )

    def episodes(self, *, seed: int = 0) -> list[Episode]:
        """Sample a mini-episode on the first level for each length with a probability above 1 %, shortest first."""
        level_set = self.evaluator
        return sample_episodes(
            level_set.mdp,
            level_set.observe,
            greedily(self.policy) if self.greedy else self.policy,
            self.evaluation.length_probabilities(0),
            private_bits=self.policy.private_bits,
            are_bits=level_set.private_kind == "bits",
            seed=seed,
        )

    def animate(self, path: str | Path, *, seed: int = 0) -> None:
        """Write a GIF of these mini-episodes, side by side."""
        from drest_torch.plots.animation import check_ending, write_animation  # an agent is loaded without matplotlib

        check_ending(Path(path))
        write_animation(self.evaluator.levels[0], self.episodes(seed=seed), Path(path), agent=self.agent)


def levels_to_evaluate(agent: Agent, chosen: LevelsConfig) -> list[Level]:
    """Return the levels that a user names. ``levels=own`` are the run's own test levels."""
    if chosen.path is None and chosen.name == "own":
        if "test" not in agent.levels.reported:
            raise ConfigError(f"{agent.folder} has no test levels; choose levels=paper or levels.path=FILE")
        return agent.levels.reported["test"]
    return data.named(chosen)
