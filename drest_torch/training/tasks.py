"""What a run trains on: gridworlds, or any other environment. `Run` knows nothing else of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Protocol

import torch

from drest_torch.algos.base import Learner
from drest_torch.building import levels as data
from drest_torch.building.parts import map_size
from drest_torch.config.checks import check_levels
from drest_torch.config.schema import Config, in_gridworld
from drest_torch.reward import Reward
from drest_torch.tracking.stages import stage
from drest_torch.training.introduction import introduction, levels_to_make
from drest_torch.training.judge import Judge, Verdict
from drest_torch.training.learner import learner_of
from drest_torch.training.updates import Updater


class AnyJudge(Protocol):
    """What evaluates the policy of a run."""

    selection: Any
    """None if there is nothing to choose the best checkpoint by."""

    def watch(self, policy: Any) -> dict[str, float]:
        """Return the metrics of a policy during training."""

    def judge(self, policy: Any, folder: Path) -> Verdict:
        """Evaluate a policy at the end, and write what was found to the folder of its run."""


class Task(ABC):
    """What a run trains on, with the algorithm, its source of updates and its judge."""

    learner: Learner
    updater: Updater
    judge: AnyJudge
    cfg: Config

    @abstractmethod
    def introduction(self, folder: Path) -> str:
        """Return the lines that say what the run is about to do."""

    def begin(self, cfg: Config, folder: Path) -> None:  # noqa: B027 (most need nothing)
        """Write to the folder of a new run what it can be verified by."""

    def origin(self) -> dict[str, str]:
        """Return what a checkpoint is of, by name: one of something else is not gone on from."""
        return {"algorithm": self.cfg.algo.name}

    def prepare(self, folder: Path) -> bool:
        """Do what has to be done before training, in the run's folder; return whether it was not interrupted."""
        return True

    def resume(self, folder: Path) -> None:  # noqa: B027
        """Refuse to resume a run that was trained on something else."""

    def close(self) -> None:  # noqa: B027
        """End what runs beside the program."""


class Gridworlds(Task):
    """The levels of a run."""

    def __init__(self, cfg: Config, reward: Reward, rng: torch.Generator, device: torch.device) -> None:
        self.cfg, self.device = cfg, device
        stage(levels_to_make(cfg), shown=cfg.progress)
        self.levels = data.load(cfg)
        check_levels(cfg, self.levels.train, self.levels.evaluated())
        self._digest = data.digest(self.levels)
        self.map_size = map_size(cfg, self.levels)
        self.judge: Judge = Judge(cfg, reward, self.levels, self.map_size, device)
        self.learner, self.updater = learner_of(cfg, reward, self.levels, self.map_size, rng, device)

    def introduction(self, folder: Path) -> str:
        pace = self.updater.pace
        return introduction(self.cfg, self.levels, self.judge.reported, self.learner, pace, self.device, folder)

    def origin(self) -> dict[str, str]:
        return super().origin() | {"set of levels": self._digest}

    def begin(self, cfg: Config, folder: Path) -> None:
        data.write_split(self.levels, cfg, folder)

    def resume(self, folder: Path) -> None:
        data.check_split(self.levels, folder)


def task_of(cfg: Config, reward: Reward, rng: torch.Generator, device: torch.device) -> Task:
    """Return what a run trains on."""
    if in_gridworld(cfg):
        return Gridworlds(cfg, reward, rng, device)
    from drest_torch.training.environment import EnvironmentTask  # TorchRL takes seconds to import

    return EnvironmentTask(cfg, reward, rng)
