"""What a run trains on, as `Run` sees it: gridworlds, or any other environment; and what is said of a run."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from drest_torch.algos.base import Learner
from drest_torch.building.agents import AgentSpec, Origin
from drest_torch.building.checkpoints import State
from drest_torch.config.checks import device_of
from drest_torch.config.schema import Config
from drest_torch.files import write_json
from drest_torch.reward import Reward, largest_reward
from drest_torch.tracking.effort import Pace, updates_of
from drest_torch.training.updates import Updater


class Task(ABC):
    """What a run trains on, with the algorithm and its source of updates, and what evaluates the policy."""

    cfg: Config
    spec: AgentSpec
    """What the agent is besides its weights; every checkpoint holds it."""
    learner: Learner
    updater: Updater
    watched: Mapping[str, Any]
    """What evaluates policies during training, by split. Test levels of gridworlds are kept for the end."""
    selection: Any = None
    """What evaluates policies to choose the best checkpoint by, if there is anything."""

    def watch(self) -> dict[str, float]:
        """Return the metrics of the policy during training."""
        return {
            f"eval/{split}/{name}": value
            for split, evaluator in self.watched.items()
            for name, value in evaluator.evaluate(self.learner.policy).means().items()
        }

    def judge(self, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
        """Evaluate the policy at the end, and write what was found to the folder of its run.

        Return the numbers of each split, and the files of pictures by ``split/level``.
        """
        splits, pictures = dict[str, dict[str, Any]](), dict[str, Path]()
        for split, evaluator in self.judges():
            evaluation, numbers = evaluator.summarised(self.learner.policy)
            write_json(folder / (file := f"levels_{split}.json"), evaluation.records())
            splits[split] = numbers | {"file": file}
            if self.cfg.pictures:
                for path in self.pictures(split, evaluator, evaluation, folder / "pictures"):
                    pictures[f"{split}/{path.stem}"] = path
        return splits, pictures

    @abstractmethod
    def judges(self) -> Iterator[tuple[str, Any]]:
        """Yield what evaluates the policy at the end, by split."""

    @abstractmethod
    def pictures(self, split: str, evaluator: Any, evaluation: Any, folder: Path) -> list[Path]:
        """Show what was evaluated in pictures; return their files."""

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the lines that say what the policy is trained in and evaluated on."""

    def introduction(self, folder: Path) -> str:
        """Return the lines that say what the run is about to do."""
        cfg = self.cfg
        device, threads = device_of(cfg.device), count(torch.get_num_threads(), "thread")
        computes = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else f", {threads}"
        start = "" if cfg.start_from is None else f"; begins with the weights of {cfg.start_from}"
        lines = [
            f"algorithm: {cfg.algo.name}, reward {cfg.reward.name}, {self.updater.pace.text(cfg.env_steps)}, "
            f"seed {cfg.seed}",
            *self.lines(),
            f"policy: {_networks(cfg, self.learner)}{start}",
            f"device: {device}{computes}",
            f"folder: {folder}",
        ]
        return "\n".join(lines)

    def keep(self, folder: Path, *, anew: bool) -> None:  # noqa: B027 (most need nothing)
        """Write the fingerprint of the training data to the folder of a run, or refuse a folder with another one.

        In the folder of a run that begins ``anew`` it is replaced.
        """

    def origin(self) -> dict[str, str]:
        """Return what a checkpoint belongs to, by name. A run refuses to resume from a checkpoint with other values."""
        return {"algorithm": self.cfg.algo.name}

    def saved_with(self) -> dict[str, str]:
        """Return what a checkpoint says that it belongs to: `origin`, and what an evaluation of it verifies."""
        return self.origin()

    def close(self) -> None:  # noqa: B027
        """End what runs beside the program."""


def origin_of(cfg: Config, place: str, lengths: Sequence[int] = ()) -> Origin:
    """Return where the agent of a run comes from; ``place`` is that of its training."""
    return Origin(
        algorithm=cfg.algo.name,
        reward=cfg.reward.name,
        place=place,
        lengths=tuple(lengths),
        seed=cfg.seed,
        sampled=cfg.sampled,
    )


def _networks(cfg: Config, learner: Learner) -> str:
    policy = _size(learner.policy)
    if policy == "0":
        return "a table"
    critic = "" if learner.critic is None else f", and a critic of {_size(learner.critic)}"
    return f"{cfg.policy.network} network, {policy} parameters{critic}"


def _size(network: nn.Module) -> str:
    return f"{sum(parameter.numel() for parameter in network.parameters()):,}"


def count(number: int, noun: str) -> str:
    """Return ``1 level`` or ``2,000 levels``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def run_summary(cfg: Config, state: State, pace: Pace) -> dict[str, Any]:
    """Return the part of a run's summary that does not depend on its evaluation.

    ``env_steps`` has the unit of the configuration's key: of exact gradients, which play nothing, it is counted steps,
    and ``training`` says what was done.
    """
    summary = {
        "algo": cfg.algo.name,
        "reward": cfg.reward.name,
        "seed": cfg.seed,
        "env_steps": state.steps,
        "mini_episodes": state.episodes,
        "wall_seconds": round(state.wall_seconds, 3),
    }
    if (levels := pace.levels_per_update) is None:
        return summary
    return summary | {
        "training": f"{state.updates:,} {updates_of(levels)}",
        "updates": state.updates,
        "levels_per_update": levels,
        "forward_rows": state.forward_rows,
        "backward_rows": state.backward_rows,
    }


def cut_rewards(reward: Reward) -> str | None:
    """Return a sentence if rewards can be so large that 32-bit numbers have to cut them."""
    most = math.log10(largest_reward(torch.float32))
    if reward.clip is not None or reward.log10_of_largest() <= most:
        return None
    return (
        f"with reward.lam={reward.lam:g} and reward.episodes_per_meta={reward.episodes_per_meta} a length that is "
        f"hardly ever chosen can be paid 10^{reward.log10_of_largest():.0f}; rewards are cut at 10^{most:.0f}"
    )
