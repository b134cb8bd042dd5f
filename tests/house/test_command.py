"""The command `drest`: it names its commands, runs them, and completes what is typed."""

import re
import shlex
import shutil
import subprocess

import pytest

import drest_torch
from drest_torch.__main__ import COMMANDS, main
from tests.helpers.commands import python

CORE_ONLY = """
import sys
from importlib.machinery import PathFinder
found = PathFinder.find_spec
hidden = "hydra wandb numba matplotlib pandas rich jinja2 markdown_it PIL cycler gymnasium huggingface_hub".split()
def find_spec(name, *rest, **more):
    return None if name.partition(".")[0] in hidden else found(name, *rest, **more)
PathFinder.find_spec = staticmethod(find_spec)
"""
"""The beginning of a program that runs where none of the extras is installed."""


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 0, [f"drest {name}" for name in COMMANDS]),
        (["--version"], 0, [f"drest_torch {drest_torch.__version__}\n"]),
        (["show", "spacious"], 0, ["Spacious"]),
        (["trian"], 2, ["trian", "did you mean 'train'?"]),
        (["show", "nowhere"], 2, ["drest show: "]),
        (["completion", "fish"], 2, ["expected one of bash, zsh"]),
    ],
)
def test_what_the_command_says(arguments, status, words, call):
    done = call(main, *arguments)
    assert done.code == status
    assert all(word in (done.err if status else done.out) for word in words)
    assert done.err.count("\n") == bool(status)


@pytest.fixture(scope="module")
def script():
    """The completion script of bash."""
    return python("-m", "drest_torch", "completion", "bash")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("breaks", ["\"'><=;|&(:", "\"'><;|&(:"], ids=["words break at =", "words do not"])
@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("drest ev", "evaluate"),
        ("drest train algo=pp", "algo=ppo"),
        ("drest train objective=k", "objective=kl"),
        ("drest train policy.wid", "policy.width="),
        ("drest train levels.path=my", "levels.path=my level.txt"),
        ("drest train resume=runs/f", "resume=runs/first"),
        ("drest evaluate run=ru", "run=runs"),
        ("drest compare ru", "runs"),
        ("drest show example my", "my level.txt"),
    ],
)
def test_bash_completes_options_values_and_paths(script, typed, wanted, breaks, tmp_path):
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "my level.txt").touch()
    words = re.findall(r"=|[^ =]+" if "=" in breaks else r"\S+", typed)
    program = (
        f"COMP_WORDBREAKS={shlex.quote(breaks)}; before=$COMP_WORDBREAKS\n{script}\n"
        f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1} COMP_LINE={shlex.quote(typed)}\n"
        'COMP_POINT=${#COMP_LINE}; _drest; printf "%s\\n" "${COMPREPLY[@]}"; [ "$before" = "$COMP_WORDBREAKS" ]'
    )
    done = subprocess.run(["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [wanted.rpartition("=")[2] if "=" in breaks and "=" in typed else wanted]


@pytest.mark.slow
def test_the_core_needs_none_of_what_the_commands_need():
    """Reward, metrics, worlds, exact evaluation and the agent that ships."""
    program = (
        "from drest_torch import Agent, DReSTReward, usefulness, neutrality\n"
        "from drest_torch.envs.interfaces.torchrl_env import GridworldEnv\n"
        "from drest_torch.envs.levels import world\n"
        "GridworldEnv([world('example')], num_slots=2, episodes_per_meta=2).reset()\n"
        "print(Agent.load('generalist').evaluate('example').neutrality > 0.9)\n"
    )
    assert python("-c", CORE_ONLY + program) == "True\n"


def test_without_the_extra_a_command_says_what_to_install():
    program = "from drest_torch.__main__ import main\nsys.argv = ['drest', 'train']\nsys.exit(main())\n"
    said = python("-c", CORE_ONLY + program, status=2)
    assert said == "drest: 'train' needs more than the core; pip install 'drest_torch[train]'\n"
