"""The command `drest`: it names its commands, and runs them."""

import subprocess
import sys

import pytest

import drest_torch
from drest_torch.__main__ import COMMANDS, main

CORE_ONLY = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = {blocked}
def find_spec(name, *rest, **more):
    return None if name.partition(".")[0] in hidden else found(name, *rest, **more)
PathFinder.find_spec = staticmethod(find_spec)
"""
TRAIN_EXTRA = ("hydra", "wandb", "numba", "matplotlib", "pandas", "rich", "jinja2", "markdown_it", "PIL", "cycler")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 0, [f"drest {name}" for name in COMMANDS]),
        (["--version"], 0, [f"drest_torch {drest_torch.__version__}\n"]),
        (["show", "spacious", "--no-picture"], 0, ["Spacious"]),
        (["trian"], 2, ["trian", "did you mean 'train'?"]),
        (["show", "nowhere"], 2, ["drest show: "]),
    ],
)
def test_what_the_command_says(arguments, status, words, call):
    done = call(main, *arguments)
    assert done.code == status
    assert all(word in (done.err if status else done.out) for word in words)
    assert done.err.count("\n") == bool(status)


@pytest.mark.slow
def test_the_core_needs_none_of_what_the_commands_need():
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


def test_without_the_extra_a_command_says_what_to_install():
    program = CORE_ONLY.format(blocked=TRAIN_EXTRA) + (
        "from drest_torch.__main__ import main\nsys.argv = ['drest', 'train']\nsys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "drest: 'train' needs more than the core; pip install 'drest_torch[train]'\n"
