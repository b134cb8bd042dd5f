"""Safeguards of runs: one owner of a folder, whole files, finite numbers, and limits of memory."""

import gc
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from drest_torch.agents.checkpoints import load_checkpoint, step_checkpoints
from drest_torch.commands.cli import importing, sentence_of
from drest_torch.config.compose import compose
from drest_torch.envs.levels import read_levels
from drest_torch.errors import CheckpointError, ConfigError, FileError, UserError
from drest_torch.evaluation.memory_guard import COPIES, MemoryGuard
from drest_torch.files import MOST_BYTES, lock_folder, read_whole, remove_partial, unlock_folder, write_text
from drest_torch.training.run import resume, start
from tests.helpers.commands import python
from tests.helpers.runs import QUIET, small

OWNER = "import sys, pathlib, drest_torch.files as f; f.lock_folder(pathlib.Path(sys.argv[1]), OSError); print('owned')"


def test_a_folder_has_one_owner_until_its_process_ends(tmp_path):
    command = [sys.executable, "-c", OWNER + "; sys.stdout.flush(); sys.stdin.read()", str(tmp_path)]
    other = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == "owned\n"
    with pytest.raises(ConfigError, match="another process"):
        lock_folder(tmp_path, lambda: ConfigError("another process"))
    other.kill()  # it has no chance to tidy up
    other.communicate()
    for _ in range(2):  # once more in the same process
        lock_folder(tmp_path, lambda: ConfigError("another process"))
    assert "OSError" in python("-c", OWNER, tmp_path, status=1)
    unlock_folder(tmp_path)
    assert python("-c", OWNER, tmp_path) == "owned\n"


@pytest.mark.slow
def test_a_second_process_in_a_folder_is_refused(tmp_path):
    run = start(small(tmp_path / "run"))
    printed = python("-m", "drest_torch.train", f"resume={tmp_path / 'run'}", "progress=false", status=2)
    assert "another process trains in it; wait for it, or choose another run_dir" in printed
    assert run.train() is not None


@pytest.mark.parametrize("name", ["config.yaml", "summary.json"])
def test_a_run_does_not_begin_in_the_folder_of_another(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match="holds a run already"):
        start(small(tmp_path))
    assert (tmp_path / name).read_text() == "mine"


def test_a_run_with_deleted_checkpoints_does_not_restart(run):
    before = (run / "metrics.jsonl").read_bytes()
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="no checkpoint in it, though the run has trained"):
        resume(run)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_whose_logger_cannot_start_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("drest_torch.tracking.csv_sink.Logger", Mock(side_effect=UserError("no logger")))
    with pytest.raises(UserError):
        start(small(tmp_path / "run", "logger=csv")).train()
    assert not (tmp_path / "run").exists()


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
def test_a_fork_of_a_process_that_has_trained_can_train(tmp_path):
    words = ["algo=tabular", "levels=example", "env_steps=2000", "evaluations=1", "pictures=0", *QUIET]
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    subprocess.run([sys.executable, "-c", FORK, *words], cwd=tmp_path, env=environment, timeout=90, check=True)
    assert (tmp_path / "child" / "summary.json").exists()


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch):
    run = start(small(tmp_path / "run", "algo=ppo"))
    update = run.update

    def poisoned():
        metrics = update()
        next(iter(run.algorithm.policy.parameters())).data.fill_(torch.nan)
        return metrics

    monkeypatch.setattr(run, "update", poisoned)
    with pytest.raises(ConfigError, match=r"not finite in update 2 \(.*loss/objective nan.*; use a larger reward\.lam"):
        run.train()
    for path in step_checkpoints(tmp_path / "run" / "checkpoints"):
        assert all(tensor.isfinite().all() for tensor in load_checkpoint(path)[0].values())


@pytest.mark.slow
def test_a_run_with_clipped_rewards_prints_a_warning(tmp_path, capsys):
    start(small(tmp_path / "a", "reward.lam=0.5", "reward.episodes_per_meta=256")).train()
    assert "a length that is hardly ever chosen can be paid 10^38; rewards are cut at 10^13" in capsys.readouterr().err
    start(small(tmp_path / "b")).train()
    assert "rewards are cut" not in capsys.readouterr().err


@pytest.mark.parametrize("env", ["levels=example", "env=cartpole"])
def test_a_run_that_needs_too_much_memory_does_not_begin(env, tmp_path, monkeypatch):
    monkeypatch.setattr("drest_torch.evaluation.memory_guard.free_memory", lambda: 2.0**20)
    cfg = compose(env, "algo=ppo", "policy.width=512", "policy.depth=3", f"run_dir={tmp_path / 'run'}")
    with pytest.raises(ConfigError, match=r"at least [\d.]+ GiB .* use a smaller (policy\.width|algo\.episodes)"):
        start(cfg)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_networks_need_the_memory_of_four_copies(monkeypatch):
    needed = COPIES * 4 * (8 * 16 + 16)
    for free, fits in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr("drest_torch.evaluation.memory_guard.free_memory", lambda free=free: float(free))
        with nullcontext() if fits else pytest.raises(ConfigError), MemoryGuard():
            nn.Linear(8, 16)


def test_too_little_memory_is_reported_in_a_sentence():
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 60)
    sentence = "more memory was needed than there is: 4,294,967,296.0 GiB at once; use a smaller"
    assert sentence in sentence_of(error.value)


def test_other_runtime_errors_keep_their_traceback():
    with pytest.raises(RuntimeError, match="shapes"):
        sentence_of(RuntimeError("shapes do not match"))


def test_garbage_collection_resumes_after_imports(monkeypatch):
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(gc.isenabled()))
    with importing():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert frozen == []  # nothing was imported
    with importing():
        monkeypatch.setitem(sys.modules, "imported_by_this_test", gc)
    assert gc.isenabled()
    assert frozen == [False]


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    with open(tmp_path / "large.jsonl", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    for name, reason in (("pipe", "not a regular file"), ("zero", "not a regular file"), ("large", "expected at most")):
        for read in (read_whole, read_levels):
            with pytest.raises(FileError, match=reason):
                read(tmp_path / f"{name}.jsonl")


def test_only_regular_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", Path(os.devnull), tmp_path, Path(), Path("/")):
        with pytest.raises(FileError, match=r"is not a regular file|Is a directory|is not the path of a file"):
            write_text(path, "mine")
    assert [path.stem for path in tmp_path.iterdir()] == ["pipe"]


def test_only_partially_written_files_are_removed(tmp_path):
    ours, others = ".0123456789abcdef.partial", (".mine.partial", "0123456789abcdef.partial", "kept")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ours).write_text("another's")
    folder = tmp_path / "run"
    (folder / "inner").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    for name in (ours, *others):
        (folder / "inner" / name).write_text("")
    remove_partial(folder)
    assert sorted(path.name for path in (folder / "inner").iterdir()) == sorted(others)
    assert (tmp_path / "elsewhere" / ours).read_text() == "another's"
