"""Overwriting a run: what is deleted, what is kept, and what an interruption leaves."""

import os
import shutil
import subprocess
import sys

import pytest

from drest_torch import Agent
from drest_torch.agents.checkpoints import step_checkpoints
from drest_torch.config.stored import load_config, write_config
from drest_torch.errors import ConfigError, FileError, UserError
from drest_torch.files import lock_folder, unlock_folder
from drest_torch.training import overwriting
from drest_torch.training.overwriting import ASIDE, FILES, recover
from drest_torch.training.run import resume, start
from tests.helpers.runs import small
from tests.training.test_reliability import OWNER

TINY = ("env_steps=500", "evaluations=1")


def contents(folder):
    """Return the bytes of all files of a folder except the lock, by relative path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def begin(folder, *overrides):
    return start(small(folder, *TINY, "overwrite=true", *overrides))


def replaced(folder, *overrides):
    begin(folder, "seed=7", *overrides).train()
    assert load_config(folder).seed == 7
    assert not (folder / ASIDE).exists()


# ---------------------------------------------------------------------------------- what is replaced


def test_a_run_is_replaced(run):
    before = contents(run)
    replaced(run)
    assert contents(run).keys() == before.keys()
    assert contents(run)["metrics.jsonl"] != before["metrics.jsonl"]


def test_a_run_is_trained_twice_from_python(tmp_path):
    values = {"levels": "example", "logger": "none", "run_dir": tmp_path / "run", "progress": False, "pictures": 0}
    values |= {"test": {"paper": False}, "policy": {"width": 8, "depth": 1}, "env_steps": 500, "evaluations": 1}
    for seed in range(2):
        agent = Agent.train("algo.episodes=64", "reward.group=16", seed=seed, overwrite=True, **values)
        assert agent.cfg.seed == seed


def test_a_new_folder_needs_no_run_to_overwrite(tmp_path):
    begin(tmp_path / "new").train()
    assert (tmp_path / "new" / "summary.json").exists()


def test_the_stored_configuration_does_not_overwrite(run):
    replaced(run)
    assert "overwrite" not in (run / "config.yaml").read_text()
    assert load_config(run).overwrite is False


def test_other_files_are_kept(run):
    (run / "notes.txt").write_text("mine")
    (run / "more").mkdir()
    (run / "more" / "summary.json").write_text("mine")
    replaced(run)
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "more" / "summary.json").read_text() == "mine"


def test_the_target_of_a_link_is_kept(run, tmp_path):
    (tmp_path / "config").write_bytes((run / "config.yaml").read_bytes())
    (run / "config.yaml").unlink()
    (run / "config.yaml").symlink_to(tmp_path / "config")
    replaced(run)
    assert (tmp_path / "config").exists()


def test_a_run_can_be_overwritten_while_it_is_loaded(run):
    agent = Agent.load(run)
    replaced(run)
    assert agent.probabilities("example").keys() == {4, 8}


# ---------------------------------------------------------------------------------- what is refused


def check_kept(folder, match, *overrides):
    before = contents(folder)
    with pytest.raises(UserError, match=match):
        begin(folder, *overrides)
    unlock_folder(folder)
    assert contents(folder) == before


def test_a_run_is_not_overwritten_by_default(run):
    check_kept(
        run, "holds a run already; choose another run_dir, replace the run with overwrite=true", "overwrite=false"
    )


@pytest.mark.parametrize("name", ["config.yaml", "summary.json", "metrics.jsonl", "pictures"])
def test_a_folder_without_a_run_is_kept(name, tmp_path):
    (tmp_path / name).write_text("mine")
    check_kept(tmp_path, f"holds {'a run' if name != 'pictures' else name} already")


def test_a_saved_agent_is_kept(run, tmp_path):
    check_kept(Agent.load(run).save(tmp_path / "agent"), "holds a saved agent and no run")


def test_a_run_of_a_study_is_kept(run, tmp_path):
    job = shutil.copytree(run, tmp_path / "example-0-0123456789abcdef")
    (job / "result.json").write_text("{}")
    check_kept(job, "holds a run of a study")


@pytest.mark.parametrize("name", ["checkpoints/mine.pt", "pictures/notes.txt", "pictures/train/more/a.csv"])
def test_a_foreign_file_in_a_folder_of_a_run_is_kept(name, run):
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_text("mine")
    check_kept(run, f"{name}: is no file of a run, and overwrite=true would delete it; move it elsewhere")


def test_a_link_to_another_place_is_kept(run, tmp_path):
    os.rename(run / "checkpoints", tmp_path / "elsewhere")
    (run / "checkpoints").symlink_to(tmp_path / "elsewhere")
    check_kept(run, "is a link that leads out of")
    assert step_checkpoints(tmp_path / "elsewhere")


def test_the_agent_to_start_from_is_kept(run):
    check_kept(run, "would delete what the run reads", f"start_from={run}")


def test_an_invalid_run_replaces_nothing(run):
    check_kept(run, "does not divide", "reward.group=10")
    check_kept(run, "no such level|no level|nowhere", "levels.path=nowhere.jsonl")


def test_resuming_overwrites_nothing(run):
    before = contents(run)
    with pytest.raises(ConfigError, match=r"^overwrite with resume="):
        Agent.train(resume=run, overwrite=True)
    assert contents(run) == before


def test_a_run_of_another_process_is_kept(run):
    command = [sys.executable, "-c", OWNER + "; sys.stdout.flush(); sys.stdin.read()", str(run)]
    other = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == "owned\n"
    check_kept(run, "another process trains in it")
    other.communicate()


# ---------------------------------------------------------------------------------- interruptions

STEPS = 8
"""The number of steps that move or write files while the run of these tests is overwritten."""


class Killed(BaseException):
    """A killed process."""


def kill_at(number, monkeypatch):
    """Let the step of overwriting with this number fail, and all later ones, as if the process were killed."""
    steps = iter(range(10_000))

    def stopping(function):
        def call(*arguments, **options):
            if next(steps) >= number:
                raise Killed
            return function(*arguments, **options)

        return call

    for module, name in ((os, "rename"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, stopping(getattr(module, name)))
    monkeypatch.setattr("drest_torch.training.run.write_config", stopping(write_config))


@pytest.mark.parametrize("number", range(STEPS))
def test_a_killed_process_leaves_the_earlier_or_the_new_run(number, run, monkeypatch):
    """After each number of steps, the folder can be entered again, and contains one whole run."""
    before = contents(run)
    with monkeypatch.context() as patch:
        kill_at(number, patch)
        with pytest.raises(Killed):
            begin(run, "seed=7").train()
    unlock_folder(run)
    recover(run)
    assert not (run / ASIDE).exists()
    if load_config(run).seed == 7:
        assert resume(run).train() is not None
    else:
        assert contents(run) == before


def test_an_interrupted_overwriting_is_undone_by_resuming(run):
    before = contents(run)
    overwriting._move_aside(run)
    assert not (run / "config.yaml").exists()
    resume(run)
    unlock_folder(run)
    assert contents(run) == before


def test_a_second_process_does_not_recover_while_one_overwrites(run):
    overwriting._move_aside(run)
    lock_folder(run, AssertionError)
    code = (
        "import sys, pathlib; from drest_torch.training.overwriting import recover; recover(pathlib.Path(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=False)
    assert "another process begins a run in it" in done.stderr
    unlock_folder(run)
    recover(run)
    assert set(os.listdir(run)) >= set(FILES) & {"config.yaml", "metrics.jsonl", "summary.json"}


@pytest.mark.parametrize("failing", ["drest_torch.training.run.write_config", "drest_torch.tracking.csv_sink.Logger"])
def test_a_run_that_cannot_begin_puts_the_earlier_one_back(failing, run, monkeypatch):
    before = contents(run)

    def fail(*_):
        raise FileError("no space left")

    monkeypatch.setattr(failing, fail)
    with pytest.raises(FileError, match="no space left"):
        begin(run, "logger=csv").train()
    assert contents(run) == before
