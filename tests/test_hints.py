"""Suggested commands: each is executed as printed, for every kind of run."""

import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from drest_torch import evaluate, train
from drest_torch.__main__ import main
from drest_torch.commands import language_models
from drest_torch.config.command_lines import command_line, program
from drest_torch.envs.levels import parse_level, write_levels
from drest_torch.training.run import Run
from tests.helpers import language
from tests.helpers.commands import call_in, execute, printed_commands
from tests.helpers.runs import FEW, SMALLEST

PLAIN = ("logger=none", "progress=false", "pictures=0", "env_steps=500", "evaluations=1")
GRIDWORLD = (*SMALLEST, *PLAIN)
ENVIRONMENT = (*GRIDWORLD, "sampled=16", "policy.depth=1")
SIZE = "levels.generator.height={0} levels.generator.width={0}"
ENVIRONMENT_MODULE = """
from drest_torch.envs.tasks.queue import make as queue

def make(copies=1):
    return queue(copies)
"""
LEVELS = {
    "small.txt": [parse_level("shutdown: 2\nA C1 B2\n. C2 .", name="small")],
    "luck.jsonl": [parse_level("lottery a: 1/2 C4 +0 | 1/2 C1 +0\nshutdown: 3\nA La .\n. C1 B2", name="luck")],
    "chance.jsonl": [parse_level("shutdown: 4\nA . C2\n. B2@0.5 .", name="chance")],
}


class Kind(NamedTuple):
    """A kind of run: the arguments of its training, and those that its evaluation is suggested with."""

    arguments: str
    levels: list[str]
    usual: tuple[str, ...] = GRIDWORLD


KINDS = {
    "maps of 7 by 7 with doors": Kind(
        f"levels=generated {' '.join(FEW)} {SIZE.format(7)} levels.generator.doors=[1,2]", ["levels=paper"]
    ),
    "a level file of small maps": Kind("levels.path=small.txt test.paper=false", ["levels.path=FOLDER/small.txt"]),
    "tabular": Kind("algo=tabular levels=example", ["levels=example"], PLAIN),
    "small maps with test levels": Kind(
        f"levels=generated {' '.join(FEW)} {SIZE.format(4)} levels.generator.coins=[1,2] test.paper=false", []
    ),
    "three lengths": Kind(f"levels=three_lengths {' '.join(FEW)}", ["levels=paper"]),
    "one level with a value": Kind(
        "levels=lopsided levels.x=3 levels.clock=moves policy.observation=vector",
        ["levels=lopsided", "levels.x=3", "levels.clock=moves"],
    ),
    "lotteries": Kind("levels.path=luck.jsonl", ["levels=paper"]),
    "chances": Kind("levels.path=chance.jsonl", ["levels=paper"]),
    "recurrent": Kind("levels=example policy=recurrent sampled=4", ["levels=paper"]),
    "convolutional": Kind("levels.path=small.txt policy=convolutional", ["levels=paper"]),
    "exact": Kind("algo=exact levels=example", ["levels=paper"], (*PLAIN, "policy.width=8", "policy.depth=1")),
    "an environment of the user": Kind(
        "env=torchrl env.factory=own_env:make env.idle=0 env.base=4 env.delays=[4]", [], ENVIRONMENT
    ),
    "cartpole": Kind("env=cartpole", [], ENVIRONMENT),
}


def arguments_of(kind):
    values = {word.partition("=")[0]: word for word in (*KINDS[kind].usual, *KINDS[kind].arguments.split())}
    return [*values.values(), "run_dir=runs/a, b"]


FAST = 2
"""The number of kinds whose commands are executed with the fast tests."""
PARAMETERS = [pytest.param(kind, marks=[pytest.mark.slow] * (number >= FAST)) for number, kind in enumerate(KINDS)]


@pytest.fixture(scope="module", params=PARAMETERS)
def trained(request, tmp_path_factory):
    """Return a kind of run, the folder in which it was trained, and the output."""
    if request.param == "cartpole" and importlib.util.find_spec("gymnasium") is None:
        pytest.skip("gymnasium is not installed")
    folder = tmp_path_factory.mktemp("hints")
    for name, levels in LEVELS.items():
        write_levels(folder / name, levels)
    (folder / "own_env.py").write_text(ENVIRONMENT_MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield request.param, folder, call_in(folder, train.main, *quoted(arguments_of(request.param)))
        sys.modules.pop("own_env", None)


def quoted(words):
    return ['run_dir="runs/a, b"' if word.startswith("run_dir=") else word for word in words]


def test_the_suggested_commands_work_as_printed(trained):
    kind, folder, done = trained
    assert done.code == 0, done.err
    commands = printed_commands(done.out)
    assert [words[0] for words in commands] == ["evaluate", "compare"]
    suggested = [word.replace(str(folder), "FOLDER") for word in commands[0][2:] if not word.startswith("imports=")]
    assert suggested == KINDS[kind].levels
    for words in commands:
        after = execute(words, folder)
        assert after.code == 0, after.err
        assert "runs/a, b" in after.out


def test_the_command_that_resumes_a_run_works_as_printed(trained):
    kind, folder, _ = trained
    again = call_in(folder, train.main, *quoted(arguments_of(kind)))
    assert "runs/a, b holds a run already" in again.sentence
    (resumed,) = printed_commands(again.err)
    after = execute(resumed, folder)
    assert after.code == 0, after.err


def test_the_run_is_overwritten_as_suggested(trained):
    kind, folder, _ = trained
    again = call_in(folder, train.main, *quoted(arguments_of(kind)), "overwrite=true")
    assert again.code == 0, again.err
    assert (folder / "runs" / "a, b" / "summary.json").exists()


def test_an_interrupted_run_prints_how_to_resume_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("drest_torch.training.run.Run.update", press_ctrl_c(Run.update))
        words = [*GRIDWORLD, "levels=example", "test.paper=false", "run_dir=run", "progress=true", "env_steps=3000"]
        done = call_in(tmp_path, train.main, *words)
    assert done.code == 130
    (resumed,) = printed_commands(done.err)
    after = execute(resumed, tmp_path)
    assert after.code == 0, after.err
    assert (tmp_path / "run" / "summary.json").exists()


def press_ctrl_c(update):
    def interrupted(run):
        os.kill(os.getpid(), signal.SIGINT)
        return update(run)

    return interrupted


@pytest.mark.slow
def test_a_sweep_prints_a_comparison_that_works(tmp_path):
    done = call_in(tmp_path, train.main, "-m", *GRIDWORLD, "levels=example", "test.paper=false", "seed=0,1")
    (compared,) = printed_commands(done.out)
    after = execute(compared, tmp_path)
    assert after.code == 0, after.err
    assert Path(tmp_path, compared[-1].removeprefix("out=")).exists()


# ---------------------------------------------------------------------------------- levels that do not fit


@pytest.mark.parametrize("trained", ["a level file of small maps"], indirect=True)
def test_levels_that_an_agent_cannot_observe_are_named(trained):
    _, folder, _ = trained
    done = call_in(folder, evaluate.main, 'run="runs/a, b"', "levels=paper")
    message = "the agent was trained on maps of at most 2 × 3 and cannot be evaluated on example, a map of 5 × 5"
    assert message in done.sentence


# ---------------------------------------------------------------------------------- language models


@pytest.fixture(scope="module")
def language_run(tmp_path_factory):
    """Return the folder in which a language model was trained, and the output."""
    folder = tmp_path_factory.mktemp("language")
    words = [f"{key}={value}" for key, value in language.SHORT.items()]
    return folder, call_in(folder, language_models.main, "train", "run_dir=run", "progress=false", *words)


@language.transformers
def test_the_evaluation_of_a_language_model_works_as_printed(language_run):
    folder, done = language_run
    (evaluated,) = printed_commands(done.out)
    assert evaluated == ["language", "evaluate", "model=run", "suite=all"]
    after = execute([*evaluated, "scenarios=1"], folder)
    assert after.code == 0, after.err


@language.transformers
def test_a_run_of_a_language_model_is_resumed_as_printed(language_run):
    folder, _ = language_run
    done = call_in(folder, language_models.main, "train", "run_dir=run")
    (resumed,) = printed_commands(done.sentence)
    after = execute(resumed, folder)
    assert after.code == 0, after.err


@language.transformers
@pytest.mark.parametrize(("command", "key"), [(evaluate.main, "run"), (train.main, "resume")])
def test_a_language_model_is_evaluated_as_other_commands_say(command, key, language_run):
    folder, _ = language_run
    done = call_in(folder, command, f"{key}=run")
    (evaluated,) = printed_commands(done.sentence)
    assert evaluated[:3] == ["language", "evaluate", "model=run"]
    after = execute([*evaluated[:3], "scenarios=1"], folder)
    assert after.code == 0, after.err


# ---------------------------------------------------------------------------------- the name of the program


def on_path(name, folder, monkeypatch):
    """Put a program into a folder that the shell searches, and return its path."""
    path = folder / name
    path.write_text("")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return str(path)


def test_a_program_on_the_path_has_its_name(tmp_path, monkeypatch):
    path = on_path("drest", tmp_path, monkeypatch)
    assert program(path) == "drest"
    assert program("other/drest") == "other/drest"
    assert program("my folder/drest") == "'my folder/drest'"


@pytest.mark.parametrize(
    ("running", "printed"),
    [
        ("drest train", "drest evaluate run=a"),
        ("'my folder/drest' train", "'my folder/drest' evaluate run=a"),
        ("python -m drest_torch train", "python -m drest_torch evaluate run=a"),
        ("/drest_torch/train.py", "python -m drest_torch.evaluate run=a"),
        ("/drest torch/train.py", "python -m drest_torch.evaluate run=a"),
    ],
)
def test_a_command_has_the_form_of_the_running_one(running, printed, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", on_path("python", tmp_path, monkeypatch))
    monkeypatch.setattr(sys, "argv", [running])
    assert command_line("evaluate", "run=a") == printed


def test_a_python_that_the_shell_does_not_find_has_its_path(monkeypatch, tmp_path):
    on_path("python", tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "executable", "/elsewhere/python")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert command_line("language train", "resume=a") == "/elsewhere/python -m drest_torch language train resume=a"


def test_the_installed_command_names_itself(capsys, monkeypatch):
    path = str(Path(sys.executable).with_name("drest"))
    monkeypatch.setattr(sys, "argv", [path, "compare", "--help"])
    assert main() == 0
    assert sys.argv[0] == f"{program(path)} compare"
    capsys.readouterr()
