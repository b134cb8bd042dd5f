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

SHIPPED = "generalist"
"""The agent that is loaded by default."""
AnyLevels = Level | Sequence[Level] | str | Path
"""One level, several, the path of a level file, or a name."""


class Agent:
    """A trained policy: it acts in the environment of its run, and can be evaluated and rendered there.

    `Agent.load` makes one from the folder of any run, or loads the agent that comes with the project; `Agent.train`
    trains one; `Agent.from_pretrained` takes one from the Hugging Face Hub. Agents of gridworlds are evaluated exactly,
    on levels of your choice, others by playing mini-episodes on the CPU.

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
        self.device = device_of(device)
        self.checkpoint = checkpoint_path(folder, checkpoint)
        """The file of the weights, and of what the agent is besides them."""
        tensors, values = load_checkpoint(self.checkpoint)
        self.spec = spec_in(values, self.checkpoint)
        """What the agent is besides its weights: its policy and what this sees, its reward, and where it comes from."""
        self.policy, self.reward = load_policy(self.spec.policy, tensors, self.checkpoint), self.spec.reward
        self._trained: GridworldAgent | EnvironmentAgent
        if isinstance(self.spec.policy.sees, MapView):
            self._trained = GridworldAgent(folder, self.spec, self.policy, values.get("of", {}), self.device)
        else:
            from drest_torch.agents.in_environments import EnvironmentAgent  # TorchRL takes seconds to import

            self._trained = EnvironmentAgent(folder, self.spec, self.policy, tensors, self.checkpoint, self.device)
        self.shape = self.spec.policy.shape
        """The shape of one observation; outside gridworlds that of the row of its numbers."""
        self._acting = ActingState(self.policy, self.device)
        self.seed(self.spec.origin.seed)

    @cached_property
    def cfg(self) -> Config:
        """The configuration of the agent's run; only its levels or its environment are made from it."""
        return agent_config(self.folder)

    def __repr__(self) -> str:
        policy = self.spec.policy
        bits = "1 private bit" if policy.private_bits == 1 else f"{policy.private_bits} private bits"
        parameters = sum(parameter.numel() for parameter in self.policy.parameters())
        return f"Agent({self.name}: {policy.network} network, {parameters:,} parameters, {bits}, {self._trained!r})"

    # ---------------------------------------------------------------------------------- gridworlds

    def _on_levels(self, what: str) -> GridworldAgent:
        """Return what a run in gridworlds has learned, or refuse another run, which has no such thing."""
        if not isinstance(self._trained, GridworldAgent):
            raise ConfigError(f"{self.folder} is a run in {self.spec.origin.place}, and only gridworlds have {what}")
        return self._trained

    @property
    def levels(self) -> data.Levels:
        """The levels of the agent's run, with one training level of those that are generated."""
        return self._on_levels("levels").levels

    def test_levels(self) -> list[Level]:
        """Return the levels that the agent's run reports on; a run without any is refused."""
        return list(self._on_levels("levels").test_levels())

    @property
    def map_size(self) -> tuple[int, int]:
        """The rows and columns of the largest map of the run; only a policy that reads maps can observe larger ones."""
        return self._on_levels("maps").map_size

    @property
    def features(self) -> frozenset[str]:
        """What the policy is shown that only some levels have: ``compile_levels(levels, features=agent.features)`` is
        for an environment to act in."""
        return self._on_levels("features of levels").features

    @property
    def observation(self) -> str:
        """The kind of observation that the policy sees in gridworlds: ``centred``, ``grid`` or ``vector``."""
        return self._on_levels("kinds of observations").view.observation

    # ---------------------------------------------------------------------------------- from where

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

    @classmethod
    def train(
        cls, *overrides: str, callbacks: Sequence[Callable[[int, Mapping[str, float]], Any]] = (), **values: Any
    ) -> Agent:
        """Train an agent as the command ``drest train`` does, in a new folder, and load it.

        Args:
            overrides: arguments of the command, such as ``"algo.lr=0.001"``.
            callbacks: functions that are called with the steps so far and the metrics, before training and after each
                update; those of an evaluation begin with ``eval/``. An error in one ends the run, which can be resumed.
            values: values of the command by name: an option of a group (``algo="a2c"``), a single value
                (``env_steps=50_000``), or values within a group (``policy={"width": 32}``). ``env`` is also the id of a
                Gymnasium environment, or a function that makes an environment of Gymnasium or TorchRL. With ``resume``,
                the folder of a run, and a larger ``env_steps``, that run goes on.

        Returns:
            the agent after the last update; the run is in its ``folder``.

        Example:
            >>> agent = Agent.train(env="CartPole-v1", env_steps=50_000, run_dir="runs/pole")  # doctest: +SKIP
            >>> agent = Agent.train(resume="runs/pole", env_steps=100_000)  # doctest: +SKIP
        """
        from drest_torch.training.from_python import train  # the one thing that needs the training loop, and Hydra

        return cls(train(overrides, values, callbacks))

    # ---------------------------------------------------------------------------------- acting

    def seed(self, seed: int) -> None:
        """Restart the generator of actions and private bits from a seed, so that they can be sampled again.

        Example:
            >>> agent.seed(0)
        """
        self._acting.seed(seed)

    def begin_episode(self) -> None:
        """Begin a mini-episode: `act` samples new private bits, and an agent with a memory forgets the steps before.

        An agent that was trained to play the mini-episodes of a meta-episode in turn forgets at `seed` alone. Call it
        when mini-episodes begin, and when the number of observations in a batch changes.

        Example:
            >>> agent.begin_episode()
        """
        self._acting.private_bits = None
        if self.reward.counting == "averaged":
            self._acting.memory = None

    def environment(self, copies: int = 1) -> EnvBase:
        """Return copies of the environment of the run to act in, as one of TorchRL's; ``done`` is shutdown.

        For gridworlds, `drest_torch.envs.interfaces.torchrl_env.GridworldEnv` makes one of any levels.

        Example:
            >>> env = Agent.load("runs/pole").environment()  # doctest: +SKIP
            >>> state = env.reset()  # doctest: +SKIP
            >>> state = step_mdp(env.step(state.set("action", agent.act(state))))  # doctest: +SKIP
        """
        return self._trained.acting(copies)

    def act(self, observation: Any, *, greedy: bool = False) -> Any:
        """Sample an action for one observation, or one for each observation of a batch.

        In gridworlds the actions are 0 up, 1 down, 2 left and 3 right. Private bits are kept until `begin_episode`.

        Args:
            observation: in gridworlds an array or tensor of shape ``agent.shape`` or [n, *agent.shape], as an
                environment made with ``observation=agent.observation`` returns it; an agent that reads maps of any size
                accepts other rows and columns. Elsewhere what the environment shows, with the timer: a mapping such as
                `environment` returns, or the numbers in a row.
            greedy: whether to take the most likely action instead of sampling.

        Returns:
            an int for one observation where actions are one of n, else a tensor: [n, …] for a batch.

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
        """Return the probabilities of the actions for an observation, or a batch, as of `act`.

        Returns:
            a tensor [A] for one observation, [n, A] for a batch, given the private bits of the mini-episode; in
            gridworlds there are four actions.

        Example:
            >>> agent.action_probabilities(torch.zeros(agent.shape)).shape
            torch.Size([4])
        """
        if self._trained.actions.distribution is not OneOf:
            raise ConfigError(
                f"{self.spec.origin.place} has other actions than one of n, which have no table of probabilities"
            )
        rows, single = self._trained.rows(observation)
        outputs, _ = self._acting.outputs(rows)
        probabilities = outputs.softmax(-1)
        return probabilities[0] if single else probabilities

    # ---------------------------------------------------------------------------------- evaluation

    def probabilities(self, level: AnyLevels | None = None) -> dict[int, float]:
        """Return the probability of each trajectory-length: in gridworlds the exact one, on a level.

        Args:
            level: a `Level`, the path of a level file, or the name of a world of the paper; None outside gridworlds.

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
        levels: AnyLevels | None = None,
        *,
        greedy: bool = False,
        sampled: int | None = None,
        memory_gib: float = math.inf,
    ) -> Results:
        """Evaluate the agent: exactly on levels of gridworlds, or by sampling mini-episodes.

        Args:
            levels: one `Level`, several, the path of a level file, or a name: ``paper`` for the nine worlds of the
                paper, or one of them, such as ``example``. None: the test levels of the agent's run, or the environment
                where it has no levels.
            greedy: whether the agent takes the most likely action instead of sampling.
            sampled: the number of mini-episodes to play (on each level); None evaluates exactly in gridworlds, and
                elsewhere plays as many as the run at its end.
            memory_gib: a limit for the memory of an exact evaluation; beyond it an error says what to do.

        Returns:
            the `Results`. A `ConfigError` says why, if the policy cannot observe the levels.

        Example:
            >>> results = agent.evaluate("paper")
            >>> round(results.usefulness, 3), round(results.neutrality, 3)
            (0.939, 0.974)
        """
        return self._trained.evaluate(levels, greedy=greedy, sampled=sampled, memory_gib=memory_gib, agent=self.name)

    def evaluator(
        self, levels: AnyLevels, *, sampled: int | None = None, memory_gib: float = math.inf
    ) -> ExactEvaluator:
        """Return the levels as the agent sees them, on which policies can be evaluated; arguments as of `evaluate`.

        Example:
            >>> len(agent.evaluator("example").levels)
            1
        """
        return self._on_levels("levels").evaluator(levels, sampled=sampled, memory_gib=memory_gib)

    def render(self, path: str | Path, level: AnyLevels | None = None, *, seed: int = 0) -> Path:
        """Write an animation of a mini-episode for each length (``.gif``), or a picture (``.png``); return the path.

        A picture shows the policy on the level, or, outside gridworlds, how those mini-episodes end. An environment
        that returns no images is refused in a sentence.

        Args:
            path: the file; its ending says which of the two.
            level: in gridworlds the level; None: the first training level of the run, or the paper's example if the run
                generated its levels.
            seed: of the mini-episodes.

        Example:
            >>> agent.render("agent.gif", "example")  # doctest: +SKIP
            PosixPath('agent.gif')
        """
        path = Path(path)
        check_outputs(path, reads=self.files)
        self._trained.render(path, level, seed=seed, agent=self.name)
        return path

    def _repr_png_(self) -> bytes | None:
        """Return a picture for notebooks, if there can be one."""
        with TemporaryDirectory() as folder:
            try:
                return self.render(Path(folder) / "agent.png").read_bytes()
            except UserError:
                return None

    def _repr_html_(self) -> str:
        """Return the agent's name, usefulness and neutrality, and the picture, for notebooks."""
        from drest_torch.agents import notebook  # an agent is loaded without rich

        first = self._trained.first
        where = self.spec.origin.place if first is None else first.name
        numbers = self.evaluate(first, sampled=self._trained.notebook_samples).numbers()
        return notebook.html_summary(repr(self), where, numbers, self._repr_png_())

    # ---------------------------------------------------------------------------------- sharing

    @property
    def files(self) -> list[Path]:
        """The files that the agent is read from: its configuration, its checkpoint and its level files."""
        return files_of(self.folder, self.checkpoint)

    def save(self, path: str | Path) -> Path:
        """Save the agent to a folder that `load` reads, and return the folder: what only training needs is left out.

        Args:
            path: the folder, which is made. An agent that was saved to it is replaced, and a run is refused.

        Example:
            >>> Agent.load("runs/my-run").save("my-agent")  # doctest: +SKIP
        """
        return save_agent(self.folder, self.checkpoint, self._trained.tensor_prefixes, Path(path))

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the agent to the Hugging Face Hub (``pip install 'drest_torch[hub]'``); return the commit's address.

        Args:
            repo_id: ``USER/NAME`` of a repository; it is made if there is none.
            private: whether others cannot see a repository that is made.
            token: of the user; None: that of ``hf auth login``.

        Example:
            >>> agent.push_to_hub("my-name/my-agent", private=True)  # doctest: +SKIP
        """
        from drest_torch import hub  # which the package huggingface_hub is needed for

        card = {"description": f"{self!r}, trained with {self.reward}", "levels": self._trained.evaluated_on}
        with TemporaryDirectory() as folder:
            return hub.upload(self.save(folder), repo_id, card, private=private, token=token)

    @classmethod
    def from_pretrained(cls, repo_id: str, *, checkpoint: str = "last", device: str = "cpu", **options: Any) -> Self:
        """Load an agent from the Hugging Face Hub. No code of the repository is executed.

        Args:
            repo_id: ``USER/NAME`` of a repository.
            checkpoint: as for `load`, as is ``device``.
            options: those of ``huggingface_hub.snapshot_download``, such as ``revision`` or ``token``.

        Example:
            >>> agent = Agent.from_pretrained("my-name/my-agent")  # doctest: +SKIP
        """
        from drest_torch import hub  # which the package huggingface_hub is needed for

        agent = cls(hub.download(repo_id, **options), checkpoint=checkpoint, device=device)
        agent.name = repo_id
        return agent
