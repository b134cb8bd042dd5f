"""Checkpoints of runs, and the folders of agents by path or name.

A checkpoint is one safetensors file. It is written atomically and read without executing code.

Its tensors are the states of the networks, the optimisers and the random generators. Its metadata holds all other
values as JSON.
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
from drest_torch.algos.muon import LayerMuon
from drest_torch.errors import CheckpointError
from drest_torch.files import write_whole

FORMAT = "drest_torch checkpoint 1"
BEST = "best.safetensors"
"""File name of the checkpoint that is best on the selection levels."""
LOSS = "algorithm.loss."
"""Prefix of the tensors that hold the state of a loss."""
PREFIXES_TODAY = {"learner.": "algorithm.", "updater.": "task.", "weights.": "policy.", "rng": "generator"}
"""Prefixes of tensor names in checkpoints of earlier versions, each with the prefix today."""
ADAM_STATE = {"step", "exp_avg", "exp_avg_sq"}
OPTIMIZER_STATE = {
    torch.optim.Adam: ADAM_STATE,
    torch.optim.AdamW: ADAM_STATE,
    torch.optim.Muon: {"momentum_buffer"},
    LayerMuon: {"momentum_buffer"},
}
"""State that each optimiser keeps of a weight, by name."""
LARGEST = 1 << 63
"""Exclusive upper bound of the counters of a run, which are 64-bit integers."""
MOST_SECONDS = 1e10
"""Largest plausible training time, about three centuries."""
PRETRAINED = Path(__file__).resolve().parents[1] / "pretrained"
"""Folder of the pretrained agents, in the format of `Agent.save`."""


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write tensors and JSON values to a checkpoint file."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(meta)
    # safetensors allocates twice the size and aborts the process if it cannot; Python raises a MemoryError first.
    size = sum(tensor.nbytes for tensor in tensors.values())
    bytearray(2 * size + 2**20)
    metadata = {
        "format": FORMAT,
        "meta": text,
        "sha256": checksum(tensors, text),
    }
    write_whole(path, save(tensors, metadata=metadata))


def checksum(tensors: Mapping[str, Tensor], meta: str) -> str:
    """Return the SHA-256 of the tensors and the metadata of a checkpoint."""
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
            f"{path}: cannot be read: it is damaged or truncated ({error}); use another checkpoint of the run"
        ) from None
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of this program; expected one that a run has saved")
    if metadata.get("sha256") != checksum(tensors, metadata.get("meta", "")):
        earlier = [other for other in step_checkpoints(path.parent) if other != path]
        remedy = "use another checkpoint of the run"
        if earlier:
            remedy = f"use the one before it, {earlier[-1]}"
        raise CheckpointError(f"{path}: is damaged: its contents do not have its checksum; {remedy}")
    try:
        meta = json.loads(metadata["meta"])
        if not isinstance(meta, dict) or not isinstance(meta.get("of", {}), dict):
            raise TypeError("no object")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: is damaged: its values cannot be read ({error}); use another one") from None
    renamed = {_tensor_name_today(name): tensor for name, tensor in tensors.items()}
    return renamed, meta


def _tensor_name_today(name: str) -> str:
    """Return the name of a tensor with the prefix of this version."""
    for before, today in PREFIXES_TODAY.items():
        if name.startswith(before):
            return today + name.removeprefix(before)
    return name


def step_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run that are named by their step, oldest first."""
    paths = folder.glob("step-*.safetensors")
    return sorted(path for path in paths if re.fullmatch(r"step-\d+", path.stem))


def checkpoint_path(run: Path, which: str) -> Path:
    """Return the path of a checkpoint: ``last``, ``best`` (on the selection levels), or the path ``which`` itself."""
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
    """Return the path of the checkpoint that is saved after this many environment steps."""
    return folder / f"step-{step:012d}.safetensors"


def prune(folder: Path, keep: int) -> None:
    """Delete all checkpoints by step except the last ``keep``."""
    for path in step_checkpoints(folder)[:-keep]:
        path.unlink()


@dataclass
class State:
    """The progress of a run, which a checkpoint stores beside the tensors."""

    steps: int = 0
    episodes: int = 0
    updates: int = 0
    evaluated: int = 0
    wall_seconds: float = 0.0
    processor_seconds: float = 0.0
    best_score: float = -math.inf
    best_steps: int = 0
    """The steps of the best checkpoint."""
    evaluations_since_best: int = 0
    wandb_id: str | None = None
    forward_rows: int = 0
    """Rows on which exact gradients ran the network, including `backward_rows`."""
    backward_rows: int = 0
    """Backpropagated rows."""
    steps_per_turn: float = 0.0
    """The mean steps of a turn (`Effort.turns`) in the last update; 0: unknown."""

    def add(self, effort: Effort) -> None:
        """Add an update and its effort to the totals."""
        self.updates += 1
        self.steps += effort.steps
        self.episodes += effort.episodes
        self.forward_rows += effort.forward_rows
        self.backward_rows += effort.backward_rows
        if effort.turns:
            self.steps_per_turn = effort.steps / effort.turns

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> State:
        """Return the progress stored in a checkpoint; raise if its values are impossible."""
        if values.keys() == {"updates", "seconds"}:  # a language model of an earlier version
            updates, seconds = values["updates"], values["seconds"]
            values = {"steps": updates, "updates": updates, "wall_seconds": seconds, "processor_seconds": seconds}
        state = cls(**values)
        state.check()
        return state

    def check(self) -> None:
        """Raise for values that no run can reach; a damaged file can hold them."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not _is_possible(entry.name, value, usual=entry.default):
                raise ValueError(f"{entry.name} is {value!r:.40}")
        if self.updates > self.steps:
            raise ValueError(f"updates is {self.updates}, of {self.steps} steps")


def _is_possible(name: str, value: Any, *, usual: Any) -> bool:
    """Return whether a run can reach this value of its progress."""
    if name == "wandb_id":
        return value is None or isinstance(value, str)
    if type(value) is not type(usual):
        return False
    if isinstance(value, int):
        return 0 <= value < LARGEST
    if name.endswith("_seconds"):
        return 0 <= value <= MOST_SECONDS
    if name == "steps_per_turn":
        return 0 <= value < LARGEST
    return True


def check_origin(saved: Mapping[str, Any], expected: Mapping[str, str], path: Path) -> None:
    """Raise if a checkpoint belongs to another origin (algorithm, levels) than the run."""
    for name, value in expected.items():
        saved_value = saved.get(name)
        if saved_value != value:
            raise CheckpointError(
                f"{path}: was saved with another {name} ({saved_value}; this run's is {value}); undo the "
                "change, or train anew with another run_dir"
            )


@contextmanager
def explain_misfit(path: Path) -> Iterator[None]:
    """Turn errors of a checkpoint that does not fit its run into a `CheckpointError` of one sentence."""
    try:
        yield
    except CheckpointError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise CheckpointError(f"{path}: not a checkpoint of this run ({reason}); use another one of the run") from None


def prefixed(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with ``prefix.`` before each name."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def fill(values: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path, by: str = "another run") -> None:
    """Copy tensors of a checkpoint into those of a run; raise before any copy if one does not fit."""
    for name, value in values.items():
        saved = "missing"
        if name in tensors:
            saved = _dtype_and_shape(tensors[name])
        expected = _dtype_and_shape(value)
        if saved != expected:
            raise CheckpointError(
                f"{path}: the tensor '{name}' is {saved}, but the run's is {expected}; it was saved by {by}"
            )
    for name, value in values.items():
        value.copy_(tensors[name])


def _dtype_and_shape(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"


def load_module(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the state of a network; raise an error that names the first tensor that does not fit."""
    values = prefixed(prefix, module.state_dict())
    by = "a run of another architecture (policy.width, depth, observation, map size or language model)"
    saved = [name for name in tensors if name.startswith(f"{prefix}.")]
    surplus = set(saved) - values.keys()
    if surplus:
        raise CheckpointError(f"{path}: {len(surplus)} {prefix} tensors too many; it was saved by {by}")
    parameters = prefixed(prefix, dict(module.named_parameters()))
    refuse_not_finite(parameters, tensors, path)
    fill(values, tensors, path, by)


def refuse_not_finite(names: Iterable[str], tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise if a tensor of these names has NaN or infinite values."""
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
        tensors |= prefixed(f"{prefix}.{index}", state)
    return tensors


def load_optimizer(prefix: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the state of an optimiser; raise if it does not fit the parameters.

    A weight without saved state had no gradient yet. A weight with incomplete state would make the next update fail.
    """
    saved = {name: value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
    refuse_not_finite(saved, tensors, path)
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for key, value in saved.items():
        index, name = key.removeprefix(f"{prefix}.").split(".")
        parameter = parameters[int(index)]
        has_shape = value.ndim == 0 or value.shape == parameter.shape
        if not has_shape or not value.is_floating_point():
            raise ValueError(f"{key} is {_dtype_and_shape(value)}, of {tuple(parameter.shape)} weights")
        state.setdefault(int(index), {})[name] = value
    expected = OPTIMIZER_STATE.get(type(optimizer), set().union(*state.values()))
    for weight, parts in state.items():
        if parts.keys() != expected:
            present, complete = ", ".join(sorted(parts)), ", ".join(sorted(expected))
            raise ValueError(f"{prefix}.{weight} has {present}, not {complete}")
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _networks(algorithm: Algorithm) -> dict[str, Any]:
    """Return the networks of an algorithm by their prefix in checkpoints; agents are loaded from ``policy``."""
    networks = {"policy": algorithm.policy}
    if algorithm.average is not None:
        networks = {"policy": algorithm.average.module, "trained": algorithm.policy}
    if algorithm.critic is not None:
        networks["critic"] = algorithm.critic
    return networks


def algorithm_tensors(algorithm: Algorithm) -> dict[str, Tensor]:
    """Return the state of an algorithm by name: networks, optimisers and further tensors."""
    tensors: dict[str, Tensor] = {}
    for prefix, network in _networks(algorithm).items():
        tensors |= prefixed(prefix, network.state_dict())
    # Copies, because safetensors stores no shared tensors and a critic can share weights with the policy.
    tensors |= {name: value.clone() for name, value in tensors.items() if name.startswith("critic.")}
    for name, optimizer in algorithm.optimizers.items():
        tensors |= optimizer_tensors(f"optimizer.{name}", optimizer)
    return tensors | prefixed("algorithm", algorithm.tensors())


def restore_algorithm(algorithm: Algorithm, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Load the state of an algorithm from the tensors of a checkpoint at this path."""
    for prefix, network in _networks(algorithm).items():
        load_module(prefix, network, tensors, path)
    for name, optimizer in algorithm.optimizers.items():
        load_optimizer(f"optimizer.{name}", optimizer, tensors, path)
    state = prefixed("algorithm", algorithm.tensors())
    has_loss = any(name.startswith(LOSS) for name in tensors)
    if not has_loss:  # a checkpoint of an earlier version
        state = {name: value for name, value in state.items() if not name.startswith(LOSS)}
    fill(state, tensors, path)


# ------------------------------------------------------------------------------------------- agents


def agent_folder(path_or_name: str | Path) -> Path:
    """Return the folder of an agent from its path or the name of a pretrained agent."""
    folder = Path(path_or_name)
    pretrained = PRETRAINED / str(path_or_name)
    if not folder.exists() and pretrained.is_dir():
        return pretrained
    if not folder.is_dir():
        raise CheckpointError(
            f"{path_or_name}: no such folder of a run, and no agent of that name ({', '.join(pretrained_names())})"
        )
    return folder


def absolute_agent(path_or_name: str) -> str:
    """Return the absolute path of an agent's folder, or the name of a pretrained agent."""
    if not Path(path_or_name).exists() and (PRETRAINED / path_or_name).is_dir():
        return path_or_name
    return str(Path(path_or_name).resolve())


def pretrained_names() -> list[str]:
    """Return the names of the pretrained agents."""
    return sorted(path.name for path in PRETRAINED.iterdir() if path.is_dir())
