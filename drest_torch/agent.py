"""A trained agent, read back from its run's folder, and what it does on levels of the user's choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from algos.networks.mlp import Policy
from drest_torch.config.checks import device_of
from drest_torch.config.schema import LevelsConfig
from drest_torch.config.stored import load_config
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation.exact import Evaluation, Prepared
from drest_torch.evaluation.summary import draw_policies, split_summary, table_rows
from drest_torch.files import write_json, write_whole
from drest_torch.tracking.console import Row
from drest_torch.training import levels as data
from drest_torch.training.build import evaluator, map_size, networks
from drest_torch.training.checkpoints import load_checkpoint, load_module, save_checkpoint, step_checkpoints, step_path
from envs.dynamics.mdp import compile_levels
from envs.dynamics.observations import make_observation
from envs.levels import Level

SHIPPED = Path(__file__).resolve().parent / "pretrained" / "generalist"
"""The folder of the agent that comes with the project, as `ship` has written it."""


class Agent:
    """The policy of a run's checkpoint: ``last``, ``best`` or a file."""

    def __init__(self, folder: Path, *, checkpoint: str = "last", device: str = "cpu") -> None:
        self.folder = folder
        self.cfg = load_config(folder)
        self.device, self.cfg.device = device_of(device), device
        if self.cfg.levels.generator is not None:
            # To make them takes seconds, and one tells what an observation looks like as well as all.
            self.cfg.levels.train = 1
        self.levels = data.load(self.cfg)
        self.map_size = map_size(self.cfg, self.levels)
        shown = next((level for level in self.levels.every() if level.by_chance), self.levels.train[0])
        observe = make_observation(self.cfg.policy.observation, compile_levels([shown], at_least=self.map_size))
        self.shape = observe.shape
        self.policy, _ = networks(self.cfg, observe, 0, with_critic=False, seed=self.cfg.seed)
        self.checkpoint = self._find(checkpoint)
        tensors, _ = load_checkpoint(self.checkpoint)
        load_module("policy", self.policy, tensors, self.checkpoint)
        self.policy.to(self.device)

    def _find(self, checkpoint: str) -> Path:
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

    def evaluate(
        self,
        levels: Sequence[Level],
        *,
        greedy: bool = False,
        sampled: int | None = None,
        memory_gib: float = math.inf,
    ) -> Results:
        """Results on these levels, exact or from so many mini-episodes ``sampled`` on each.

        Levels that the policy cannot see, or that are too large, are refused with the reason.
        """
        rows, columns = self.map_size
        for level in levels:
            if level.height > rows or level.width > columns:
                raise ConfigError(
                    f"{level.place} has {level.height} rows and {level.width} columns and the policy was built for "
                    f"maps of at most {rows} by {columns}; train one on levels of that size (smaller ones are padded)"
                )
        if self.cfg.policy.observation == "vector" and len(levels) > 1:
            raise ConfigError(f"the policy sees the vector observation of 1 level; {len(levels)} levels were given")
        ready = evaluator(self.cfg, list(levels), self.map_size, self.device, sampled=sampled, memory_gib=memory_gib)
        if ready.observe.shape != self.shape:
            raise ConfigError(
                f"the levels' {self.cfg.policy.observation} observation has shape {ready.observe.shape} and the "
                f"policy's {self.shape}; it was trained on levels with other coins and buttons"
            )
        return Results(ready, self.policy, ready.evaluate(self.policy, greedy=greedy), greedy)


@dataclass(frozen=True)
class Results:
    """What an agent does on a level set."""

    evaluator: Prepared
    policy: Policy
    evaluation: Evaluation
    greedy: bool

    def rows(self) -> list[Row]:
        numbers = split_summary(self.evaluation, self.evaluator.evaluate_uniform(), len(self.evaluator.levels))
        return table_rows({"splits": {"levels": numbers}})

    def record(self) -> dict[str, Any]:
        """The JSON of ``out=FILE``: the means, then every level."""
        return {"mean": self.evaluation.means(), "levels": self.evaluation.records()}

    def write(self, path: Path) -> None:
        write_json(path, self.record())

    def draw(self, folder: Path, most: int = 8) -> list[Path]:
        return draw_policies(self.evaluator, self.policy, self.evaluation, folder, most=most, greedy=self.greedy)


def levels_to_evaluate(agent: Agent, chosen: LevelsConfig) -> list[Level]:
    """Return the levels that a user names. ``levels=own`` are the run's own test levels."""
    if chosen.path is None and chosen.name == "own":
        if "heldout" not in agent.levels.reported:
            raise ConfigError(f"{agent.folder} has no test levels; choose levels=paper or levels.path=FILE")
        return agent.levels.reported["heldout"]
    return data.named(chosen)


def ship(run: Path, folder: Path) -> None:
    """Put what is needed to use a run's agent into a folder: its configuration and its policy, no more."""
    tensors, meta = load_checkpoint(Agent(run).checkpoint)
    cfg = load_config(run)
    cfg.run_dir, cfg.threads = "runs/shipped", None
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "config.yaml", OmegaConf.to_yaml(cfg).encode())
    policy = {name: value for name, value in tensors.items() if name.startswith("policy.")}
    checkpoint = step_path(folder / "checkpoints", meta["steps"])
    save_checkpoint(checkpoint, policy, meta)
    for other in step_checkpoints(checkpoint.parent):
        if other != checkpoint:
            other.unlink()
