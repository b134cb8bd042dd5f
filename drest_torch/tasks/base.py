"""The interface of tasks, in which policies are trained and evaluated, to a run and its algorithm."""

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
from drest_torch.algos.networks.regularization import check_layers
from drest_torch.config.schema import Config
from drest_torch.evaluation.memory_guard import MemoryGuard, RunMemory
from drest_torch.files import write_json
from drest_torch.reward import Reward


class Task(ABC):
    """The training data and the evaluation of a run's policy."""

    cfg: Any
    """The configuration of the run."""
    device: torch.device
    selection: Any = None
    """The evaluator for the choice of the best checkpoint, if there is one."""
    writes: Sequence[str] = ()
    """The names of the files that only this task writes to the folder of a run."""

    @property
    @abstractmethod
    def reward(self) -> Reward:
        """The reward at the end of training."""

    def evaluated_next(self) -> Sequence[str] | None:
        """Return the arguments of the evaluation suggested after training; None: there is none to suggest."""
        return []

    def tensors(self) -> dict[str, Tensor]:
        """Return the state that training changes; writing to these tensors restores it."""
        return {}

    def close(self) -> None:  # noqa: B027 (most need nothing)
        """End the processes of the task."""

    def memory(self, algorithm: Any) -> RunMemory | None:
        """Return an estimate of the memory of a run with this algorithm; None: there is no estimate."""
        return None

    # ------------------------------------------------------------------------------------ evaluation

    @abstractmethod
    def watch(self, policy: Any) -> dict[str, float]:
        """Return the metrics of a policy during training."""

    @abstractmethod
    def judge(self, policy: Any, folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Path]]:
        """Evaluate a policy at the end of its training, and write the results to the folder of its run.

        Return the metrics of each split, and the files of pictures by ``split/level``.
        """

    # ------------------------------------------------------------------------------------ the folder of the run

    @abstractmethod
    def lines(self) -> list[str]:
        """Return lines that describe the training and the evaluation data."""

    def begin(self, policy: Any) -> None:  # noqa: B027
        """Load the initial weights of an untrained policy, unless they are random."""

    def keep(self, folder: Path, *, anew: bool) -> None:  # noqa: B027
        """Write the fingerprint of the training data to the folder of a run; refuse a folder with a different one.

        A run that begins ``anew`` replaces the fingerprint.
        """

    def origin(self) -> dict[str, str]:
        """Return the origin of checkpoints; a run refuses to resume from a checkpoint with another origin."""
        return {}

    def saved_with(self) -> dict[str, str]:
        """Return the origin as checkpoints store it: `origin`, and values that an evaluation verifies."""
        return self.origin()

    def described(self) -> dict[str, Any]:
        """Return the metadata of the agent in checkpoints."""
        return {}

    def counts(self, state: State) -> dict[str, Any]:
        """Return the cost of training for the summary."""
        return {"env_steps": state.steps, "mini_episodes": state.episodes}

    def after_failure(self, command: str) -> str:
        """Return the remedy for an error of the task, with the command that resumes the run."""
        return ""


class AgentTask(Task):
    """A task for agents, whose policy and evaluation follow from its specification."""

    cfg: Config
    spec: AgentSpec
    """The specification of the agent without its weights, which every checkpoint contains."""
    policy: Any = None
    """The policy in training; None until the algorithm asks for its networks."""
    watched: Mapping[str, Any]
    """The evaluators during training, by split. Test levels of gridworlds are used only at the end."""

    # ------------------------------------------------------------------------------------ the algorithm's interface

    @property
    def reward(self) -> Reward:
        return self.spec.reward

    @property
    def precision(self) -> torch.dtype:
        """The precision of matrix products in training."""
        return dtype_of(chosen_precision(self.cfg.precision, self.device, self.cfg.policy.width))

    def networks(self, *, critic_width: int | None = None, context: int | None = None) -> tuple[Any, Any]:
        """Return an untrained policy and, with a ``context``, a critic that sees this many additional numbers."""
        with MemoryGuard():
            policy, critic = build_networks(
                self.spec.policy,
                self.cfg.seed,
                dropout=self.cfg.policy.dropout,
                critic_width=critic_width,
                context=context,
            )
        check_layers(policy, self.cfg.policy)
        policy = policy.to(self.device)
        if critic is not None:
            critic = critic.to(self.device)
        self.policy = policy
        return policy, critic

    def environment(self, *, with_critic: bool) -> Any:
        """Return an environment whose slots play the batches (`drest_torch.play.collector.Environment`)."""
        raise NotImplementedError(f"{type(self).__name__} has no environment")

    def exact_batches(self) -> Any:
        """Return level sets whose outcomes are known in closed form (`drest_torch.tasks.exact_batch`)."""
        raise NotImplementedError(f"{type(self).__name__} has no model")

    def world(self) -> Any:
        """Return a single world as a table, and m of each of its lengths (`drest_torch.play.world_table`)."""
        raise NotImplementedError(f"{type(self).__name__} has no model")

    def teachers(self, names: Sequence[str], checkpoint: str) -> Any:
        """Return trained agents whose mean policy is known in exact batches (`drest_torch.tasks.teachers`)."""
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
            evaluation, metrics = evaluator.summarised(policy)
            file = f"levels_{split}.json"
            write_json(folder / file, evaluation.records())
            splits[split] = metrics | {"file": file}
            if self.cfg.pictures:
                for path in self.pictures(split, evaluator, evaluation, policy, folder / "pictures"):
                    pictures[f"{split}/{path.stem}"] = path
        return splits, pictures

    @abstractmethod
    def judges(self) -> Iterator[tuple[str, Any]]:
        """Yield the splits and evaluators at the end of training."""

    @abstractmethod
    def pictures(self, split: str, evaluator: Any, evaluation: Any, policy: Any, folder: Path) -> list[Path]:
        """Plot an evaluation of a policy; return the files of the pictures."""

    @abstractmethod
    def arrays(self, split: str, records: Sequence[Mapping[str, Any]], policy: Any) -> dict[str, np.ndarray]:
        """Return the arrays of this task that a study stores for a split with these ``records`` of levels."""

    # ------------------------------------------------------------------------------------ the folder of the run

    def origin(self) -> dict[str, str]:
        return {"algorithm": self.cfg.algo.name}

    def described(self) -> dict[str, Any]:
        return {KEY: self.spec.record()}


def count(number: int, noun: str) -> str:
    """Return ``1 level`` or ``2,000 levels``."""
    plural = noun if number == 1 else f"{noun}s"
    return f"{number:,} {plural}"
