"""Evaluate the policy of a run during training and at its end, and write the results to the run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from drest_torch.building import levels as data
from drest_torch.building.checkpoints import State
from drest_torch.building.parts import evaluator
from drest_torch.config.schema import Config
from drest_torch.effort import Pace, updates_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.state_count import estimate_size
from drest_torch.envs.levels import Level
from drest_torch.evaluation.exact import LevelSetEvaluator
from drest_torch.evaluation.memory import check_size
from drest_torch.evaluation.summary import plot_policies, split_summary
from drest_torch.files import write_json
from drest_torch.reward import Reward

TRAINED_LEVELS_REPORTED = 1000
"""The final evaluation uses at most this many training levels, and all test levels."""
TRAINED_LEVELS_SAMPLED = 200
"""The same where mini-episodes are sampled: of huge levels a thousand would take ten minutes."""


def trained_levels_reported(levels: list[Level], cfg: Config) -> list[Level]:
    """Return the training levels that the final evaluation uses."""
    return levels[: TRAINED_LEVELS_REPORTED if cfg.sampled is None else TRAINED_LEVELS_SAMPLED]


@dataclass(frozen=True)
class Verdict:
    """The final evaluation of an agent."""

    splits: dict[str, dict[str, Any]]
    pictures: dict[str, Path]
    """The files by ``split/level``."""


class Judge:
    """The level sets that the policy of a run is evaluated on."""

    def __init__(
        self, cfg: Config, reward: Reward, levels: data.Levels, map_size: tuple[int, int], device: torch.device
    ) -> None:
        self.cfg, self.reward, self.map_size, self.device = cfg, reward, map_size, device
        self.reported = {
            split: trained_levels_reported(members, cfg) if split == "train" else members
            for split, members in levels.reported.items()
        }
        self._check_sizes(levels)
        self.watched = {
            split: self.evaluator(members[: cfg.evaluated_levels]) for split, members in levels.reported.items()
        }
        self.selection = self.evaluator(levels.selection) if levels.selection else None

    def evaluator(self, levels: list[Any]) -> LevelSetEvaluator:
        """Return an evaluator of these levels, exact or by sampling as the configuration says."""
        cfg = self.cfg
        return evaluator(
            cfg, self.reward, levels, self.map_size, self.device, sampled=cfg.sampled, memory_gib=cfg.memory_gib
        )

    def _check_sizes(self, levels: data.Levels) -> None:
        """Refuse levels that are too large to evaluate, before training starts."""
        for members in filter(None, (*self.reported.values(), levels.selection)):
            mdp = compile_levels(members, self.device, at_least=self.map_size)
            check_size(mdp, estimate_size(mdp), self.cfg.memory_gib if self.cfg.sampled is None else None)

    def watch(self, policy: Any) -> dict[str, float]:
        """Return the metrics of a policy on the levels that are watched during training."""
        watched = self.watched if self.selection is None else {**self.watched, "selection": self.selection}
        return {
            f"eval/{split}/{name}": value
            for split, evaluator in watched.items()
            for name, value in evaluator.evaluate(policy).means().items()
        }

    def judge(self, policy: Any, folder: Path) -> Verdict:
        """Evaluate a policy on all reported levels; write each level's values and the pictures to the folder."""
        verdict = Verdict({}, {})
        for split, levels in self.reported.items():
            evaluator = self.evaluator(levels)
            uniform, file = evaluator.evaluate_uniform(), f"levels_{split}.json"
            evaluation = evaluator.evaluate(policy)
            write_json(folder / file, evaluation.records())
            verdict.splits[split] = split_summary(evaluation, uniform, len(levels)) | {"file": file}
            pictures = folder / "pictures" / split
            most, name = self.cfg.pictures, folder.absolute().name
            for path in plot_policies(evaluator, policy, evaluation, pictures, most=most, agent=name):
                verdict.pictures[f"{split}/{path.stem}"] = path
        return verdict


def run_summary(cfg: Config, state: State, pace: Pace) -> dict[str, Any]:
    """Return the part of a run's summary that does not depend on its evaluation.

    ``env_steps`` has the unit of the configuration's key: of exact gradients, which play nothing, it is counted steps,
    and ``training`` says what was done.
    """
    exact = {} if pace.levels_per_update is None else _exact(state, pace.levels_per_update)
    return {
        "algo": cfg.algo.name,
        "reward": cfg.reward.name,
        "seed": cfg.seed,
        "env_steps": state.steps,
        "mini_episodes": state.episodes,
        "wall_seconds": round(state.wall_seconds, 3),
        **exact,
    }


def _exact(state: State, levels: int) -> dict[str, Any]:
    return {
        "training": f"{state.updates:,} {updates_of(levels)}",
        "updates": state.updates,
        "levels_per_update": levels,
        "forward_rows": state.forward_rows,
        "backward_rows": state.backward_rows,
    }
