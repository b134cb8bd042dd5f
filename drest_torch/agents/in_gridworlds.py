"""Agents of gridworlds: observations, evaluation on levels and rendering."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from drest_torch.agents.misfits import fitting_levels, misfit
from drest_torch.agents.specification import AgentSpec, agent_config, evaluator
from drest_torch.algos.distributions import one_of
from drest_torch.algos.networks.policy import Policy
from drest_torch.algos.networks.spec import MapView
from drest_torch.envs.actions import NUM_ACTIONS
from drest_torch.envs.levels import Level, find_levels, world
from drest_torch.errors import CheckpointError, ConfigError, printable
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.evaluation.results import Results
from drest_torch.outputs import PICTURES
from drest_torch.play import level_sets as data

if TYPE_CHECKING:
    from torchrl.envs import EnvBase


class GridworldAgent:
    """The policy of a run in gridworlds, loaded from a checkpoint, with its observation space."""

    actions = one_of(NUM_ACTIONS)
    evaluated_on = '"paper"'
    """The argument of `Agent.evaluate` in examples."""
    tensor_prefixes = ("policy.",)
    """Prefixes of the tensors that acting needs."""
    notebook_samples = None
    """Mini-episodes sampled for the table in a notebook; None: the evaluation is exact."""

    def __init__(
        self, folder: Path, spec: AgentSpec, policy: Policy, saved_with: Mapping[str, str], device: torch.device
    ) -> None:
        assert isinstance(spec.policy.sees, MapView)
        self.folder, self.spec, self.device, self._saved_with = folder, spec, device, saved_with
        self.view, self.shape = spec.policy.sees, spec.policy.shape
        self.policy = policy.to(device)
        self.map_size = self.view.rows, self.view.columns
        self.features = frozenset(self.view.features)

    @cached_property
    def levels(self) -> data.Levels:
        """The levels of the run, with a single training level if they are generated.

        Raises if the test levels were changed after training.
        """
        cfg = agent_config(self.folder)
        if cfg.levels.generator is not None:
            cfg.levels.train = 1  # evaluation uses the other splits
        levels = data.load(cfg)
        self._check_test_levels(levels, cfg.test.path)
        return levels

    @property
    def first(self) -> Level:
        """The level that is shown by default: the first training level, or `example` if levels are generated."""
        if not (self.folder / "config.yaml").is_file() or self.levels.split is not None:
            return world("example")
        return self.levels.train[0]

    def _check_test_levels(self, levels: data.Levels, path: str | None) -> None:
        """Raise if the test levels differ from those of the checkpoint; warn if it has no digest of them.

        ``path`` is the level file, if the test levels have one. Earlier versions saved no digest.
        """
        if "test" not in levels.reported:
            return
        saved = self._saved_with.get(data.TEST_LEVELS)
        if saved is not None and saved != data.digest_of_tests(levels):
            place = path or self.folder / "config.yaml"
            remedy = ""
            if path is not None:
                remedy = f", or evaluate on these with levels.path={path}"
            raise CheckpointError(
                f"{place}: the test levels were changed after the run was trained; put them back{remedy}"
            )
        if saved is None and path is not None and self._saved_with.get(data.SET_OF_LEVELS) != data.digest(levels):
            print(
                f"drest_torch: {printable(path)}: whether these are the test levels of {printable(str(self.folder))} "
                "cannot be verified, as a run of an earlier version does not say so",
                file=sys.stderr,
            )

    def __repr__(self) -> str:
        if self.policy.reads_maps:
            return "maps of any size"
        rows, columns = self.map_size
        return f"maps of at most {rows} by {columns}"

    def rows(self, observation: Any) -> tuple[Tensor, bool]:
        """Return observations [n, …] as a tensor, and whether there was a single one without a batch dimension."""
        array = torch.as_tensor(observation, dtype=torch.float32, device=self.device)
        single = array.ndim == len(self.shape)
        batch = array.unsqueeze(0) if single else array
        if not self.can_see(tuple(batch.shape[1:])):
            kind = self.view.observation
            raise ConfigError(
                f"an observation of shape {tuple(array.shape)}, but the policy observes {kind} observations of "
                f"shape {self.shape}; make the environment with observation={kind!r} and maps of "
                f"{self.map_size[0]} by {self.map_size[1]}"
            )
        return batch, single

    def can_see(self, shape: tuple[int, ...]) -> bool:
        """Return whether the policy can read observations of this shape."""
        if self.policy.reads_maps:
            return len(shape) == len(self.shape) and shape[0] == self.shape[0]
        return shape == self.shape

    def evaluator(
        self, levels: Level | Sequence[Level] | str | Path, *, sampled: int | None, memory_gib: float
    ) -> ExactEvaluator:
        """Return an evaluator of the levels; raise if their observations do not fit the policy."""
        if isinstance(levels, str | Path):
            levels = find_levels(str(levels))
        levels = [levels] if isinstance(levels, Level) else list(levels)
        if sentence := misfit(self.spec.policy, levels):
            raise ConfigError(sentence)
        level_set = evaluator(self.spec, levels, self.device, sampled=sampled, memory_gib=memory_gib)
        if not self.can_see(level_set.observe.shape) or level_set.observe.planes != self.view.planes:
            planes = ", ".join(self.view.planes)
            raise ConfigError(
                f"{self.folder}: its agent observes planes that this version does not compute ({planes:.200}); "
                "evaluate it with the version that trained it"
            )
        return level_set

    def acting(self, copies: int) -> EnvBase:
        """Raise, because an environment of gridworlds needs a choice of levels."""
        raise ConfigError(
            f"{self.folder} is a run in gridworlds; make an environment of the levels of your choice with "
            f"drest_torch.envs.interfaces.torchrl_env.GridworldEnv(levels, {copies}, observation=agent.observation)"
        )

    def evaluate(self, levels: Any, *, greedy: bool, sampled: int | None, memory_gib: float, agent: str) -> Results:
        """Evaluate the policy on levels; None: the test levels of the run."""
        if levels is None:
            levels = self.test_levels()
        level_set = self.evaluator(levels, sampled=sampled, memory_gib=memory_gib)
        evaluation = level_set.evaluate(self.policy, greedy=greedy)
        return Results(level_set, self.policy, evaluation, greedy, agent)

    def test_levels(self) -> Sequence[Level]:
        """Return the test levels of the run."""
        if "test" not in self.levels.reported:
            arguments = fitting_levels(self.spec.policy, agent_config(self.folder).levels, [])
            remedy = " ".join(arguments or ["levels.path=FILE"])
            raise ConfigError(f"{self.folder} has no test levels; choose others, such as {remedy}")
        return self.levels.reported["test"]

    def render(self, path: Path, level: Any, *, seed: int, agent: str) -> None:
        """Write a picture of the policy on a level (PNG, SVG, PDF), or an animation of mini-episodes there (GIF)."""
        if level is None:
            level = self.first
        results = self.evaluate(level, greedy=False, sampled=None, memory_gib=math.inf, agent=agent)
        if path.suffix.lower() not in PICTURES:
            results.animate(path, seed=seed)
        elif not results.plotted(path, 1):
            raise ConfigError(f"{path}: a recurrent policy has no picture on a level; write a .gif")
