"""Checkpoints, and the agents whose weights they hold, by the folder of a run or by name.

A checkpoint is one safetensors file, written whole or not at all, and read without executing code.

The tensors of a file are the states of the networks, the optimisers and the random generators. Its metadata holds the
rest as JSON. A file with the name of a checkpoint is complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from drest_torch.algos.base import Algorithm, Effort
from drest_torch.errors import CheckpointError
from drest_torch.files import write_whole

FORMAT = "drest_torch checkpoint 1"
BEST = "best.safetensors"
"""The name of the best checkpoint on the selection levels."""
LOSS = "algorithm.loss."
"""What the names of the tensors begin with that are the state of a loss."""
RENAMED = {"learner.": "algorithm.", "updater.": "task.", "weights.": "policy.", "rng": "generator"}
"""What the names of tensors begin with in checkpoints of earlier versions, and today."""
REMEMBERED = {torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"}, torch.optim.Muon: {"momentum_buffer"}}
"""What optimisers remember of a weight."""
LARGEST = 1 << 63
MOST_SECONDS = 1e10
"""No training has taken three centuries."""
PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"
"""The folder of the agents that come with the project, as `Agent.save` writes them."""


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write tensors and JSON values to a checkpoint file."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(meta)
    # The library takes twice the bytes, and where it cannot, it ends the process; Python raises a MemoryError.
    size = sum(tensor.nbytes for tensor in tensors.values())
    bytearray(2 * size + 2**20)
    metadata = {
        "format": FORMAT,
        "meta": text,
        "sha256": checksum(tensors, text),
    }
    write_whole(path, save(tensors, metadata=metadata))


def checksum(tensors: Mapping[str, Tensor], meta: str) -> str:
    """Return the SHA-256 of everything in a checkpoint."""
    digest = hashlib.sha256(meta.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        head = f"{name} {tensor.dtype} {tuple(tensor.shape)}"
        content = tensor.reshape(-1).view(torch.uint8)  # [bytes]
        digest.update(head.encode())
        digest.update(content.numpy().tobytes())
    return digest.hexdigest()


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON values of a checkpoint file."""
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint; expected a file that a run has saved")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: cannot be read, it is damaged or cut off ({error}); use another checkpoint of the run"
        ) from None
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path}: no checkpoint of this program; expected one that a run has saved")
    if metadata.get("sha256") != checksum(tensors, metadata.get("meta", "")):
        others = [other for other in step_checkpoints(path.parent) if other != path]
        remedy = "use another checkpoint of the run"
        if others:
            remedy = f"use the one before it, {others[-1]}"
        raise CheckpointError(f"{path}: is damaged: its contents do not have its checksum; {remedy}")
    try:
        meta = json.loads(metadata["meta"])
        if not isinstance(meta, dict) or not isinstance(meta.get("of", {}), dict):
            raise TypeError("no object")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: is damaged: its values cannot be read ({error}); use another one") from None
    renamed = {_name_today(name): tensor for name, tensor in tensors.items()}
    return renamed, meta


def _name_today(name: str) -> str:
    for before, today in RENAMED.items():
        if name.startswith(before):
            return today + name.removeprefix(before)
    return name


def step_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run by step, oldest first."""
    paths = folder.glob("step-*.safetensors")
    return sorted(path for path in paths if re.fullmatch(r"step-\d+", path.stem))


def checkpoint_path(run: Path, which: str) -> Path:
    """Return a checkpoint of a run: ``last``, ``best`` (on its selection levels), or that of the path ``which``."""
    folder = run / "checkpoints"
    if which == "best":
        best = folder / BEST
        if not best.is_file():
            raise CheckpointError(f"{best}: no such checkpoint; only a run with selection levels keeps its best")
        return best
    if which != "last":
        return Path(which)
    saved = step_checkpoints(folder)
    if not saved:
        raise CheckpointError(f"{folder}: no checkpoint in it yet; the run has to train a little longer")
    return saved[-1]


def step_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint after this many environment steps."""
    return folder / f"step-{step:012d}.safetensors"


def prune(folder: Path, keep: int) -> None:
    """Delete all checkpoints but the last ``keep``."""
    for path in step_checkpoints(folder)[:-keep]:
        path.unlink()


@dataclass
class State:
    """The progress of a run: with the tensors of its checkpoint, all that is needed to resume it."""

    steps: int = 0
    episodes: int = 0
    updates: int = 0
    evaluated: int = 0
    wall_seconds: float = 0.0
    processor_seconds: float = 0.0
    best_score: float = -math.inf
    wandb_id: str | None = None
    forward_rows: int = 0
    """Rows on which exact gradients ran the network, those of `backward_rows` among them."""
    backward_rows: int = 0
    """Rows that were backpropagated."""

    def add(self, effort: Effort) -> None:
        """Count an update and what it took."""
        self.updates += 1
        self.steps += effort.steps
        self.episodes += effort.episodes
        self.forward_rows += effort.forward_rows
        self.backward_rows += effort.backward_rows

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> State:
        """Return the progress that a checkpoint has, which may be damaged."""
        if values.keys() == {"updates", "seconds"}:  # of a language model, saved by an earlier version
            updates, seconds = values["updates"], values["seconds"]
            values = {"steps": updates, "updates": updates, "wall_seconds": seconds, "processor_seconds": seconds}
        state = cls(**values)
        state.check()
        return state

    def check(self) -> None:
        """Refuse values that no run comes to, which a damaged file can have."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not _is_possible(entry.name, value, usual=entry.default):
                raise ValueError(f"{entry.name} is {value!r:.40}")
        if self.updates > self.steps:
            raise ValueError(f"updates is {self.updates}, of {self.steps} steps")


def _is_possible(name: str, value: Any, *, usual: Any) -> bool:
    """Return whether a run can come to this value of its progress."""
    if name == "wandb_id":
        return value is None or isinstance(value, str)
    if type(value) is not type(usual):
        return False
    if isinstance(value, int):
        return 0 <= value < LARGEST
    if name.endswith("_seconds"):
        return 0 <= value <= MOST_SECONDS
    return True


def check_origin(saved: Mapping[str, Any], own: Mapping[str, str], path: Path) -> None:
    """Refuse a checkpoint that was saved with something else than a run has."""
    for name, value in own.items():
        other = saved.get(name)
        if other != value:
            raise CheckpointError(
                f"{path}: was saved with another {name} ({other}, and this run's is {value}); put back what was "
                "changed, or train anew with another run_dir"
            )


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Say in one sentence that a checkpoint does not fit its run."""
    try:
        yield
    except CheckpointError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path}: no checkpoint of this run ({reason}); use another one of the run") from None


def named(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return values by name, with a prefix before each name."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def fill(values: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path, by: str = "another run") -> None:
    """Write tensors of a checkpoint to those of a run, all of them, or raise an error that names one that misfits."""
    for name, value in values.items():
        saved = "missing"
        if name in tensors:
            saved = _kind_of(tensors[name])
        if saved != _kind_of(value):
            raise CheckpointError(
                f"{path}: the tensor '{name}' is {saved}, and the run's {_kind_of(value)}; it was saved by {by}"
            )
    for name, value in values.items():
        value.copy_(tensors[name])


def _kind_of(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"


def load_module(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the state of a network, or raise an error that names the tensor that does not fit."""
    values = named(prefix, module.state_dict())
    by = "a run of another architecture (policy.width, depth, observation, map size or language model)"
    saved = [name for name in tensors if name.startswith(f"{prefix}.")]
    surplus = set(saved) - values.keys()
    if surplus:
        raise CheckpointError(f"{path}: {len(surplus)} {prefix} tensors too many; it was saved by {by}")
    parameters = named(prefix, dict(module.named_parameters()))
    refuse_not_finite(parameters, tensors, path)
    fill(values, tensors, path, by)


def refuse_not_finite(names: Iterable[str], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Refuse tensors of these names that have values which are not finite."""
    for name in names:
        tensor = tensors.get(name)
        if tensor is None or not tensor.is_floating_point():
            continue
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: the tensor '{name}' has values that are not finite; use another checkpoint")


def optimizer_tensors(prefix: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser by name."""
    tensors: dict[str, Tensor] = {}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= named(f"{prefix}.{index}", state)
    return tensors


def load_optimizer(prefix: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the state of an optimiser, or raise an error where it is not that of its parameters.

    A weight of which nothing is saved had no gradient yet. One that lacks a part would end the next update.
    """
    saved = {name: value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
    refuse_not_finite(saved, tensors, path)
    state: dict[int, dict[str, Tensor]] = {}
    parameters = optimizer.param_groups[0]["params"]
    for key, value in saved.items():
        index, name = key.removeprefix(f"{prefix}.").split(".")
        parameter = parameters[int(index)]
        has_shape = value.ndim == 0 or value.shape == parameter.shape
        if not has_shape or not value.is_floating_point():
            raise ValueError(f"{key} is {_kind_of(value)}, of {tuple(parameter.shape)} weights")
        state.setdefault(int(index), {})[name] = value
    wanted = REMEMBERED.get(type(optimizer), set().union(*state.values()))
    for weight, parts in state.items():
        if parts.keys() != wanted:
            found, expected = ", ".join(sorted(parts)), ", ".join(sorted(wanted))
            raise ValueError(f"{prefix}.{weight} has {found}, and not {expected}")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def algorithm_tensors(algorithm: Algorithm) -> dict[str, Tensor]:
    """Return the state of an algorithm by name: its networks, its optimisers and its own tensors."""
    tensors = named("policy", algorithm.policy.state_dict())
    if algorithm.critic is not None:
        of_critic = named("critic", algorithm.critic.state_dict())
        # A copy: a critic that shares weights with the policy has them in its file as well.
        tensors |= {name: value.clone() for name, value in of_critic.items()}
    for name, optimizer in algorithm.optimizers.items():
        tensors |= optimizer_tensors(f"optimizer.{name}", optimizer)
    return tensors | named("algorithm", algorithm.tensors())


def restore_algorithm(algorithm: Algorithm, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the state of an algorithm from the tensors of a checkpoint."""
    load_module("policy", algorithm.policy, tensors, path)
    if algorithm.critic is not None:
        load_module("critic", algorithm.critic, tensors, path)
    for name, optimizer in algorithm.optimizers.items():
        load_optimizer(f"optimizer.{name}", optimizer, tensors, path)
    state = named("algorithm", algorithm.tensors())
    has_loss = any(name.startswith(LOSS) for name in tensors)
    if not has_loss:  # a checkpoint of an earlier version
        state = {name: value for name, value in state.items() if not name.startswith(LOSS)}
    fill(state, tensors, path)


# ------------------------------------------------------------------------------------------- agents


def agent_folder(path_or_name: str | Path) -> Path:
    """Return the folder of an agent, given that folder or the name of one that comes with the project."""
    folder = Path(path_or_name)
    shipped = PRETRAINED / str(path_or_name)
    if not folder.exists() and shipped.is_dir():
        return shipped
    if not folder.is_dir():
        names = sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir())
        raise CheckpointError(
            f"{path_or_name}: no such folder of a run, and no agent of that name ({', '.join(names)})"
        )
    return folder
