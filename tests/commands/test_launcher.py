"""Sweeps: failed and stopped runs, a second command in the same folder, and several runs at once."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drest_torch import train
from drest_torch.commands.launcher import launcher_arguments
from drest_torch.commands.sweep_folder import combinations, varying
from drest_torch.errors import UserError
from drest_torch.training.run import Run
from tests.helpers.commands import python
from tests.helpers.documents import ROOT
from tests.helpers.job_runners import wait_for
from tests.helpers.runs import QUIET, SMALLEST, same_run

SHORT = (*SMALLEST, *QUIET, "levels=example", "env_steps=200", "evaluations=1")
SWEEP = ("-m", *SHORT, "hydra.sweep.dir=sweep")


def folders(sweep="sweep"):
    return [Path(sweep, line) for line in Path(sweep, "runs.txt").read_text().splitlines()]


def finished():
    return [(folder / "summary.json").is_file() for folder in folders()]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["workers=2"], "add -m, or set threads"),
        (["-m", "workers=none"], "workers=none; expected a number of runs at once"),
        (["-m", "workers=0"], "workers=0; expected a number of runs at once"),
        (["hydra.sweeper=optuna"], "drest search searches with Optuna"),
        (["-m", "hydra/sweeper=optuna"], "drest search searches with Optuna"),
        (["hydra.launcher=joblib"], "-m workers=N executes N runs at once"),
    ],
)
def test_arguments_that_launch_nothing_are_refused(words, sentence):
    with pytest.raises(UserError, match=re.escape(sentence)):
        launcher_arguments(words)


def test_a_sweep_within_a_sweep_of_wandb_is_refused(monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "s7")
    assert launcher_arguments(["-m", "seed=0,1"]) == (1, ["-m", "seed=0,1"])
    monkeypatch.setenv("WANDB_RUN_ID", "r1")
    assert launcher_arguments(["seed=0"]) == (1, ["seed=0"])
    with pytest.raises(UserError, match="-m within the W&B sweep s7: each of its runs is one training; leave -m out"):
        launcher_arguments(["-m", "seed=0,1"])


@pytest.mark.parametrize("flag", ["-m", "--multirun", "--multi", "hydra.mode=MULTIRUN"])
def test_workers_are_removed_from_the_arguments(flag):
    assert launcher_arguments([flag, "seed=0,1", "workers=3"]) == (3, [flag, "seed=0,1"])


def test_runs_are_named_by_the_arguments_that_vary():
    identities = [("algo=ppo", "seed=0"), ("algo=ppo", "seed=1")]
    assert varying(identities[1], identities) == ["seed=1"]
    assert varying(identities[0], identities[:1]) == ["algo=ppo", "seed=0"]


@pytest.mark.parametrize("words", [["-m"], []])
def test_an_interval_in_training_names_the_search(call, words):
    sentence = call(train.main, *words, *SHORT, "reward.lam=interval(0.5,0.9)").sentence
    assert "reward.lam=interval(0.5,0.9): drest search samples from intervals" in sentence


def test_a_failed_run_does_not_end_the_sweep(call):
    done = call(train.main, *SWEEP, "reward.lam=0.5,2,0.9")
    assert done.code == 1
    assert "Failed: reward.lam=2: reward.lam=2.0; expected a number above 0, at most 1 (runs/" in done.err
    assert finished() == [True, False, True]


@pytest.mark.slow
def test_a_second_command_executes_the_missing_runs(call):
    call(train.main, *SWEEP, "seed=0,1")
    first = [(folder / "summary.json").stat().st_mtime_ns for folder in folders()]
    done = call(train.main, *SWEEP, "seed=0,1,2")
    assert done.code == 0, done.err
    assert "2 of 3 runs were finished before" in done.err
    assert [(folder / "summary.json").stat().st_mtime_ns for folder in folders()[:2]] == first
    assert [folder.name[-1] for folder in folders()] == ["0", "1", "2"]


def test_a_stopped_sweep_goes_on_with_its_last_run(call, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(Run, "train", lambda run: None)
        done = call(train.main, *SWEEP, "seed=5,6")
    assert done.code == 130
    (command,) = re.findall(r"^Continue it: \S+ -m drest_torch.train (.*)", done.err, re.MULTILINE)
    assert command.split() == [*SWEEP[:-1], "seed=5,6", "hydra.sweep.dir=sweep"]
    (began,) = folders()
    done = call(train.main, *command.split())
    assert done.code == 0, done.err
    assert folders()[0] == began
    assert finished() == [True, True]


def test_runs_of_a_sweep_cannot_share_a_folder(call):
    assert (
        "add the number of the run: 'run_dir=mine/${hydra:job.num}'"
        in call(train.main, *SWEEP, "seed=0,1", "run_dir=mine").err
    )


@pytest.mark.slow
@pytest.mark.every_turn
def test_simultaneous_runs_are_those_of_single_commands(tmp_path):
    words = ("train", *SWEEP, "reward.lam=0.5,2,0.9", "workers=2", "env_steps=1000")
    message = python("-m", "drest_torch", *words, cwd=tmp_path, status=1)
    assert "Failed: reward.lam=2: ConfigError: reward.lam=2.0; expected a number above 0" in message
    runs = [tmp_path / run for run in combinations(tmp_path / "sweep").values()]
    assert [(run / "summary.json").is_file() for run in runs] == [True, False, True]
    assert [run.name.split("_", 2)[2] for run in runs] == ["ppo_drest_example_seed0"] * 3
    alone = ("train", *SHORT, "reward.lam=0.9", "threads=1", "env_steps=1000", "run_dir=alone")
    python("-m", "drest_torch", *alone, cwd=tmp_path)
    same_run(runs[2], tmp_path / "alone")
    configs = [(run / "config.yaml").read_text().replace(str(run), "") for run in (runs[2], tmp_path / "alone")]
    lines = [[line for line in config.splitlines() if not line.startswith("run_dir:")] for config in configs]
    assert lines[0] == lines[1]


@pytest.mark.slow
def test_ctrl_c_saves_all_runs_of_a_sweep(tmp_path):
    words = ("train", *SWEEP, "seed=0,1", "workers=2", "evaluations=1000", "env_steps=1000000")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "drest_torch", *words]
    with subprocess.Popen(
        command, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        wait_for(lambda: len({*tmp_path.glob("runs/*/checkpoints/step-*")}) >= 2)
        wait_for(lambda: len({path.parent for path in tmp_path.glob("runs/*/checkpoints/step-*")}) == 2)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert " -m drest_torch train -m " in errors
    assert "Traceback" not in errors
    outputs = [path.read_text() for path in tmp_path.glob("runs/*/output.txt")]
    assert len(outputs) == 2
