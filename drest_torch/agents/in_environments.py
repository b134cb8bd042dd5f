"""Agents of third-party environments: loading, acting, evaluation and rendering."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.agents.checkpoints import fill, prefixed
from drest_torch.agents.specification import AgentSpec, agent_config
from drest_torch.algos.distributions import kind_of
from drest_torch.algos.networks.policy import Policy
from drest_torch.algos.networks.spec import RowView
from drest_torch.config.schema import Config, reward_of
from drest_torch.errors import ConfigError, UserError
from drest_torch.evaluation.environment_evaluator import EnvironmentEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.play.rows import RowEnvironment
from drest_torch.play.third_party import acting_environment, evaluation_environment, rendering_environment
from drest_torch.reward import Reward
from drest_torch.transforms.flatten import standardised

if TYPE_CHECKING:
    from torchrl.envs import EnvBase

    from drest_torch.envs.dynamics.moments import Episode


class EnvironmentAgent:
    """The policy of a run in a third-party environment, loaded from a checkpoint, with its observation space."""

    evaluated_on = ""
    """The argument of `Agent.evaluate` in examples: none, as an environment has no levels to choose."""
    tensor_prefixes = ("policy.", "task.centre", "task.spread", "task.best")
    """Prefixes of the tensors that acting needs."""
    notebook_samples = 256
    """Mini-episodes sampled for the table in a notebook."""
    first = None
    """The level that is shown by default; None, as environments have no levels."""

    def __init__(
        self,
        folder: Path,
        spec: AgentSpec,
        policy: Policy,
        tensors: Mapping[str, Tensor],
        checkpoint: Path,
        device: torch.device,
    ) -> None:
        assert isinstance(spec.policy.sees, RowView)
        self.folder, self.spec, self.policy = folder, spec, policy
        if device.type != "cpu":
            raise ConfigError(f"device={device}, which an agent of {spec.origin.place} does not offer; use device=cpu")
        self.entries, self.shape = spec.policy.sees.entries, spec.policy.shape
        self.actions = kind_of(spec.policy.sees.actions)
        self.standardise = {name: torch.zeros(self.shape) for name in ("centre", "spread")}
        fill(prefixed("task", self.standardise), tensors, checkpoint)
        self.best = tensors.get("task.best")

    @cached_property
    def cfg(self) -> Config:
        """The configuration of the run, from which its environment is built."""
        return agent_config(self.folder)

    @cached_property
    def environment(self) -> RowEnvironment:
        """An environment of the run, closed, which holds the standardisation of training for new environments."""
        environment = evaluation_environment(self.cfg, self.spec.reward, 1)
        environment.env.close(raise_if_closed=False)
        for name, values in self.standardise.items():
            getattr(environment.flatten, name).copy_(values)
        if environment.best is not None and self.best is not None:
            environment.best.best.copy_(self.best)
        return environment

    def __repr__(self) -> str:
        origin = self.spec.origin
        return f"lengths {', '.join(map(str, origin.lengths))} of {origin.place}"

    def rows(self, observation: Any) -> tuple[Tensor, bool]:
        """Return standardised observations [n, F], and True for a single observation without a batch dimension.

        An observation is a mapping with the entries that the policy reads, or the row of their numbers.
        """
        shapes: Mapping[str, tuple[int, ...]] = {"a row": self.shape}
        entries = {"a row": observation}
        if hasattr(observation, "keys"):
            shapes, entries = self.entries, dict(observation.items())
        parts = {key: torch.as_tensor(entries[key], dtype=torch.float32) for key in shapes if key in entries}
        part_shapes = {key: tuple(part.shape) for key, part in parts.items()}
        first = next(iter(shapes))
        first_shape = part_shapes.get(first, ())
        count = first_shape[: len(first_shape) - len(shapes[first])]
        expected_shapes = {key: (*count, *shape) for key, shape in shapes.items()}
        if len(count) > 1 or part_shapes != expected_shapes:
            raise ConfigError(
                f"an observation of shape {part_shapes}; the policy of {self.folder} sees {dict(self.entries)}, or a "
                f"row of {self.shape[0]} numbers; act in agent.environment()"
            )
        rows = torch.cat([part.reshape(*count, -1) for part in parts.values()], -1)
        return standardised(rows.reshape(-1, *self.shape), **self.standardise), count == ()

    def acting(self, copies: int) -> EnvBase:
        """Return copies of the environment to act in."""
        return acting_environment(self.cfg, copies)

    def evaluate(
        self, levels: Any, *, greedy: bool, sampled: int | None, memory_gib: float, agent: str
    ) -> EnvironmentResults:
        """Evaluate the policy on ``sampled`` mini-episodes; by default as many as at the end of training."""
        if levels is not None:
            name = self.spec.origin.place
            raise ConfigError(f"levels to evaluate on, but {self.folder} is a run in {name}; leave levels out")
        mini_episodes = sampled or self.spec.origin.sampled or 1024
        evaluator = evaluator_of(self.cfg, self.spec.reward, self.environment, mini_episodes)
        evaluation, numbers = evaluator.summarised(self.policy, greedy=greedy)
        evaluator.environment.env.close(raise_if_closed=False)
        return EnvironmentResults(evaluator, self.policy, evaluation, greedy, agent, numbers, self)

    def render(self, path: Path, level: Any, *, seed: int, agent: str) -> None:
        """Write an animation of mini-episodes (GIF), or a picture of their last frames (PNG)."""
        if level is not None:
            raise ConfigError(
                f"a level to render, but {self.folder} is a run in {self.spec.origin.place}; leave it out"
            )
        animate(self.cfg, self.environment, self.policy, path, seed=seed)


def evaluator_of(
    cfg: Config,
    reward: Reward,
    trained: RowEnvironment,
    mini_episodes: int,
    *,
    seed: int | None = None,
    beside: RowEnvironment | None = None,
) -> EnvironmentEvaluator:
    """Return an evaluator with the standardisation and the m(l) of the environment ``trained``.

    The m(l) is shared: updates during training apply to the evaluator, too. ``beside`` is passed to
    `evaluation_environment`.
    """
    environment = evaluation_environment(cfg, reward, mini_episodes, beside=beside)
    environment.sees_as(trained)
    values = {"seed": cfg.seed if seed is None else seed, "mini_episodes": mini_episodes}
    return EnvironmentEvaluator(environment, trained.best_returns, name=str(cfg.env.title), reward=reward, **values)


@dataclass(frozen=True, repr=False)
class EnvironmentResults(Results):
    """The sampled evaluation of an agent in a third-party environment."""

    summary: dict[str, Any]
    trained: EnvironmentAgent

    def __repr__(self) -> str:
        sample = f"{self.summary['sampled']:,} mini-episodes of {self.trained.cfg.env.title}"
        return f"Results({sample}: usefulness {self.usefulness:.3f}, neutrality {self.neutrality:.3f})"

    def numbers(self) -> dict[str, Any]:
        return self.summary

    def record(self) -> dict[str, Any]:
        return {"mean": self.summary, "levels": self.evaluation.records()}

    def plot(self, path: str | Path, most: int = 9) -> list[Path]:
        raise self._unsupported("plots of policies on maps")

    def episodes(self, *, seed: int = 0) -> list[Episode]:
        raise self._unsupported("mini-episodes cell by cell")

    def _unsupported(self, what: str) -> ConfigError:
        """Return the error for a method that only gridworlds support."""
        return ConfigError(f"{what}: only gridworlds have that, but {self.trained.folder} is a run in {self.trained!r}")

    def animate(self, path: str | Path, *, seed: int = 0) -> None:
        self._check(Path(path))
        animate(self.trained.cfg, self.trained.environment, self.policy, Path(path), seed=seed)


def animate(cfg: Config, trained: RowEnvironment, policy: Any, path: Path, *, seed: int | None = None) -> None:
    """Write one mini-episode of each length that the policy produces, as an animation (GIF) or by its last frame (PNG).

    Raise if the environment cannot be rendered, for example because a library or a screen is missing.
    """
    from drest_torch.plots.animation import check_ending, mini_episodes, write_animation  # matplotlib takes time

    if path.suffix.lower() != ".png":
        check_ending(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium warns of a mode that an environment does not have
            environment = rendering_environment(cfg, reward_of(cfg))
    except UserError as error:
        raise UserError(f"{cfg.env.title} cannot be rendered with render_mode=rgb_array: {error}") from error
    try:
        environment.sees_as(trained)
        frames = mini_episodes(environment, policy, cfg.seed if seed is None else seed)
    finally:
        environment.env.close(raise_if_closed=False)
    if not frames:
        raise UserError(f"{path}: no mini-episode of {cfg.env.title} ended, so there is nothing to render")
    write_animation(frames, path)
