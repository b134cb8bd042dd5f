"""What must not be lost or mixed up: one owner of a folder, whole checkpoints, no run of numbers that are none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drest_torch.building.checkpoints import load_checkpoint, save_checkpoint, step_checkpoints, step_path
from drest_torch.errors import CheckpointError, ConfigError, FileError
from drest_torch.files import disown, own, write_text
from drest_torch.training.run import resume, start
from tests.helpers.runs import QUIET, small

OWNER = (
    "import sys, pathlib, drest_torch.files as f; f.own(pathlib.Path(sys.argv[1]), OSError); print('owned', flush=True)"
)


def test_a_folder_has_one_owner_until_its_process_ends(tmp_path: Path) -> None:
    refusal = ConfigError("somebody else")
    other = subprocess.Popen(
        [sys.executable, "-c", OWNER + "; sys.stdin.read()", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "owned\n"
    with pytest.raises(ConfigError, match="somebody else"):
        own(tmp_path, lambda: refusal)
    other.kill()  # it has no chance to tidy up
    other.wait()
    own(tmp_path, lambda: refusal)
    own(tmp_path, lambda: refusal)  # once more in the same process
    denied = subprocess.run([sys.executable, "-c", OWNER, str(tmp_path)], capture_output=True, text=True, check=False)
    assert denied.stdout == ""
    assert denied.returncode != 0
    disown(tmp_path)
    assert subprocess.run([sys.executable, "-c", OWNER, str(tmp_path)], check=False).returncode == 0


@pytest.mark.slow
def test_a_second_process_is_told_who_trains(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = start(small(folder))
    command = [sys.executable, "-m", "drest_torch.train", f"resume={folder}", "progress=false"]
    denied = subprocess.run(command, capture_output=True, text=True, check=False)
    assert denied.returncode == 2
    assert "another process trains in it; wait for it, or choose another run_dir" in denied.stderr
    assert run.train() is not None


@pytest.mark.parametrize("name", ["config.yaml", "summary.json"])
def test_a_run_begins_in_no_folder_with_the_files_of_another(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match="holds a run already"):
        start(small(tmp_path))
    assert (tmp_path / name).read_text() == "mine"


def test_a_run_whose_checkpoints_are_gone_does_not_begin_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    start(small(folder)).train()
    before = (folder / "metrics.jsonl").read_bytes()
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="no checkpoint in it, though the run has trained"):
        resume(folder)
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_training_stops_before_numbers_that_are_not_finite_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(small(tmp_path / "run", "algo=ppo"))
    update = run.update

    def poisoned() -> dict[str, float]:
        metrics = update()
        with torch.no_grad():
            next(iter(run.learner.policy.parameters())).fill_(torch.nan)
        return metrics

    monkeypatch.setattr(run, "update", poisoned)
    with pytest.raises(ConfigError, match=r"not finite in update 2 \(.*loss/objective nan.*; use a larger reward\.lam"):
        run.train()
    for path in step_checkpoints(tmp_path / "run" / "checkpoints"):
        tensors, _ = load_checkpoint(path)
        assert all(tensor.isfinite().all() for tensor in tensors.values())


@pytest.mark.slow
def test_rewards_that_have_to_be_cut_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start(small(tmp_path / "a", "reward.lam=0.5", "reward.episodes_per_meta=256")).train()
    assert "a length that is hardly ever chosen can be paid 10^38; rewards are cut at 10^13" in capsys.readouterr().err
    start(small(tmp_path / "b")).train()
    assert "rewards are cut" not in capsys.readouterr().err


FORK = """
import os, sys
from drest_torch.config.compose import compose
from drest_torch.training.run import start
def train(name):
    return start(compose(*sys.argv[1:], f"run_dir={name}")).train() is not None
assert train("parent")
child = os.fork()
if child == 0:
    os._exit(0 if train("child") else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
def test_a_process_that_was_forked_from_one_that_trained_can_train(tmp_path: Path) -> None:
    words = ["algo=tabular", "levels=example", "env_steps=2000", "evaluations=1", "pictures=0", *QUIET]
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    subprocess.run([sys.executable, "-c", FORK, *words], cwd=tmp_path, env=environment, timeout=90, check=True)
    assert (tmp_path / "child" / "summary.json").exists()


def test_a_flipped_bit_is_noticed_and_the_checkpoint_before_is_named(tmp_path: Path) -> None:
    run = start(small(tmp_path / "run"))
    tensors = {f"policy.{name}": value for name, value in run.learner.policy.state_dict().items()}
    for step in (1, 2):
        save_checkpoint(step_path(tmp_path, step), tensors, {"steps": step})
    path = step_path(tmp_path, 2)
    whole = path.read_bytes()
    assert load_checkpoint(path)[1] == {"steps": 2}
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in range(header, len(whole), max(1, (len(whole) - header) // 20)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=r"is damaged: .* use the one before it, .*step-000000000001"):
            load_checkpoint(path)


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull), tmp_path):
        with pytest.raises(FileError, match=r"is no regular file|Is a directory"):
            write_text(path, "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe"]
