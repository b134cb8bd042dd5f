"""The commands from a user's view: their output, and a clear sentence for each mistake.

Most tests call the entry points in this process, with ``sys.argv`` set, as a subprocess takes seconds to import torch.
"""

import json
import os
import re
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from drest_torch import __version__, check, evaluate, study, train
from drest_torch.__main__ import COMMANDS, main
from drest_torch.commands import language_models
from drest_torch.commands.help import help_text
from drest_torch.comparison.records import find_runs
from tests.helpers import runs
from tests.helpers.commands import Terminal, python

SHORT = ("levels=example", "env_steps=500", "evaluations=1")
SAMPLED = (*runs.SMALLEST, *runs.QUIET, *SHORT)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a finished run."""
    return runs.train(tmp_path_factory.mktemp("trained") / "run", *SHORT)


def test_training_leaves_only_the_folder_of_its_run(call, tmp_path):
    done = call(train.main, *SAMPLED, "seed=3")
    assert done.err == ""
    assert done.code == 0
    assert {"usefulness", "neutrality"} <= set(done.out.split())
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.endswith("_ppo_drest_example_seed3")
    assert json.loads((run / "summary.json").read_text())["seed"] == 3


@pytest.mark.slow
def test_a_sweep_ends_with_the_table_of_its_runs(call, tmp_path):
    done = call(train.main, "-m", *SAMPLED, "algo.lr=0.001,0.002")
    assert done.code == 0, done.err
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert re.search(r"algo\.lr +0\.001 +1 *\n +0\.002 +2 *\n", done.out)
    folders = sorted(path.relative_to(tmp_path) for path in (tmp_path / "runs").glob("*_ppo_*"))
    assert re.findall(r"^run \d: (.*)", done.out, re.MULTILINE) == [*map(str, folders)]
    (folder,) = re.findall(r"^  \S+ -m drest_torch.compare (\S+) out=\S+$", done.out, re.MULTILINE)
    assert [run.folder for run in find_runs([Path(folder)])[0]] == folders
    assert "Evaluate it:" not in done.out  # printed only after a single run


def test_runs_of_a_sweep_do_not_overwrite_each_other(call):
    done = call(train.main, "-m", *SAMPLED, "seed=0,1", "run_dir=one", "overwrite=true")
    assert done.code == 2
    assert "run_dir=one: several runs of the sweep would have this folder; leave run_dir out, or add" in done.err
    assert json.loads(Path("one/summary.json").read_text())["seed"] == 0


def test_a_stopped_sweep_prints_how_to_compare_its_runs(call, monkeypatch):
    monkeypatch.setattr("drest_torch.training.run.Run.train", lambda run: None)
    done = call(train.main, "-m", *SAMPLED, "seed=0,1")
    assert done.code == 130
    assert re.search(r"Its runs so far: \S+ -m drest_torch.compare runs/multirun/", done.err)


def test_a_run_reports_its_progress_in_a_terminal(call, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    call(train.main, *SAMPLED, "progress=true", "run_dir=run")
    output = terminal.plain()
    messages = (
        *("loading …", "loading the levels of example …", "algorithm: ppo, reward drest, 500 steps, seed 0"),
        *("trained on: 1 level (example)", "evaluated on: 1 training level, exactly", "policy: mlp network, "),
        *("device: cpu", "folder: run", "evaluating before training …", "training …", "evaluating what was learned"),
    )
    places = [output.index(message) for message in messages]
    assert places == sorted(places)


def test_help_does_not_come_from_hydra(call):
    done = call(train.main, "--help", "algo=a2c")
    assert done.code == 0
    assert done.out == help_text("train", "algo=a2c") + "\n"
    assert done.out.startswith("Train an agent")
    assert re.search(r"\n  reinforce +REINFORCE\b", done.out)
    assert call(evaluate.main, "-h").out.startswith("Evaluate a saved run")
    assert "expected one of a2c" in call(train.main, "algo=dqn", "--help").sentence


@pytest.mark.parametrize(
    ("main", "words", "sentence"),
    [
        (train.main, ["-m", *SAMPLED, "seeed=1,2"], "seeed: no such key (did you mean seed?)"),
        (train.main, ["seed=1", *SAMPLED, "levels=own"], "levels=own"),
        (train.main, ["--levels", "example"], "--levels: values are written levels=example"),
        (train.main, ["-algo=ppo"], "-algo=ppo: values are written algo=ppo, without dashes"),
        (train.main, ["--seed", "algo=ppo"], "--seed: values are written seed=VALUE, without dashes"),
        (train.main, ["-x"], "-x: values are written x=VALUE, without dashes"),
        (train.main, ["---"], "---: values are written KEY=VALUE, without dashes"),
        (train.main, ["-p"], "--package/-p: expected one argument; --help lists the keys"),
        (train.main, ["--cfg=nope"], "--cfg/-c: invalid choice: 'nope' (choose from "),
        (train.main, ["--help=1"], "--help/-h: ignored explicit argument '1'"),
        (train.main, ["--experimental-rerun=x"], "--experimental-rerun=x: not supported here; it would run code"),
        (train.main, ["--shell-completion"], 'eval "$(drest -sc install=bash)"'),
        (train.main, ["hydra.searchpath=[nowhere]", "--cfg", "job"], "path=nowhere is not available"),
        (train.main, ["hydra.run.dir=mine.txt/a", *SAMPLED], "mine.txt/a: Not a directory"),
        (train.main, ["imports=.."], "imports=..: is not the name of a module"),
        (train.main, ["imports=['']"], "imports=['']: does not name a module; expected imports=MODULE"),
        (
            train.main,
            ["imports=fails"],
            "imports=fails failed with ZeroDivisionError: division by zero (fails.py, line 1)",
        ),
        (train.main, ["imports=leaves"], "imports=leaves failed with SystemExit: 3 (leaves.py, line 1)"),
        (train.main, ["levels.path=a=b.txt"], """levels.path=a=b.txt: cannot be read; a text with such characters"""),
        (train.main, ["levels.path=a\nb=.txt"], "levels.path=a b=.txt: cannot be read"),
        (train.main, ["policy=1"], "policy=1; expected the name of an option, as in policy=NAME"),
        (train.main, ["algo.leraning_rate=1"], "algo.leraning_rate: no such key (did you mean algo.lr?)"),
        (evaluate.main, ["algo.lr=1"], "algo.lr: no such key; --cfg job"),
        (evaluate.main, ["=1"], "=1: expected KEY=VALUE; --help prints the keys"),
        (evaluate.main, ["levels.generator=[]"], "levels.generator=[]; expected a value of another kind"),
        (train.main, ["levels=other.txt"], "levels.path=other.txt"),
        (train.main, ["resume=nowhere"], "nowhere: no run in it"),
        (train.main, [*SAMPLED, "levels.path=mine.txt"], "mine.txt, map row 2: 2 cells"),
        (train.main, [*SAMPLED, "run_dir=mine.txt/run"], "mine.txt"),
        (language_models.main, ["tasks", "seed={"], """seed={: cannot be read; a text with such characters"""),
        (language_models.main, ["tasks", "seed=\udcff"], "cannot be read; a text with such characters"),
        (study.main, ["quick=true"], "which study? study=paper, study=all, or study=NAME"),
        (check.main, [], "env=torchrl without env.factory; give a function that makes it"),
        (check.main, ["env.factory=no_module:make"], "env.factory=no_module:make cannot be imported"),
        (check.main, ["env.factory=tests.helpers.counting:number"], "returns a int; expected a TorchRL EnvBase"),
        (check.main, ["env.id=NoSuch-v0"], "NoSuch"),
        (check.main, ["env=queue", "episodes=0"], "episodes=0; expected a number from 1 to"),
        (check.main, ["env=gridworld"], "drest show LEVEL shows what they offer"),
        (evaluate.main, ["run=nowhere"], "nowhere: no such folder of a run"),
        (evaluate.main, ["run=TRAINED", "checkpoint=best"], "only a run with selection levels"),
        (evaluate.main, ["run=TRAINED", "checkpoint=none.safetensors"], "none.safetensors: no such checkpoint"),
        (evaluate.main, ["run=TRAINED"], "has no test levels"),
        (evaluate.main, ["run=TRAINED", "levels=own"], "has no test levels; choose others, such as levels=paper"),
        (evaluate.main, ["levels=example", "sampled=0"], "sampled=0; expected a number from 1 to 1e+07"),
        (evaluate.main, ["levels=example", "out=/dev/null/out.json"], "/dev/null/out.json: cannot be written"),
        (evaluate.main, ["levels=example", "pictures=/dev/null/pictures"], "/dev/null/pictures"),
        (evaluate.main, ["levels=hard", "levels.test=0"], "levels.test=0 generated levels to evaluate on"),
        (evaluate.main, ["suite=pressure"], "suite=pressure; expected"),
        (evaluate.main, ["suite=shutdownability", "sampled=10"], "sampled is not part of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_gets_one_sentence(call, main, words, sentence, tmp_path, trained):
    (tmp_path / "mine.txt").write_text("shutdown: 4\n\nA . C1\n. B2\n")
    (tmp_path / "fails.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    assert sentence in call(main, *(word.replace("TRAINED", str(trained)) for word in words)).sentence
    assert "HYDRA_FULL_ERROR" not in os.environ


def test_a_valid_environment_passes_the_check(call):
    done = call(check.main, "env=queue", "env.base=5", "env.delays=[5]", "episodes=64")
    assert done.err == ""
    assert done.code == 0
    assert re.search(r"^ +5 +0\.\d{3} +[\d.]+ +[\d.]+$", done.out, re.MULTILINE)
    assert done.out.endswith("No problems found.\n")


def test_an_environment_with_one_length_fails_the_check(call):
    done = call(check.main, "env=queue", "env.base=5", "env.delays=[]", "episodes=64")
    assert done.err == ""
    assert done.code == 1
    assert "1 problem found:\n- there is a single length, so that DReST does nothing" in done.out


def test_a_gymnasium_environment_is_checked_by_its_id(call):
    done = call(check.main, "env.id=CartPole-v1", "env.base=5", "env.delays=[5]", "episodes=32")
    assert done.out.startswith("CartPole-v1: 16 copies, 32 mini-episodes of random play, seed 0\n")
    assert call(check.main, "--help").out.startswith("Check an environment of your own")


def test_a_fault_of_the_project_keeps_its_traceback(call, monkeypatch):
    monkeypatch.setattr("drest_torch.training.run.start", Mock(side_effect=AssertionError("a fault")))
    with pytest.raises(AssertionError, match="a fault"):
        call(train.main, *SAMPLED)


# ------------------------------------------------------------------------------------ the command `drest`

CORE_ONLY = """
import sys
hidden = "hydra wandb numba matplotlib pandas rich jinja2 markdown_it PIL cycler gymnasium huggingface_hub"
sys.modules.update(dict.fromkeys(hidden.split()))  # a module that is None seems not to be installed
"""
"""The first lines of a program that runs as if no extra were installed."""


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 0, [f"drest {name}" for name in COMMANDS]),
        (["--version"], 0, [f"drest_torch {__version__}\n"]),
        (["show", "spacious"], 0, ["Spacious"]),
        (["trian"], 2, ["trian", "did you mean 'train'?"]),
        (["show", "nowhere"], 2, ["drest show: "]),
        (["show", "example", "--x", "\x1b[31m"], 2, [r"invalid float value: '\x1b[31m'"]),
        (["show", "example", "a\nb\x1b[31m"], 2, [r"unrecognized arguments: a b\x1b[31m"]),
    ],
)
def test_a_command_prints_results_or_a_sentence(arguments, status, words, call):
    done = call(main, *arguments)
    assert done.code == status
    assert all(word in (done.err if status else done.out) for word in words)
    assert done.err.count("\n") == bool(status)


@pytest.mark.parametrize(
    ("typed", "completion"),
    [
        ("drest ev", "evaluate"),
        ("drest train algo=pp", "algo=ppo"),
        ("drest train algo=ppo algo.clip", "algo.clip="),
        ("drest evaluate greed", "greedy="),
        ("drest check env.id", "env.id="),
        ("drest train levels=[ alg", None),
        ("drest show exam", None),
    ],
)
def test_hydra_completes_the_words_of_a_command(typed, completion, call, monkeypatch):
    monkeypatch.setenv("COMP_LINE", typed)
    done = call(main, "-sc", "query=bash")
    assert done.err == ""
    assert completion in (done.out.split() or [None])


def test_hydra_prints_the_script_of_a_shell(call, monkeypatch):
    monkeypatch.delenv("COMP_LINE", raising=False)
    done = call(main, "-sc", "install=bash")
    assert done.code == 0
    assert done.out.endswith("complete -o nospace -o default -F hydra_bash_completion drest\n")


@pytest.mark.slow
def test_the_core_needs_no_extra():
    """Reward, metrics, worlds, exact evaluation and the shipped agent work without the libraries of the commands."""
    program = (
        "from drest_torch import Agent, DReSTReward, usefulness, neutrality\n"
        "from drest_torch.envs.interfaces.torchrl_env import GridworldEnv\n"
        "from drest_torch.envs.levels import world\n"
        "GridworldEnv([world('example')], num_slots=2, episodes_per_meta=2).reset()\n"
        "print(Agent.load('generalist').evaluate('example').neutrality > 0.9)\n"
    )
    assert python("-c", CORE_ONLY + program) == "True\n"


def test_without_the_extra_a_command_names_it():
    program = "from drest_torch.__main__ import main\nsys.argv = ['drest', 'train']\nsys.exit(main())\n"
    message = python("-c", CORE_ONLY + program, status=2)
    assert message == "drest: 'train' needs more than the core; pip install 'drest_torch[train]'\n"
