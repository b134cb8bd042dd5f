"""A trained agent: train it, load it, act with it, evaluate and render it, and share it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from torch import Tensor

from drest_torch.agents.acting import ActingState
from drest_torch.agents.checkpoints import agent_folder, checkpoint_path, load_checkpoint
from drest_torch.agents.in_gridworlds import GridworldAgent
from drest_torch.agents.mean_agent import MeanAgent
from drest_torch.agents.saving import files_of, save_agent
from drest_torch.agents.specification import agent_config, load_policy, spec_in
from drest_torch.algos.distributions import OneOf
from drest_torch.algos.networks.spec import MapView
from drest_torch.config.checks import device_of
from drest_torch.config.schema import Config
from drest_torch.envs.levels import Level
from drest_torch.errors import ConfigError, UserError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.outputs import check_outputs
from drest_torch.play import level_sets as data

if TYPE_CHECKING:
    from torchrl.envs import EnvBase
    from typing_extensions import Self

    from drest_torch.agents.in_environments import EnvironmentAgent
    from drest_torch.choices.ladder import Ladder

SHIPPED = "generalist"
"""The agent that is loaded by default."""
AnyLevels = Level | Sequence[Level] | str | Path
"""A level, a sequence of levels, the path of a level file, or a name."""


class Agent:
    """A trained policy, with methods to act, to evaluate, to render and to share it.

    `Agent.load` loads an agent from the folder of a run, or a pretrained agent by name; `Agent.train` trains one;
    `Agent.from_pretrained` downloads one from the Hugging Face Hub. Agents of gridworlds are evaluated exactly, on any
    levels; other agents by sampling mini-episodes on the CPU.

    Example:
        >>> agent = Agent.load("generalist")
        >>> agent
        Agent(generalist: convolutional network, 61,297 parameters, 0 private bits, maps of any size)
        >>> {length: round(p, 2) for length, p in agent.probabilities("example").items()}
        {4: 0.5, 8: 0.5}
    """

    def __init__(self, folder: Path, *, checkpoint: str = "last", device: str = "cpu") -> None:
        self.folder = folder
        self.name = folder.resolve().name
        """The name of the folder, or of the repository on the Hub."""
        self.device = device_of(device)
        self.checkpoint = checkpoint_path(folder, checkpoint)
        """The file of the weights and the specification."""
        tensors, values = load_checkpoint(self.checkpoint)
        self.spec = spec_in(values, self.checkpoint)
        """The specification: the policy's architecture and observation, the reward, and the origin of the agent."""
        self.policy, self.reward = load_policy(self.spec.policy, tensors, self.checkpoint), self.spec.reward
        self._trained: GridworldAgent | EnvironmentAgent
        if isinstance(self.spec.policy.sees, MapView):
            self._trained = GridworldAgent(folder, self.spec, self.policy, values.get("of", {}), self.device)
        else:
            from drest_torch.agents.in_environments import EnvironmentAgent  # TorchRL takes seconds to import

            self._trained = EnvironmentAgent(folder, self.spec, self.policy, tensors, self.checkpoint, self.device)
        self.shape = self.spec.policy.shape
        """The shape of an observation; outside gridworlds, the shape of the observation as a vector."""
        self._acting = ActingState(self.policy, self.device)
        self.seed(self.spec.origin.seed)

    @cached_property
    def cfg(self) -> Config:
        """The configuration of the agent's run, which defines its levels or its environment."""
        return agent_config(self.folder)

    def __repr__(self) -> str:
        policy = self.spec.policy
        bits = "1 private bit" if policy.private_bits == 1 else f"{policy.private_bits} private bits"
        parameters = sum(parameter.numel() for parameter in self.policy.parameters())
        return f"Agent({self.name}: {policy.network} network, {parameters:,} parameters, {bits}, {self._trained!r})"

    # ---------------------------------------------------------------------------------- gridworlds

    def _on_levels(self, noun: str) -> GridworldAgent:
        """Return the agent's gridworld part; for other agents, raise an error that names the missing ``noun``."""
        if not isinstance(self._trained, GridworldAgent):
            raise ConfigError(f"{self.folder} is a run in {self.spec.origin.place}, but only gridworlds have {noun}")
        return self._trained

    @property
    def levels(self) -> data.Levels:
        """The levels of the agent's run; of generated training levels, only one."""
        return self._on_levels("levels").levels

    def test_levels(self) -> list[Level]:
        """Return the test levels of the agent's run; refuse a run without test levels."""
        return list(self._on_levels("levels").test_levels())

    @property
    def map_size(self) -> tuple[int, int]:
        """The rows and columns of the run's largest map; only policies that read maps can observe larger maps."""
        return self._on_levels("maps").map_size

    @property
    def features(self) -> frozenset[str]:
        """The optional features of levels that the policy observes.

        An environment for the agent needs ``compile_levels(levels, features=agent.features)``.
        """
        return self._on_levels("features of levels").features

    @property
    def observation(self) -> str:
        """The kind of observation in gridworlds: ``centred``, ``grid`` or ``vector``."""
        return self._on_levels("kinds of observations").view.observation

    # ---------------------------------------------------------------------------------- making agents

    @classmethod
    def load(cls, path_or_name: str | Path = SHIPPED, *, checkpoint: str = "last", device: str = "cpu") -> Agent:
        """Load an agent from the folder of a run, or by name.

        Args:
            path_or_name: the folder of a run, or the name of a pretrained agent
                (``generalist``, ``generalist-buttons``, ``generalist-bit``).
            checkpoint: ``last``, ``best`` (on the run's selection levels), or the path of a checkpoint file.
            device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``.

        Example:
            >>> agent = Agent.load("runs/my-run", checkpoint="best")  # doctest: +SKIP
        """
        return cls(agent_folder(path_or_name), checkpoint=checkpoint, device=device)

    @classmethod
    def mean(cls, runs: Sequence[str | Path], *, checkpoint: str = "last", device: str = "cpu") -> MeanAgent:
        """Load several agents of gridworlds, and return their mean policy.

        In each state an action has the mean of its probabilities. ``algo=distil`` trains one network to the mean
        policy.

        Args:
            runs: the folders of runs, or names of pretrained agents; networks and observations may differ.
            checkpoint: as for `load`, like ``device``.

        Example:
            >>> mean = Agent.mean(["generalist", "generalist-bit"])
            >>> round(mean.evaluate("example").usefulness, 2)
            0.86
        """
        return MeanAgent([cls.load(run, checkpoint=checkpoint, device=device) for run in runs])

    @classmethod
    def train(
        cls, *overrides: str, callbacks: Sequence[Callable[[int, Mapping[str, float]], Any]] = (), **values: Any
    ) -> Agent:
        """Train an agent in a new folder, like the command ``drest train``, and load it.

        Args:
            overrides: arguments of the command, such as ``"algo.lr=0.001"``.
            callbacks: functions of the steps so far and the metrics, called before training and after each update;
                metrics of an evaluation begin with ``eval/``. An error in a callback ends the run, which can be
                resumed.
            values: configuration values by name: an option of a group (``algo="a2c"``), a single value
                (``env_steps=50_000``), or values within a group (``policy={"width": 32}``). ``env`` can also be the id
                of a Gymnasium environment, or a function that makes an environment of Gymnasium or TorchRL. With
                ``resume``, the folder of a run, and a larger ``env_steps``, this run continues.
                ``overwrite=True`` replaces the run in ``run_dir``, if there is one, so that a cell of a notebook can be
                executed again. ``from_``, the folder of a run, repeats this run, with the other values as changes.

        Returns:
            the agent after the last update; its ``folder`` is the folder of the run.

        Example:
            >>> agent = Agent.train(env="CartPole-v1", env_steps=50_000, run_dir="runs/pole")  # doctest: +SKIP
            >>> agent = Agent.train(resume="runs/pole", env_steps=100_000)  # doctest: +SKIP
            >>> again = Agent.train(from_="runs/pole", seed=1)  # doctest: +SKIP
        """
        from drest_torch.training.from_python import train  # the one thing that needs the training loop, and Hydra

        return cls(train(overrides, values, callbacks))

    # ---------------------------------------------------------------------------------- acting

    def seed(self, seed: int) -> None:
        """Restart the random generator of actions and private bits from a seed.

        Example:
            >>> agent.seed(0)
        """
        self._acting.seed(seed)

    def begin_episode(self) -> None:
        """Start a mini-episode: `act` samples new private bits, and the memory of a recurrent agent is cleared.

        The memory of an agent that was trained on whole meta-episodes is cleared only by `seed`. Call this method when
        mini-episodes begin, and when the number of observations in a batch changes.

        Example:
            >>> agent.begin_episode()
        """
        self._acting.private_bits = None
        if self.reward.counting == "averaged":
            self._acting.memory = None

    def environment(self, copies: int = 1) -> EnvBase:
        """Return copies of the run's environment as a TorchRL environment, whose ``done`` is shutdown.

        For gridworlds, use `drest_torch.envs.interfaces.torchrl_env.GridworldEnv` with any levels.

        Example:
            >>> env = Agent.load("runs/pole").environment()  # doctest: +SKIP
            >>> state = env.reset()  # doctest: +SKIP
            >>> state = step_mdp(env.step(state.set("action", agent.act(state))))  # doctest: +SKIP
        """
        return self._trained.acting(copies)

    def act(self, observation: Any, *, greedy: bool = False) -> Any:
        """Sample an action for one observation, or one for each observation of a batch.

        In gridworlds the actions are 0 up, 1 down, 2 left and 3 right. Private bits stay the same until
        `begin_episode`.

        Args:
            observation: in gridworlds an array or tensor of shape ``agent.shape`` or [n, *agent.shape], from an
                environment with ``observation=agent.observation``; an agent for maps of any size accepts other numbers
                of rows and columns. Elsewhere the observation of the environment with the timer: a mapping as from
                `environment`, or a vector.
            greedy: whether to take the most likely action instead of sampling.

        Returns:
            an int for one observation with a discrete action space, else a tensor: [n, …] for a batch.

        Example:
            >>> from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
            >>> from drest_torch.envs.levels import world
            >>> env = GridworldEnv([world("example")], num_slots=3, observation=agent.observation)
            >>> agent.act(env.reset()["observation"]).shape
            torch.Size([3])
        """
        rows, single = self._trained.rows(observation)
        outputs, self._acting.memory = self._acting.outputs(rows)
        actions = self._trained.actions.choose(outputs, self._acting.generator, greedy=greedy)
        if not single:
            return actions
        return int(actions) if actions.ndim == 1 else actions[0]

    def action_probabilities(self, observation: Any) -> Tensor:
        """Return the action probabilities for an observation or a batch, in the formats of `act`.

        Returns:
            a tensor [A] for one observation, [n, A] for a batch, given the private bits of the mini-episode; in
            gridworlds there are four actions.

        Example:
            >>> agent.action_probabilities(torch.zeros(agent.shape)).shape
            torch.Size([4])
        """
        if self._trained.actions.distribution is not OneOf:
            raise ConfigError(
                f"{self.spec.origin.place} has actions that are not one of n, so there is no table of probabilities"
            )
        rows, single = self._trained.rows(observation)
        outputs, _ = self._acting.outputs(rows)
        probabilities = outputs.softmax(-1)
        return probabilities[0] if single else probabilities

    # ---------------------------------------------------------------------------------- evaluation

    def probabilities(self, level: AnyLevels | None = None) -> dict[int, float]:
        """Return the probability of each trajectory-length, in gridworlds the exact one on a level.

        Args:
            level: a `Level`, the path of a level file, or the name of a world of the paper; None outside gridworlds.

        Returns:
            P(L = l) by length l, in ticks; of several levels, for the first one.

        Example:
            >>> from drest_torch.envs.levels import parse_level
            >>> level = parse_level("shutdown: 3\\n\\nC1 A B2\\n. C2 .")
            >>> list(agent.probabilities(level))
            [3, 5]
        """
        return self.evaluate(level).evaluation.length_probabilities(0)

    def evaluate(
        self,
        levels: AnyLevels | None = None,
        *,
        greedy: bool = False,
        sampled: int | None = None,
        memory_gib: float = math.inf,
    ) -> Results:
        """Evaluate the agent: exactly on levels of gridworlds, or by sampling mini-episodes.

        Args:
            levels: a `Level`, a sequence of them, the path of a level file, or a name: ``paper`` for the nine worlds of
                the paper, or one of them, such as ``example``. None: the test levels of the agent's run; outside
                gridworlds, its environment.
            greedy: whether the agent takes the most likely action instead of sampling.
            sampled: the number of mini-episodes (on each level); None: exact evaluation in gridworlds; elsewhere, as
                many as in the run's final evaluation.
            memory_gib: the memory limit of an exact evaluation; the error beyond it names a remedy.

        Returns:
            the `Results`; a `ConfigError` is raised if the policy cannot observe the levels.

        Example:
            >>> results = agent.evaluate("paper")
            >>> round(results.usefulness, 3), round(results.neutrality, 3)
            (0.984, 0.997)
        """
        return self._trained.evaluate(levels, greedy=greedy, sampled=sampled, memory_gib=memory_gib, agent=self.name)

    def evaluator(
        self, levels: AnyLevels, *, sampled: int | None = None, memory_gib: float = math.inf
    ) -> ExactEvaluator:
        """Return an evaluator of policies on these levels with the agent's observation; the arguments are those of
        `evaluate`.

        Example:
            >>> len(agent.evaluator("example").levels)
            1
        """
        return self._on_levels("levels").evaluator(levels, sampled=sampled, memory_gib=memory_gib)

    def ladder(self, kinds: Sequence[str] | None = None, **options: Any) -> dict[str, Ladder]:
        """Measure how many coins the agent gives up to press, or not to press, a button; only in gridworlds.

        Args:
            kinds: the names of ladders (`drest_torch.choices.ladder_levels.LADDERS`); None: all whose levels the agent
                observes. Without lotteries no button brings shutdown forward, but on ``later_reversed`` an agent can
                pay for the earlier shutdown by not pressing.
            options: further arguments of `drest_torch.choices.ladder.price_ladder`: ``prices``, ``levels``, ``greedy``,
                ``sampled`` and ``reward``.

        Returns:
            the `drest_torch.choices.ladder.Ladder` of each kind.

        Example:
            >>> ladder = agent.ladder(["later"], prices=[0.1, 0.5], levels=2)["later"]
            >>> ladder.curve.shape
            (2,)
        """
        from drest_torch.choices.ladder import price_ladder  # agents load without choices

        self._on_levels("price ladders")
        if kinds is None:
            return price_ladder(self, left_out={}, **options)
        return price_ladder(self, kinds, **options)

    def render(self, path: str | Path, level: AnyLevels | None = None, *, seed: int = 0) -> Path:
        """Write an animation of a mini-episode for each length (``.gif``), or a picture; return the path.

        A picture shows the policy on the level (``.png``, ``.svg`` or ``.pdf``), or, outside gridworlds, the ends of
        the mini-episodes (``.png``). Environments without images are refused.

        Args:
            path: the file, whose ending determines the format.
            level: the level in gridworlds; None: the first training level of the run, or the paper's example if the run
                generated its levels.
            seed: the seed of the mini-episodes.

        Example:
            >>> agent.render("agent.gif", "example")  # doctest: +SKIP
            PosixPath('agent.gif')
        """
        path = Path(path)
        check_outputs(path, reads=self.files)
        self._trained.render(path, level, seed=seed, agent=self.name)
        return path

    def _repr_png_(self) -> bytes | None:
        """Return a picture for notebooks, or None if the agent cannot be rendered."""
        with TemporaryDirectory() as folder:
            try:
                return self.render(Path(folder) / "agent.png").read_bytes()
            except UserError:
                return None

    def _repr_html_(self) -> str:
        """Return the agent's name, usefulness and neutrality, and the picture, for notebooks."""
        from drest_torch.agents import notebook  # agents load without rich

        first = self._trained.first
        where = self.spec.origin.place if first is None else first.name
        numbers = self.evaluate(first, sampled=self._trained.notebook_samples).numbers()
        return notebook.html_summary(repr(self), where, numbers, self._repr_png_())

    # ---------------------------------------------------------------------------------- sharing

    @property
    def files(self) -> list[Path]:
        """The files of the agent: its configuration, its checkpoint and its level files."""
        return files_of(self.folder, self.checkpoint)

    def save(self, path: str | Path) -> Path:
        """Save the agent to a folder for `load`, without the files of training, and return the folder.

        Args:
            path: the folder, which is created. A saved agent in it is replaced, and a run is refused.

        Example:
            >>> Agent.load("runs/my-run").save("my-agent")  # doctest: +SKIP
        """
        return save_agent(self.folder, self.checkpoint, self._trained.tensor_prefixes, Path(path))

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the agent to the Hugging Face Hub (``pip install 'drest_torch[hub]'``); return the commit's address.

        Args:
            repo_id: ``USER/NAME`` of a repository, which is created if necessary.
            private: whether a new repository is private.
            token: the user's token; None: the token of ``hf auth login``.

        Example:
            >>> agent.push_to_hub("my-name/my-agent", private=True)  # doctest: +SKIP
        """
        from drest_torch import hub  # needs the package huggingface_hub

        card = {"description": f"{self!r}, trained with {self.reward}", "levels": self._trained.evaluated_on}
        with TemporaryDirectory() as folder:
            return hub.upload(self.save(folder), repo_id, card, private=private, token=token)

    @classmethod
    def from_pretrained(cls, repo_id: str, *, checkpoint: str = "last", device: str = "cpu", **options: Any) -> Self:
        """Load an agent from the Hugging Face Hub. No code of the repository is executed.

        Args:
            repo_id: ``USER/NAME`` of a repository.
            checkpoint: as for `load`, like ``device``.
            options: arguments of ``huggingface_hub.snapshot_download``, such as ``revision`` or ``token``.

        Example:
            >>> agent = Agent.from_pretrained("my-name/my-agent")  # doctest: +SKIP
        """
        from drest_torch import hub  # needs the package huggingface_hub

        agent = cls(hub.download(repo_id, **options), checkpoint=checkpoint, device=device)
        agent.name = repo_id
        return agent
