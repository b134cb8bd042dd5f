"""The command `drest`: it names its commands, runs them, and completes what is typed."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

import drest_torch
from drest_torch.__main__ import COMMANDS, main
from drest_torch.completion import words_of

CORE_ONLY = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = {blocked}
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in hidden else found(name, *rest)
"""
TRAIN_EXTRA = ("hydra", "wandb", "numba", "matplotlib", "pandas", "rich", "jinja2", "markdown_it", "PIL", "cycler")


def drest(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["drest", *arguments])
    return main()


def test_help_names_every_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert drest(monkeypatch) == 0
    printed = capsys.readouterr().out
    assert all(f"drest {name}" in printed for name in COMMANDS)


def test_the_version_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert drest(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"drest_torch {drest_torch.__version__}\n"


def test_a_wrong_command_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert drest(monkeypatch, "trian") == 2
    error = capsys.readouterr().err
    assert "trian" in error
    assert "did you mean 'train'?" in error
    assert error.count("\n") == 1


def test_a_command_gets_its_arguments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert drest(monkeypatch, "show", "spacious", "--no-picture") == 0
    assert "Spacious" in capsys.readouterr().out
    assert drest(monkeypatch, "show", "nowhere") == 2
    assert capsys.readouterr().err.startswith("drest show: ")


def test_what_is_completed_are_options_and_values() -> None:
    words = set(words_of("train"))
    assert {"algo=ppo", "levels=paper", "policy.width=", "seed=", "reward.lam="} <= words
    assert "policy=" not in words
    assert "study=lambda_meta" in set(words_of("study"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert drest(monkeypatch, "completion", "bash") == 0
    script = capsys.readouterr().out
    program = f'{script}\nCOMP_WORDS=(drest train algo=pp) COMP_CWORD=2; _drest; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["algo=ppo"]
    assert drest(monkeypatch, "completion", "fish") == 2


@pytest.mark.slow
def test_the_core_needs_none_of_what_the_commands_need() -> None:
    """Reward, metrics, worlds, exact evaluation and the agent that ships, with the extra `train` left out."""
    program = CORE_ONLY.format(blocked=TRAIN_EXTRA) + (
        "from drest_torch import Agent, DReSTReward, usefulness, neutrality\n"
        "from drest_torch.envs.interfaces.torchrl_env import GridworldEnv\n"
        "from drest_torch.envs.levels import world\n"
        "GridworldEnv([world('example')], num_slots=2, episodes_per_meta=2).reset()\n"
        "print(Agent.load('generalist').evaluate('example').neutrality > 0.9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_without_the_extra_a_command_says_what_to_install() -> None:
    program = CORE_ONLY.format(blocked=TRAIN_EXTRA) + (
        "from drest_torch.__main__ import main\nsys.argv = ['drest', 'train']\nsys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "drest: 'train' needs more than the core; pip install 'drest_torch[train]'\n"
