"""Checkpoints are restored completely or refused in one sentence that names the problem."""

import os
import pickle
import shutil
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import save_file

from drest_torch.agents.checkpoints import (
    FORMAT,
    checksum,
    load_checkpoint,
    prune,
    save_checkpoint,
    step_checkpoints,
    step_path,
)
from drest_torch.envs.levels import format_level, world
from drest_torch.errors import CheckpointError
from drest_torch.training.run import resume, start
from tests.helpers.runs import small


@pytest.fixture
def path(run):
    (path,) = step_checkpoints(run / "checkpoints")
    return path


def test_a_checkpoint_restores_tensors_with_metadata(tmp_path):
    tensors = {
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "whole": torch.tensor(2**60),
        "bytes": torch.Generator().manual_seed(3).get_state(),
        "none": torch.zeros(0, 2, dtype=torch.float64),
    }
    meta = {"steps": 12, "best_score": -torch.inf, "wandb_id": None}
    save_checkpoint(tmp_path / "run" / "one.safetensors", tensors, meta)
    loaded, loaded_meta = load_checkpoint(tmp_path / "run" / "one.safetensors")
    assert loaded_meta == meta
    torch.testing.assert_close(loaded, tensors, rtol=0, atol=0)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a checkpoint was unpickled",)


def cut(share):
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


def written(metadata):
    """Return a function that writes a tensor with this metadata, as another program would."""
    return lambda path: save_file({"policy.x": torch.ones(1)}, path, metadata)


UNREADABLE = {"format": FORMAT, "meta": "[", "sha256": checksum({"policy.x": torch.ones(1)}, "[")}
NO_CHECKPOINTS = [
    *((cut(share), "damaged or truncated") for share in (0.0, 0.01, 0.3, 0.99)),
    (lambda path: torch.save({"policy": Trap()}, path), "damaged or truncated"),
    (lambda path: path.write_bytes(pickle.dumps(Trap())), "damaged or truncated"),
    (lambda path: path.write_bytes((1 << 40).to_bytes(8, "little") + b"{}"), "damaged or truncated"),  # gigabytes
    (written(UNREADABLE), "its values cannot be read"),
    *(
        (written(metadata), "not a checkpoint of this program")
        for metadata in (None, {"format": f"{FORMAT} 0", "meta": "{}"})
    ),
    (lambda path: path.unlink(), "no such checkpoint"),
    (lambda path: (path.unlink(), path.mkdir()), "no such checkpoint"),
]


@pytest.mark.parametrize(("change", "words"), NO_CHECKPOINTS)
def test_other_files_are_refused_without_unpickling(path, change, words):
    change(path)
    with pytest.raises(CheckpointError, match=words) as caught:
        load_checkpoint(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_flipped_bit_is_refused_with_the_earlier_checkpoint(path):
    shutil.copy(path, step_path(path.parent, 1))
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in range(header, len(whole), max(1, (len(whole) - header) // 20)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=r"is damaged: .* use the one before it, .*step-000000000001"):
            load_checkpoint(path)


WEIGHT = "policy.net.body.0.weight"
MISFITS = [
    (lambda saved, _: saved.pop("generator"), ""),
    (lambda saved, _: saved.update({"generator": torch.zeros(3, dtype=torch.uint8)}), ""),
    (lambda saved, _: saved.update({"optimizer.adam.0.exp_avg": torch.zeros(1, 1)}), ""),
    (lambda saved, _: saved.update({"optimizer.adam.0.exp_avg": torch.zeros(1, dtype=torch.int64)}), ""),
    (lambda saved, _: saved.update({"optimizer.adam.99.exp_avg": torch.zeros(1)}), ""),
    (lambda saved, _: saved.update({"optimizer.adam.zero.exp_avg.more": torch.zeros(1)}), ""),
    (lambda saved, _: saved.pop("optimizer.adam.0.exp_avg_sq"), ": .*optimizer.adam.0 has exp_avg, step, not"),
    (lambda saved, _: saved["optimizer.adam.1.exp_avg"].fill_(torch.inf), ": .*'optimizer.adam.1.exp_avg' has values"),
    (lambda saved, _: saved[WEIGHT].view(-1)[3:4].fill_(torch.nan), f": the tensor '{WEIGHT}' has values that are"),
    (lambda _, meta: meta.update(steps="many"), ""),
    (lambda _, meta: meta.update(best_score=10**400), ""),
    (lambda _, meta: meta.update(unknown=1), ""),
    (lambda _, meta: meta.update(steps=-1), ": .*steps is -1"),
    (lambda _, meta: meta.update(episodes=1 << 63), ": .*episodes is"),
    (lambda _, meta: meta.update(updates=1 << 40), ": .*updates is .*, of .* steps"),
    (lambda _, meta: meta.update(wall_seconds=-0.5), ": .*wall_seconds is -0.5"),
    (lambda _, meta: meta.update(processor_seconds=torch.nan), ": .*processor_seconds is nan"),
    (lambda _, meta: meta.update(of=3), ""),
    (lambda _, meta: meta.update(of={"algorithm": "a2c"}), ": was saved with another algorithm .a2c; this"),
    (lambda saved, _: saved.update({WEIGHT: saved[WEIGHT].double()}), f": the tensor '{WEIGHT}' is torch.float64"),
    (lambda saved, _: saved.update({WEIGHT: saved[WEIGHT][1:]}), ": .*another architecture"),
    (lambda saved, _: saved.pop(WEIGHT), f": the tensor '{WEIGHT}' is missing, .*another architecture"),
    (lambda saved, _: saved.update({"policy.x": torch.ones(1)}), ": 1 policy tensors too many; .*another architecture"),
]


@pytest.mark.parametrize(("change", "words"), MISFITS)
def test_a_checkpoint_that_does_not_fit_is_refused(change, words, run, path):
    """The checksum of the checkpoint is right."""
    tensors, meta = load_checkpoint(path)
    change(tensors, meta)
    save_checkpoint(path, tensors, meta)
    with pytest.raises(CheckpointError, match=f"{path}{words}"):
        resume(run)


@pytest.mark.parametrize("key", ["levels.path", "test.path", "test.selection_path"])
def test_a_run_whose_levels_have_changed_is_not_resumed(key, tmp_path):
    level, others = tmp_path / "level.txt", [] if key == "levels.path" else ["levels=royal_road"]
    level.write_text(format_level(world("example")))
    start(small(tmp_path / "run", *others, f"{key}={level}")).save()
    resume(tmp_path / "run")
    level.write_text(format_level(world("example")).replace("C3", "C4"))
    with pytest.raises(CheckpointError, match=r"saved with another set of levels \(\w+; this run's is \w+\)"):
        resume(tmp_path / "run")


def test_pruning_keeps_the_last_checkpoints(tmp_path):
    paths = [step_path(tmp_path, step) for step in (5, 40, 300, 2000, 10_000_000)]
    others = [tmp_path / name for name in ("best.safetensors", "step-9.safetensors.partial", "step-x.safetensors")]
    for file in (*paths, *others):
        file.touch()
    for keep, remaining in ((9, paths), (2, paths[-2:])):
        prune(tmp_path, keep)
        assert step_checkpoints(tmp_path) == remaining
    assert all(other.exists() for other in others)


def test_resuming_prunes_checkpoints(run, path):
    """A run may have been killed between saving and pruning."""
    shutil.copy(path, step_path(path.parent, 1))
    resume(run)
    assert step_checkpoints(run / "checkpoints") == [path]


def test_saving_with_too_little_memory_is_a_memory_error(tmp_path, monkeypatch):
    """The library that writes checkpoints would end the process."""
    none = Mock(side_effect=MemoryError)
    monkeypatch.setattr("drest_torch.agents.checkpoints.bytearray", none, raising=False)
    with pytest.raises(MemoryError):
        save_checkpoint(tmp_path / "a.safetensors", {"a": torch.zeros(1000)}, {})
    assert none.call_args.args[0] > 2 * 4000
    assert not list(tmp_path.iterdir())
