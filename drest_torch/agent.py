"""A trained agent: load it, act with it, evaluate it on levels of your choice, and share it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from drest_torch.building import levels as data
from drest_torch.building.checkpoints import (
    agent_folder,
    checkpoint_path,
    load_checkpoint,
    load_module,
    save_checkpoint,
    step_checkpoints,
    step_path,
)
from drest_torch.building.parts import evaluator, map_size, networks, observation, reward_of
from drest_torch.config.checks import device_of
from drest_torch.config.schema import LevelsConfig, in_gridworld, shown_features
from drest_torch.config.stored import load_config
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.levels import Level, features_of, find_levels, parse_level
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.exact import LevelSetEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.files import write_whole

SHIPPED = "generalist"
"""The agent that is loaded by default."""
SMALLEST = ("shutdown: 1\n\nA\nC1", "shutdown: 1\n\nA C1")
"""Levels that stand for generated ones where their map does not matter; the first is for maps of one column."""


class Agent:
    """A trained policy: it acts in gridworlds, and can be evaluated exactly on levels of your choice.

    `Agent.load` makes one from the folder of a run, or loads the agent that comes with the project;
    `Agent.from_pretrained` takes one from the Hugging Face Hub.

    Args:
        folder: the folder of a run, or one that `Agent.save` wrote.
        checkpoint: ``last``, ``best`` (on the run's selection levels), or the path of a checkpoint file.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.

    Example:
        >>> agent = Agent.load("generalist")
        >>> agent
        Agent(generalist: convolutional network, 26,661 parameters, 0 private bits, maps of any size)
        >>> {length: round(p, 2) for length, p in agent.probabilities("example").items()}
        {4: 0.41, 8: 0.59}
    """

    def __init__(self, folder: Path, *, checkpoint: str = "last", device: str = "cpu") -> None:
        self.folder = folder
        self.name = folder.resolve().name
        """The name of the folder, or of the repository on the Hub."""
        self.cfg = load_config(folder)
        if not in_gridworld(self.cfg):
            raise CheckpointError(
                f"{folder}: a run in {self.cfg.env.title}, and an Agent acts in gridworlds; evaluate it with "
                f"python -m drest_torch.evaluate run={folder}"
            )
        for group, key, path in data.level_files(self.cfg):
            if (folder / path).is_file():
                setattr(getattr(self.cfg, group), key, str(folder / path))
        self.device, self.cfg.device = device_of(device), device
        self.reward = reward_of(self.cfg)
        """The reward that the agent was trained with, a `drest_torch.reward.Reward`."""
        if self.cfg.levels.generator is not None:
            self.cfg.levels.train = 1  # an agent is evaluated on the others
        outline = data.load_outline(self.cfg)
        self.map_size = map_size(self.cfg, outline)
        """The rows and columns of the largest map of the run; only a policy that reads maps can observe larger ones."""
        self.features = features_of(outline.every()) | shown_features(self.cfg)
        """What the policy is shown that only some levels have: ``compile_levels(levels, features=agent.features)`` is
        for an environment to act in."""
        some = outline.train[:1] or [parse_level(SMALLEST[self.map_size[1] > 1])]
        mdp = compile_levels(some, at_least=self.map_size, features=self.features)
        observe = observation(self.cfg, mdp)
        self.shape = observe.shape
        """The shape of one observation."""
        self.policy, _ = networks(self.cfg, observe)
        self.checkpoint = checkpoint_path(self.folder, checkpoint)
        """The file of the weights."""
        tensors, _ = load_checkpoint(self.checkpoint)
        load_module("policy", self.policy, tensors, self.checkpoint)
        self.policy.to(self.device)
        self._generator = torch.Generator(self.device)
        self.seed(self.cfg.seed)

    @cached_property
    def levels(self) -> data.Levels:
        """The levels of the agent's run, with one training level of those that are generated."""
        return data.load(self.cfg)

    def __repr__(self) -> str:
        policy = self.cfg.policy
        count, kind = policy.private_bits, policy.private_kind.removesuffix("s")
        private = f"{count} private {kind}{'' if count == 1 else 's'}"
        parameters = sum(parameter.numel() for parameter in self.policy.parameters())
        rows, columns = self.map_size
        maps = "any size" if self.policy.reads_maps else f"at most {rows} by {columns}"
        return f"Agent({self.name}: {policy.network} network, {parameters:,} parameters, {private}, maps of {maps})"

    @classmethod
    def load(cls, path_or_name: str | Path = SHIPPED, *, checkpoint: str = "last", device: str = "cpu") -> Agent:
        """Load an agent from the folder of a run, or by name.

        Args:
            path_or_name: the folder of a run, or the name of an agent that comes with the project
                (``generalist``, ``generalist-buttons``, ``generalist-bit``).
            checkpoint: ``last``, ``best`` (on the run's selection levels), or the path of a checkpoint file.
            device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.

        Example:
            >>> agent = Agent.load("runs/my-run", checkpoint="best")  # doctest: +SKIP
        """
        return cls(agent_folder(path_or_name), checkpoint=checkpoint, device=device)

    def seed(self, seed: int) -> None:
        """Restart the generator of actions and private bits from a seed, so that they can be sampled again.

        Example:
            >>> agent.seed(0)
        """
        self._generator.manual_seed(seed)
        self._private: Tensor | None = None
        self._memory: Tensor | None = None

    def begin_episode(self) -> None:
        """Begin a mini-episode: `act` samples new private bits, and an agent with a memory forgets the steps before.

        An agent that was trained to play the mini-episodes of a meta-episode in turn forgets at `seed` alone.

        Call it when mini-episodes begin, and when the number of observations in a batch changes. A private bit is a
        random bit that the policy sees throughout a mini-episode; with it, the policy can choose a length at random and
        keep to its choice.

        Example:
            >>> agent.begin_episode()
        """
        self._private = None
        if self.reward.counting == "averaged":
            self._memory = None

    def act(self, observation: Any, *, greedy: bool = False) -> Any:
        """Sample an action for one observation, or one for each observation of a batch.

        The actions are 0 up, 1 down, 2 left and 3 right. The private bits of the agent are kept until `begin_episode`.

        Args:
            observation: an array or tensor of shape ``agent.shape`` or [n, *agent.shape], as an environment made with
                ``observation=agent.observation`` returns it. An agent that reads maps of any size accepts other rows
                and columns.
            greedy: whether to take the most likely action instead of sampling.

        Returns:
            an int for one observation, an integer tensor [n] for a batch.

        Example:
            >>> from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
            >>> from drest_torch.envs.levels import world
            >>> env = GridworldEnv([world("example")], num_slots=3, observation=agent.observation)
            >>> agent.act(env.reset()["observation"]).shape
            torch.Size([3])
        """
        probabilities, self._memory = self._probabilities(observation)
        batch = probabilities.reshape(-1, probabilities.shape[-1])
        if greedy:
            actions = batch.argmax(-1)
        else:
            actions = torch.multinomial(batch, 1, generator=self._generator).squeeze(-1)
        return int(actions[0]) if probabilities.ndim == 1 else actions

    def action_probabilities(self, observation: Any) -> Tensor:
        """Return the probabilities of the four actions, given the private bits of the current mini-episode.

        Args:
            observation: as for `act`.

        Returns:
            a tensor [4] for one observation, [n, 4] for a batch.

        Example:
            >>> agent.action_probabilities(torch.zeros(agent.shape)).shape
            torch.Size([4])
        """
        return self._probabilities(observation)[0]

    @torch.no_grad()
    def _probabilities(self, observation: Any) -> tuple[Tensor, Tensor | None]:
        """Return the probabilities of the actions, and what is remembered once one of them is taken."""
        array = torch.as_tensor(observation, dtype=torch.float32, device=self.device)
        single = array.ndim == len(self.shape)
        batch = array.unsqueeze(0) if single else array
        if not self._can_see(tuple(batch.shape[1:])):
            raise ConfigError(
                f"an observation of shape {tuple(array.shape)}, and the policy sees {self.observation} observations of "
                f"shape {self.shape}; make the environment with observation={self.observation!r} and maps of "
                f"{self.map_size[0]} by {self.map_size[1]}"
            )
        outputs, memory = self.policy(batch, self._private_bits(len(batch))), self._memory
        if self.policy.memory:
            begins = torch.zeros(len(batch), 1, dtype=torch.bool, device=self.device)
            if memory is None or len(memory) != len(batch):
                memory = outputs.new_zeros(len(batch), 1, self.policy.memory)
            outputs, memory = self.policy.recall(outputs, begins, memory)
        probabilities = outputs.softmax(-1)
        return probabilities[0] if single else probabilities, memory

    def _can_see(self, shape: tuple[int, ...]) -> bool:
        """Return whether the policy can read observations of this shape."""
        if self.policy.reads_maps:
            return len(shape) == len(self.shape) and shape[0] == self.shape[0]
        return shape == self.shape

    def _private_bits(self, count: int) -> Tensor | None:
        """Return the private bits of each row [count, bits]; sample them if there are none yet."""
        if not self.policy.private_bits:
            return None
        if self._private is None or len(self._private) != count:
            sampled = torch.rand(count, self.policy.private_bits, generator=self._generator, device=self.device)
            self._private = (sampled < 0.5).float() if self.cfg.policy.private_kind == "bits" else sampled
        return self._private

    @property
    def observation(self) -> str:
        """The kind of observation that the policy sees: ``centred``, ``grid`` or ``vector``."""
        return self.cfg.policy.observation

    def probabilities(self, level: Level | str | Path) -> dict[int, float]:
        """Return the exact probability of each trajectory-length on a level.

        Args:
            level: a `Level`, the path of a level file, or the name of one of the paper's worlds.

        Returns:
            P(L = l) by length l, in timesteps. If there are several levels, those of the first.

        Example:
            >>> from drest_torch.envs.levels import parse_level
            >>> level = parse_level("shutdown: 3\\n\\nC1 A B2\\n. C2 .")
            >>> list(agent.probabilities(level))
            [3, 5]
        """
        return self.evaluate(level).evaluation.length_probabilities(0)

    def evaluate(
        self,
        levels: Level | Sequence[Level] | str | Path,
        *,
        greedy: bool = False,
        sampled: int | None = None,
        memory_gib: float = math.inf,
    ) -> Results:
        """Evaluate the agent on levels: exactly, or by sampling mini-episodes.

        Args:
            levels: one `Level`, several, the path of a level file, or a name: ``paper`` for the nine worlds of the
                paper, or one of them, such as ``example``.
            greedy: whether the agent takes the most likely action instead of sampling.
            sampled: the number of mini-episodes to play on each level; None evaluates exactly.
            memory_gib: a limit for the memory of an exact evaluation; beyond it an error says what to do.

        Returns:
            the `Results`. A `ConfigError` says why, if the policy cannot observe the levels.

        Example:
            >>> results = agent.evaluate("paper")
            >>> round(results.usefulness, 3), round(results.neutrality, 3)
            (0.939, 0.974)
        """
        level_set = self.evaluator(levels, sampled=sampled, memory_gib=memory_gib)
        return Results(level_set, self.policy, level_set.evaluate(self.policy, greedy=greedy), greedy, self.name)

    def evaluator(
        self, levels: Level | Sequence[Level] | str | Path, *, sampled: int | None = None, memory_gib: float = math.inf
    ) -> LevelSetEvaluator:
        """Return the levels as the agent sees them, on which policies can be evaluated; arguments as of `evaluate`.

        Example:
            >>> len(agent.evaluator("example").levels)
            1
        """
        if isinstance(levels, str | Path):
            levels = find_levels(str(levels))
        levels = [levels] if isinstance(levels, Level) else list(levels)
        rows, columns = self.map_size
        for level in levels:
            if not self.policy.reads_maps and (level.height > rows or level.width > columns):
                raise ConfigError(
                    f"{level.place} has {level.height} rows and {level.width} columns and the policy was built for "
                    f"maps of at most {rows} by {columns}; train one on levels of that size (smaller ones are padded), "
                    "or one with policy=convolutional, which reads maps of any size"
                )
        if self.cfg.policy.observation == "vector" and len(levels) > 1:
            raise ConfigError(f"the policy sees the vector observation of 1 level; {len(levels)} levels were given")
        level_set = evaluator(
            self.cfg, self.reward, levels, self.map_size, self.device, sampled=sampled, memory_gib=memory_gib
        )
        if not self._can_see(level_set.observe.shape):
            remedy = "; train one that is shown chances (levels.by_chance=true) and outcomes (levels.outcomes=N)"
            raise ConfigError(
                f"the levels' {self.cfg.policy.observation} observation has shape {level_set.observe.shape} and the "
                f"policy's {self.shape}; it was trained on levels with other coins and buttons"
                f"{remedy if level_set.mdp.any_luck else ''}"
            )
        return level_set

    def save(self, path: str | Path) -> Path:
        """Save the agent to a folder that `load` reads: its configuration, its policy and its level files.

        What only training needs, such as the state of the optimiser, is left out.

        Args:
            path: the folder; it is made if there is none, and an agent that is in it is replaced.

        Returns:
            the folder.

        Example:
            >>> Agent.load("runs/my-run").save("my-agent")  # doctest: +SKIP
        """
        folder = Path(path)
        tensors, meta = load_checkpoint(self.checkpoint)
        cfg: Any = load_config(self.folder)
        cfg.run_dir, cfg.threads = "runs/shipped", None
        for group, key, path in data.level_files(self.cfg):
            copy = f"{group}-{key}{path.suffix}"
            write_whole(folder / copy, path.read_bytes())
            setattr(getattr(cfg, group), key, copy)
        write_whole(folder / "config.yaml", OmegaConf.to_yaml(cfg).encode())
        policy = {name: value for name, value in tensors.items() if name.startswith("policy.")}
        checkpoint = step_path(folder / "checkpoints", meta["steps"])
        save_checkpoint(checkpoint, policy, meta)
        for other in step_checkpoints(checkpoint.parent):
            if other != checkpoint:
                other.unlink()
        return folder

    def save_pretrained(self, path: str | Path, **options: Any) -> None:
        """Save the agent to a folder together with a page that describes it on the Hub.

        This and the next two methods need ``pip install 'drest_torch[hub]'``. ``options`` are those of
        ``huggingface_hub.ModelHubMixin.save_pretrained``.

        Example:
            >>> agent.save_pretrained("my-agent")  # doctest: +SKIP
        """
        self._on_hub("save_pretrained", path, options)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the agent to a repository of the Hugging Face Hub, where anybody can load it by name.

        Args:
            repo_id: ``USER/NAME``; the repository is made if there is none.
            options: those of ``huggingface_hub.ModelHubMixin.push_to_hub``, such as ``private=True`` or ``token=...``.

        Returns:
            the address of the commit.

        Example:
            >>> agent.push_to_hub("my-name/my-agent", private=True)  # doctest: +SKIP
        """
        return str(self._on_hub("push_to_hub", repo_id, {"model_card_kwargs": {"repo_id": repo_id}} | options))

    @classmethod
    def from_pretrained(
        cls, repo_id: str | Path, *, checkpoint: str = "last", device: str = "cpu", **options: Any
    ) -> Agent:
        """Load an agent from the Hugging Face Hub, or from a folder that `save_pretrained` wrote.

        The weights are safetensors and the configuration is YAML: no code of the repository is executed.

        Args:
            repo_id: ``USER/NAME`` of a repository, or the path of a folder.
            checkpoint: as for `load`.
            device: as for `load`.
            options: those of ``huggingface_hub.ModelHubMixin.from_pretrained``, such as ``revision`` or ``token``.

        Example:
            >>> agent = Agent.from_pretrained("my-name/my-agent")  # doctest: +SKIP
        """
        from drest_torch import hub  # which the package huggingface_hub is needed for

        agent = cls(hub.download(repo_id, **options), checkpoint=checkpoint, device=device)
        if not Path(repo_id).is_dir():
            agent.name = str(repo_id)
        return agent

    def _on_hub(self, method: str, target: str | Path, options: dict[str, Any]) -> Any:
        from drest_torch import hub  # which the package huggingface_hub is needed for

        with TemporaryDirectory() as folder:
            shared = hub.AgentFolder(self.save(folder))
            shared.description = f"{self!r}, trained with {self.reward}"
            return getattr(shared, method)(target, **options)


def levels_to_evaluate(agent: Agent, chosen: LevelsConfig) -> list[Level]:
    """Return the levels of a configuration. ``levels=own`` are the test levels of the agent's run."""
    if chosen.path is None and chosen.name == "own":
        if "test" not in agent.levels.reported:
            raise ConfigError(f"{agent.folder} has no test levels; choose levels=paper or levels.path=FILE")
        return agent.levels.reported["test"]
    return data.named(chosen)
