"""A checkpoint gives back what was saved, whole or not at all, and says in one sentence what is wrong with it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from drest_torch.algos.networks.base import NetworkSize
from drest_torch.algos.networks.policy import Policy
from drest_torch.building.checkpoints import (
    load_checkpoint,
    load_module,
    load_optimizer,
    module_tensors,
    optimizer_tensors,
    prune,
    save_checkpoint,
    step_checkpoints,
    step_path,
)
from drest_torch.errors import CheckpointError, FileError

META = {"steps": 12, "best_score": 0.25, "wandb_id": None}


def policy(width: int = 4, depth: int = 1, shape: int = 3, seed: int = 0) -> Policy:
    torch.manual_seed(seed)
    return Policy((shape,), 4, NetworkSize(width, depth), scale=torch.ones(shape))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run" / "one.safetensors"
    save_checkpoint(path, module_tensors("policy", policy()), META)
    return path


def sentence(caught: pytest.ExceptionInfo[FileError], path: Path) -> str:
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    tensors = {
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "whole": torch.tensor(2**60),
        "bytes": torch.Generator().manual_seed(3).get_state(),
        "none": torch.zeros(0, 2, dtype=torch.float64),
    }
    save_checkpoint(path, tensors, META)
    found, meta = load_checkpoint(path)
    assert meta == META
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], value) and found[name].dtype == value.dtype for name, value in tensors.items())


def test_a_score_that_no_evaluation_has_beaten_comes_back(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "one.safetensors", {}, {"best_score": -torch.inf})
    assert load_checkpoint(tmp_path / "one.safetensors")[1] == {"best_score": -torch.inf}


def test_a_network_and_its_optimiser_go_on_as_if_never_saved(tmp_path: Path) -> None:
    def step(network: Policy, optimizer: torch.optim.Optimizer) -> None:
        network(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    first, second = policy(seed=0), policy(seed=1)
    optimizers = [torch.optim.Adam(network.parameters(), lr=0.1) for network in (first, second)]
    step(first, optimizers[0])
    path = tmp_path / "one.safetensors"
    save_checkpoint(path, module_tensors("policy", first) | optimizer_tensors("optimizer.adam", optimizers[0]), META)
    tensors, _ = load_checkpoint(path)
    load_module("policy", second, tensors, path)
    load_optimizer("optimizer.adam", optimizers[1], tensors)
    for network, optimizer in zip((first, second), optimizers, strict=True):
        step(network, optimizer)
    for one, two in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, two)


class Trap:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return pytest.fail, ("a checkpoint was unpickled",)


def other(metadata: dict[str, str] | None) -> Callable[[Path], object]:
    """Write tensors as another program does."""
    return lambda path: save_file({"policy.net.scale": torch.ones(3)}, path, metadata)


NO_CHECKPOINTS: list[tuple[Callable[[Path], object], str]] = [
    *(
        (lambda path, share=share: os.truncate(path, int(share * path.stat().st_size)), "damaged or cut off")
        for share in (0.0, 0.01, 0.3, 0.99)
    ),
    (lambda path: torch.save({"policy": Trap()}, path), "damaged or cut off"),
    (lambda path: path.write_bytes(pickle.dumps(Trap())), "damaged or cut off"),
    *(
        (other(metadata), "no checkpoint of this program")
        for metadata in (None, {"format": "pt"}, {"format": "drest_torch checkpoint 0", "meta": "{}"})
    ),
    (lambda path: path.unlink(), "no such checkpoint"),
    (lambda path: (path.unlink(), path.mkdir()), "no such checkpoint"),
]


@pytest.mark.parametrize(("change", "words"), NO_CHECKPOINTS)
def test_what_is_no_checkpoint_is_refused_and_nothing_is_unpickled(
    saved: Path, change: Callable[[Path], object], words: str
) -> None:
    change(saved)
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(saved)
    sentence(caught, saved)


@pytest.mark.parametrize("size", [{"width": 5}, {"depth": 2}, {"depth": 0}, {"shape": 7}], ids=str)
def test_a_network_of_another_architecture_stays_as_it_was(saved: Path, size: dict[str, int]) -> None:
    network = policy(**size)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(CheckpointError, match="another architecture") as caught:
        load_module("policy", network, load_checkpoint(saved)[0], saved)
    sentence(caught, saved)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    steps = [5, 40, 300, 2000, 10_000_000]
    for step in steps:
        step_path(tmp_path, step).touch()
    others = [tmp_path / name for name in ("best.safetensors", "step-9.safetensors.partial", "step-x.safetensors")]
    for path in others:
        path.touch()
    assert step_checkpoints(tmp_path) == [step_path(tmp_path, step) for step in steps]
    prune(tmp_path, 9)
    assert len(step_checkpoints(tmp_path)) == 5
    prune(tmp_path, 2)
    assert step_checkpoints(tmp_path) == [step_path(tmp_path, step) for step in steps[-2:]]
    assert all(path.exists() for path in others)
