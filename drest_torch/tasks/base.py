"""A task: where a policy is trained and evaluated. A run and its algorithm need nothing else of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drest_torch.agents.checkpoints import State
from drest_torch.agents.specification import KEY, AgentSpec
from drest_torch.agents.untrained import build_networks
from drest_torch.algos.networks.precision import chosen_precision, dtype_of
from drest_torch.config.schema import Config
from drest_torch.evaluation.memory_guard import MemoryGuard, RunMemory
from drest_torch.files import write_json
from drest_torch.reward import Reward


class Task(ABC):
    """What a run needs to know about where it trains its policy."""

    cfg: Any
    """The configuration of the run."""
    device: torch.device
    selection: Any = None
    """The evaluator that the best checkpoint is chosen by, if there is one."""
    evaluated_next: Sequence[str] = ()
    """The arguments of an evaluation that is proposed after training."""
    writes: Sequence[str] = ()
    """The names of what it writes to the folder of a run besides what every run has."""

    @property
    @abstractmethod
    def reward(self) -> Reward:
        """The reward at the end of training."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state that training changes; writing to these tensors restores it."""
        return {}

    def close(self) -> None:  # noqa: B027 (most need nothing)
        """End what runs beside the program."""

    def memory(self, algorithm: Any) -> RunMemory | None:
        """Return the memory that a run with this algorithm takes; None: it is not estimated."""
        return None

    # ------------------------------------------------------------------------------------ evaluation

    @abstractmethod
    def watch(self, policy: Any) -> dict[str, float]:
        """Return the metrics of a policy during training."""

    @abstractmethod
    def judge(self, policy: Any, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
        """Evaluate a policy at the end of its training, and write the results to the folder of its run.

        Return the numbers of each split, and the files of pictures by ``split/level``.
        """

    # ------------------------------------------------------------------------------------ the folder of its run

    @abstractmethod
    def lines(self) -> list[str]:
        """Return the lines that say what the policy is trained in and evaluated on."""

    def begin(self, policy: Any) -> None:  # noqa: B027
        """Give an untrained policy the weights that training begins with, if they are not random."""

    def keep(self, folder: Path, *, anew: bool) -> None:  # noqa: B027
        """Write the fingerprint of the training data to the folder of a run, or refuse a folder with another one.

        In the folder of a run that begins ``anew`` it is replaced.
        """

    def origin(self) -> dict[str, str]:
        """Return what a checkpoint belongs to, by name. A run refuses to resume from a checkpoint with other values."""
        return {}

    def saved_with(self) -> dict[str, str]:
        """Return what a checkpoint says that it belongs to: `origin`, and what an evaluation of it verifies."""
        return self.origin()

    def described(self) -> dict[str, Any]:
        """Return what a checkpoint says of the agent besides its weights."""
        return {}

    def counts(self, state: State) -> dict[str, Any]:
        """Return the part of a summary that says what training took."""
        return {"env_steps": state.steps, "mini_episodes": state.episodes}

    def after_failure(self, command: str) -> str:
        """Return how to go on after an error of the task, if the run can go on by this command."""
        return ""


class AgentTask(Task):
    """A task that an agent plays, whose policy and evaluation follow from its specification."""

    cfg: Config
    spec: AgentSpec
    """All that the agent is besides its weights; every checkpoint holds it."""
    watched: Mapping[str, Any]
    """Evaluators during training, by split. Test levels of gridworlds are kept for the end."""

    # ------------------------------------------------------------------------------------ for its algorithm

    @property
    def reward(self) -> Reward:
        return self.spec.reward

    @property
    def precision(self) -> torch.dtype:
        """The precision of the products of networks while they learn."""
        return dtype_of(chosen_precision(self.cfg.precision, self.device, self.cfg.policy.width))

    def networks(self, *, critic_width: int | None = None, context: int | None = None) -> tuple[Any, Any]:
        """Return an untrained policy and, with a ``context``, a critic that sees so many numbers besides."""
        with MemoryGuard():
            policy, critic = build_networks(self.spec.policy, self.cfg.seed, critic_width=critic_width, context=context)
        policy = policy.to(self.device)
        if critic is not None:
            critic = critic.to(self.device)
        return policy, critic

    def environment(self, *, with_critic: bool) -> Any:
        """Return slots that play mini-episodes for batches (`drest_torch.play.collector.Environment`)."""
        raise NotImplementedError(f"{type(self).__name__} has no environment")

    def exact_batches(self) -> Any:
        """Return level sets whose outcomes are known in closed form (`drest_torch.tasks.exact_batch`)."""
        raise NotImplementedError(f"{type(self).__name__} has no model")

    def world(self) -> Any:
        """Return a single world as a table, and m of each of its lengths (`drest_torch.play.world_table`)."""
        raise NotImplementedError(f"{type(self).__name__} has no model")

    # ------------------------------------------------------------------------------------ evaluation

    def watch(self, policy: Any) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for split, evaluator in self.watched.items():
            means = evaluator.evaluate(policy).means()
            metrics |= {f"eval/{split}/{name}": value for name, value in means.items()}
        return metrics

    def judge(self, policy: Any, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
        splits, pictures = dict[str, dict[str, Any]](), dict[str, Path]()
        for split, evaluator in self.judges():
            evaluation, numbers = evaluator.summarised(policy)
            file = f"levels_{split}.json"
            write_json(folder / file, evaluation.records())
            splits[split] = numbers | {"file": file}
            if self.cfg.pictures:
                for path in self.pictures(split, evaluator, evaluation, policy, folder / "pictures"):
                    pictures[f"{split}/{path.stem}"] = path
        return splits, pictures

    @abstractmethod
    def judges(self) -> Iterator[tuple[str, Any]]:
        """Yield the evaluators at the end of training, by split."""

    @abstractmethod
    def pictures(self, split: str, evaluator: Any, evaluation: Any, policy: Any, folder: Path) -> list[Path]:
        """Plot an evaluation of a policy; return the files of the pictures."""

    @abstractmethod
    def arrays(self, split: str, records: Sequence[Mapping[str, Any]], policy: Any) -> dict[str, np.ndarray]:
        """Return what a study keeps of a split besides what all tasks have; ``records`` are those of its levels."""

    # ------------------------------------------------------------------------------------ the folder of its run

    def origin(self) -> dict[str, str]:
        return {"algorithm": self.cfg.algo.name}

    def described(self) -> dict[str, Any]:
        return {KEY: self.spec.record()}


def count(number: int, noun: str) -> str:
    """Return ``1 level`` or ``2,000 levels``."""
    plural = noun if number == 1 else f"{noun}s"
    return f"{number:,} {plural}"
